"""Which statistics follow from sums over documents alone, so that a resample costs one addition?

F1 and MCC follow from how often each pair of gold and predicted label occurs, perplexities from
sums of loglikelihoods, BLEU, chrF and TER from sums over segments (matched n-grams and their
totals, edits and lengths), which sacrebleu counts. A bootstrap then never looks at a document
again: it adds up rows of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRANSLATION = ("bleu", "chrf", "chrf++", "ter")
"""The metrics of a corpus, each with sacrebleu's defaults; chrf++ adds words of up to two."""

Array = NDArray[Any]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class SumStatistic:
    """A statistic of n documents that is a function of k sums over them."""

    rows: Array
    """Shape (n, k), int64 (counts, added exactly) or float64: what each document contributes."""
    value: Callable[[Array, Array], Values]
    """From sums of shape (draws, k) and numbers of documents (draws,) to values (draws,)."""


def sum_statistic(aggregation: str, items: Sequence[Any]) -> SumStatistic | None:
    """The aggregation of that name over `items` as sums; None where it is no function of sums.

    An item is what the metric gives for one document: a number, (gold, predicted), (loglikelihood,
    weight), (gold, probabilities) or (reference, prediction). Raises ValueError naming `items`
    where the aggregation has no value for them.
    """
    if aggregation in TRANSLATION:
        return _translation(aggregation, items)
    form = _FORMS.get(aggregation)
    return form(items) if form else None


def occurrences(drawn: NDArray[np.int64], kinds: int) -> NDArray[np.int64]:
    """How often each kind is in each resample, shape (resamples, kinds), from those drawn."""
    draws = len(drawn)
    flat = drawn + kinds * np.arange(draws)[:, None]
    return np.bincount(flat.ravel(), minlength=draws * kinds).reshape(draws, kinds)


def _of_numbers(
    columns: int, value: Callable[[Array, Array], Values]
) -> Callable[[Sequence[Any]], SumStatistic]:
    return lambda items: SumStatistic(_numbers(items, columns), value)


_mean = _of_numbers(1, lambda sums, n: sums[:, 0] / n)


def _nanmean(items: Sequence[Any]) -> SumStatistic:
    """Mean of the items that are not NaN; NaN where a resample has none but those."""
    numbers = _numbers(items)[:, 0]
    known = ~np.isnan(numbers)
    rows = np.stack([np.where(known, numbers, 0.0), known], axis=1)
    return SumStatistic(rows, lambda sums, _: _ratio(sums[:, 0], sums[:, 1], np.nan))


def _brier_score(items: Sequence[Any]) -> SumStatistic:
    losses = [
        sum((p - (choice == gold)) ** 2 for choice, p in enumerate(probabilities))
        for gold, probabilities in items
    ]
    return _mean(losses)


def _f1(items: Sequence[Any]) -> SumStatistic:
    """Of the class 1: `2 TP / (2 TP + FP + FN)`, 0 where no document is of it (as scikit-learn)."""
    labels = {label for pair in items for label in pair}
    if len(labels) > 2 or (len(labels) == 2 and 1 not in labels):
        found = ", ".join(sorted(map(repr, labels))[:5])
        raise ValueError(f"items: f1 is of two classes, one of them 1; found {found}")
    hits = [gold == predicted == 1 for gold, predicted in items]
    misses = [(gold == 1) != (predicted == 1) for gold, predicted in items]
    rows = np.stack([hits, misses], axis=1).astype(np.int64)
    return SumStatistic(
        rows, lambda sums, _: _ratio(2 * sums[:, 0], 2 * sums[:, 0] + sums[:, 1], 0.0)
    )


def average_f1(items: Sequence[Any], average: str) -> SumStatistic:
    """F1 over the classes that occur, from (gold, predicted), as scikit-learn averages it.

    `macro`: the plain mean; `weighted`: by the gold documents of each class; `micro`: from the sums
    of all classes. Raises ValueError naming `average` for another one.
    """
    if average not in ("macro", "weighted", "micro"):
        raise ValueError(f"average: expected macro, weighted or micro, got {average!r}")
    rows, k = _of_classes(items)

    def value(sums: Array, _: Array) -> Values:
        truth, predicted, hits = (sums[:, part : part + k] for part in (0, k, 2 * k))
        if average == "micro":
            return _ratio(hits.sum(axis=1), truth.sum(axis=1), 0.0)
        occurring = truth + predicted
        f1 = np.divide(2 * hits, occurring, out=np.zeros(hits.shape), where=occurring > 0)
        weights = occurring > 0 if average == "macro" else truth
        return np.asarray((f1 * weights).sum(axis=1) / weights.sum(axis=1))

    return SumStatistic(rows, value)


