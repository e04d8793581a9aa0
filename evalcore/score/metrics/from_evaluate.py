"""Metrics of the library evaluate: our own equivalents, else what lies in its cache.

The library keeps each metric as a script on the Hub, which it fetches and runs. Nothing is fetched
during an evaluation: the usual ones are here, by the same names, arguments and results; any other
must have been loaded before. A new equivalent is a function and its line in EQUIVALENTS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from evalcore.score.metrics.aggregations import of_sklearn
from evalcore.score.metrics.text import exact_match, normal_form, rouge
from evalcore.score.metrics.translation import corpus_score

Texts = Sequence[Any]


def accuracy(references: Texts, predictions: Texts, normalize: bool = True) -> dict[str, float]:
    """The share, or without `normalize` the number, of equal pairs."""
    pairs = zip(references, predictions, strict=True)
    right = sum(reference == prediction for reference, prediction in pairs)
    return {"accuracy": right / len(references) if normalize else float(right)}


def _by_sklearn(name: str, metric: str) -> Callable[..., dict[str, float]]:
    return lambda references, predictions, **arguments: {
        name: of_sklearn(metric, references, predictions, **arguments)
    }


def rouge_scores(
    references: Texts,
    predictions: Texts,
    rouge_types: Sequence[str] = ("rouge1", "rouge2", "rougeL", "rougeLsum"),
    use_stemmer: bool = False,
) -> dict[str, float]:
    return {kind: rouge(kind, references, predictions, use_stemmer) for kind in rouge_types}


def bleu(references: Texts, predictions: Texts) -> dict[str, float]:
    """From 0 to 1, without smoothing: 0 for a text that shares no four words in a row."""
    return {"bleu": _of_corpus("bleu", references, predictions, smooth_method="none") / 100}


def _of_corpus(metric: str, references: Texts, predictions: Texts, **arguments: Any) -> float:
    return corpus_score(metric, predictions, [list(references)], **arguments)


def _by_sacrebleu(metric: str) -> Callable[..., dict[str, float]]:
    return lambda references, predictions, **arguments: {
        "score": _of_corpus(metric, references, predictions, **arguments)
    }


def squad(references: Texts, predictions: Texts) -> dict[str, float]:
    """Equality and F1 of words in normal form, in per cent (Rajpurkar et al. 2016)."""
    pairs = [
        (normal_form(reference), normal_form(prediction))
        for reference, prediction in zip(references, predictions, strict=True)
    ]
    return {
        "exact_match": 100 * sum(one == other for one, other in pairs) / len(pairs),
        "f1": 100 * sum(_shared_words(one, other) for one, other in pairs) / len(pairs),
    }


def _shared_words(reference: str, prediction: str) -> float:
    """`2 · shared / (words of one + words of the other)`: the F1 of the words."""
    gold, found = reference.split(), prediction.split()
    shared = (Counter(gold) & Counter(found)).total()
    return 2 * shared / (len(gold) + len(found)) if shared else 0.0


def wer(references: Texts, predictions: Texts) -> dict[str, float]:
    """Word error rate: words to change, take out and put in, over the words of the references."""
    pairs = [
        (reference.split(), prediction.split())
        for reference, prediction in zip(references, predictions, strict=True)
    ]
    return {"wer": sum(_distance(*pair) for pair in pairs) / sum(len(words) for words, _ in pairs)}


def _distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein 1966: the fewest single changes that make one sequence the other."""
    row = list(range(len(other) + 1))
    for above, word in enumerate(one):
        diagonal, row[0] = above, above + 1
        for place, found in enumerate(other, start=1):
            changed = diagonal + (word != found)
            diagonal = row[place]
            row[place] = min(changed, row[place] + 1, row[place - 1] + 1)
    return row[-1]


EQUIVALENTS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "exact_match": exact_match,
    "accuracy": accuracy,
    "f1": _by_sklearn("f1", "f1_score"),
    "precision": _by_sklearn("precision", "precision_score"),
    "recall": _by_sklearn("recall", "recall_score"),
    "matthews_correlation": _by_sklearn("matthews_correlation", "matthews_corrcoef"),
    "rouge": rouge_scores,
    "bleu": bleu,
    "sacrebleu": _by_sacrebleu("bleu"),
    "chrf": _by_sacrebleu("chrf"),
    "ter": _by_sacrebleu("ter"),
    "squad": squad,
    "wer": wer,
}
LOWER_IS_BETTER = ("ter", "wer", "cer", "perplexity")


@cache
def cached_metric(name: str) -> Callable[..., Any] | None:
    """The metric of that name from the library's cache; None without the library or the metric."""
    try:
        import evaluate
        from datasets import DownloadConfig

        module = evaluate.load(name, download_config=DownloadConfig(local_files_only=True))
    except Exception:  # whatever its script does
        return None
    compute: Callable[..., Any] = module.compute
    return compute
