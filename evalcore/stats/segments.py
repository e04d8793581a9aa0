"""What does one segment contribute to BLEU, chrF or TER of a corpus?

All three are functions of sums over segments (matched n-grams and their totals, edits and lengths).
sacrebleu counts; here its counts are kept, so that a resample of the corpus only adds them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRANSLATION = ("bleu", "chrf", "chrf++", "ter")
"""The metrics of a corpus, each with sacrebleu's defaults; chrf++ adds words of up to two."""


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