def _mcc(items: Sequence[Any]) -> SumStatistic:
    """Matthews' correlation coefficient of any number of classes (Gorodkin 2004).

    `(c·s - sum(t_k·p_k)) / sqrt((s² - sum(p_k²))·(s² - sum(t_k²)))` with c right of s documents,
    t_k of class k and p_k predicted as k; 0 where the root is 0 (as scikit-learn).
    """
    rows, k = _of_classes(items)

    def value(sums: Array, n: Array) -> Values:
        truth, predicted = (sums[:, part : part + k].astype(float) for part in (0, k))
        total = n.astype(float)
        covariance = sums[:, 2 * k :].sum(axis=1) * total - (truth * predicted).sum(axis=1)
        of_truth = total**2 - (truth**2).sum(axis=1)
        of_predicted = total**2 - (predicted**2).sum(axis=1)
        return _ratio(covariance, np.sqrt(of_predicted * of_truth), 0.0)

    return SumStatistic(rows, value)


def _of_classes(items: Sequence[Any]) -> tuple[Array, int]:
    """What documents (gold, predicted) add to counts over k classes, shape (n, 3 k).

    Gold, predicted, and both.
    """
    places: dict[Any, int] = {}
    gold, predicted = (
        np.array([places.setdefault(pair[side], len(places)) for pair in items]) for side in (0, 1)
    )
    k = len(places)
    rows = np.zeros((len(items), 3 * k), dtype=np.int64)
    documents = np.arange(len(items))
    rows[documents, gold] = 1
    rows[documents, k + predicted] = 1
    right = gold == predicted
    rows[documents[right], 2 * k + gold[right]] = 1
    return rows, k


def _translation(metric: str, items: Sequence[Any]) -> SumStatistic:
    rows = segment_statistics(metric, items)

    def value(sums: Array, _: Array) -> Values:
        return np.array([translation_score(metric, of_draw.tolist()) for of_draw in sums])

    return SumStatistic(rows, value)


_FORMS: Mapping[str, Callable[[Sequence[Any]], SumStatistic]] = {
    "mean": _mean,
    "nanmean": _nanmean,
    "perplexity": _of_numbers(1, lambda sums, n: _exp(-sums[:, 0] / n)),
    "weighted_perplexity": _of_numbers(
        2, lambda sums, _: _exp(-_ratio(sums[:, 0], sums[:, 1], np.nan))
    ),
    "bits_per_byte": _of_numbers(
        2, lambda sums, _: -_ratio(sums[:, 0], sums[:, 1], np.nan) / np.log(2)
    ),
    "brier_score": _brier_score,
    "f1": _f1,
    "matthews_corrcoef": _mcc,
}


def _numbers(items: Sequence[Any], columns: int = 1) -> Values:
    """The items as an array of shape (n, columns)."""
    numbers = np.asarray(items, dtype=np.float64)
    if numbers.ndim == 1 and columns == 1:
        return numbers[:, None]
    if numbers.ndim != 2 or numbers.shape[1] != columns:
        raise ValueError(f"items: expected {columns} numbers each, got shape {numbers.shape}")
    return numbers


def _ratio(above: Array, below: Array, otherwise: float) -> Values:
    """`above / below`, and `otherwise` where `below` is 0."""
    result = np.full(len(above), otherwise)
    np.divide(above, below, out=result, where=below != 0)
    return result


def _exp(exponents: Values) -> Values:
    with np.errstate(over="ignore"):  # a perplexity beyond what a float holds is infinite
        return np.exp(exponents)


def references_and_predictions(items: Sequence[Any]) -> tuple[list[list[str]], list[str]]:
    """References (one list per segment) and predictions of items (reference(s), prediction).

    A reference is a text or a list of texts, a prediction a text or a list of one. Raises
    ValueError naming `items` for anything else, or where items differ in that.
    """
    references = [[item[0]] if isinstance(item[0], str) else list(item[0]) for item in items]
    predictions = [item[1] if isinstance(item[1], str) else _only(item[1]) for item in items]
    if len({isinstance(item[0], str) for item in items}) > 1:
        raise ValueError("items: some references are texts, some are lists of texts")
    if any(not texts for texts in references):
        raise ValueError(f"items: number {references.index([])} has no reference")
    return references, predictions


def segment_statistics(
    metric: str, items: Sequence[Any], references_each: int | None = None
) -> NDArray[Any]:
    """Shape (n, k): what each segment adds to the sums that `translation_score` takes.

    As in sacrebleu's own layout, every segment has the same number of references: that of the
    segment with the fewest, or `references_each`.
    """
    references, predictions = references_and_predictions(items)
    fewest = references_each or min(len(texts) for texts in references)
    streams = [[texts[place] for texts in references] for place in range(fewest)]
    # sacrebleu's own significance tests resample these, too; there is no public name for them.
    return np.array(_scorer(metric)._extract_corpus_statistics(predictions, streams))


def translation_score(metric: str, sums: list[Any]) -> float:
    """The corpus score, 0 to 100 (TER: 0 and up), from summed statistics of segments."""
    return float(_scorer(metric)._compute_score_from_stats(sums).score)


@cache
def _scorer(metric: str) -> Any:
    # Imported late: most runs translate nothing.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if metric == "bleu":
        return BLEU(force=True)  # which only silences a warning about texts that look tokenized
    return TER() if metric == "ter" else CHRF(word_order=2 if metric == "chrf++" else 0)


def _only(texts: Sequence[str]) -> str:
    if len(texts) != 1:
        raise ValueError(f"items: expected one prediction each, got {len(texts)}: {texts!r}")
    return texts[0]
