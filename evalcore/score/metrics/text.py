"""Metrics of a generated text against reference texts.

Each takes `references` and `predictions`, lists of one length, as metrics of the library evaluate
do, and gives a number or several by name. Those of several texts for one question take the accepted
answers and all texts of the document, and what `exact_match` takes: a text is right where it equals
an accepted answer.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any

import numpy as np

from evalcore.errors import TaskError
from evalcore.stats import pass_at_k as unbiased


def exact_match(
    references: Sequence[Any],
    predictions: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> dict[str, float]:
    """The share of equal pairs; on both sides what is ignored is taken out first, in this order.

    White space counts. By arrays of texts, as the library evaluate compares them: a list in
    `predictions` is compared with its reference entry by entry.
    """
    ignoring = (regexes_to_ignore, ignore_case, ignore_punctuation, ignore_numbers)
    return {
        "exact_match": float(
            np.mean(_plain(predictions, *ignoring) == _plain(references, *ignoring))
        )
    }


def _plain(
    texts: Sequence[Any],
    regexes: Sequence[str] | None,
    ignore_case: bool,
    ignore_punctuation: bool,
    ignore_numbers: bool,
) -> Any:
    for regex in regexes or ():
        texts = [re.sub(regex, "", text) for text in texts]
    plain: Any = np.asarray(texts)
    if ignore_case:
        plain = np.char.lower(plain)
    if ignore_punctuation:
        plain = _without(plain, string.punctuation)
    if ignore_numbers:
        plain = _without(plain, string.digits)
    return plain


def _without(texts: Any, characters: str) -> Any:
    table: Any = str.maketrans("", "", characters)
    return np.char.translate(texts, table)


def quasi_exact_match(references: Sequence[Any], predictions: Sequence[Any]) -> float:
    """The share of pairs that are equal in normal form (Liang et al. 2022, HELM)."""
    pairs = list(zip(references, predictions, strict=True))
    equal = (bool(one and other) and normal_form(one) == normal_form(other) for one, other in pairs)
    return sum(equal) / len(pairs)


def normal_form(text: Any) -> str:
    """In lower case, without punctuation and English articles, words apart by one space."""
    bare = str(text).lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def rouge(
    kind: str, references: Sequence[str], predictions: Sequence[str], use_stemmer: bool = False
) -> float:
    """Mean F-measure of overlapping words (rouge1), pairs (rouge2) or sequences (Lin 2004).

    rougeL: the longest common subsequence of the texts; rougeLsum: of their lines, united.
    """
    scorer = _rouge_scorer(kind, use_stemmer)
    scores = [
        scorer.score(reference, prediction)[kind].fmeasure
        for reference, prediction in zip(references, predictions, strict=True)
    ]
    return float(np.mean(scores))


@cache
def _rouge_scorer(kind: str, use_stemmer: bool) -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # imported late: it loads nltk

    return RougeScorer([kind], use_stemmer=use_stemmer)


def pair(references: Sequence[Any], predictions: Sequence[Any], **_: Any) -> list[Any]:
    """Reference and prediction as they are, for what is computed from all documents at once."""
    return [references[0], predictions[0]]


def nothing(references: Sequence[Any], predictions: Sequence[Any], **_: Any) -> None:
    """Of `bypass`: the text is recorded and not scored."""


def pass_at_k(golds: Sequence[Any], answers: Sequence[Any], *, k: int, **arguments: Any) -> float:
    """Chance that one of k texts is right: `1 - C(n - c, k) / C(n, k)` with c of n right.

    Chen et al. 2021, eq. 1: without bias, unlike `1 - (1 - c / n)^k`.
    """
    _require(answers, k, "pass")
    right = sum(_is_right(golds, answer, arguments) for answer in answers)
    return unbiased(len(answers), right, k)


def average_at_k(
    golds: Sequence[Any], answers: Sequence[Any], *, k: int, **arguments: Any
) -> float:
    """Share of the first k texts that are right."""
    _require(answers, k, "avg")
    return sum(_is_right(golds, answer, arguments) for answer in answers[:k]) / k


def majority_at_k(
    golds: Sequence[Any], answers: Sequence[Any], *, k: int, **arguments: Any
) -> float:
    """Whether the most frequent of the first k texts is right; of equally frequent ones the first.

    Self-consistency, Wang et al. 2023.
    """
    _require(answers, k, "majority")
    texts: list[Hashable] = list(answers[:k])
    return float(_is_right(golds, Counter(texts).most_common(1)[0][0], arguments))


def _is_right(golds: Sequence[Any], answer: Any, arguments: dict[str, Any]) -> bool:
    return any(exact_match([gold], [answer], **arguments)["exact_match"] == 1.0 for gold in golds)


def _require(answers: Sequence[Any], k: int, family: str) -> None:
    if len(answers) < k:
        raise TaskError(
            f"{family}@{k} needs {k} texts for each document, there are {len(answers)}: "
            f"set the task's `repeats` to {k} or more"
        )
