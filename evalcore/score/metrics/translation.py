"""Corpus metrics of translation, by sacrebleu, from (references, text) of each document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import lcm
from typing import Any


def _of_corpus(metric: str, items: Sequence[Any], **arguments: Any) -> float:
    return corpus_score(metric, *_streams(items), **arguments)


bleu, chrf, ter = (partial(_of_corpus, metric) for metric in ("bleu", "chrf", "ter"))
chrf_plus_plus = partial(_of_corpus, "chrf", word_order=2)
"""chrF with words and pairs of words besides characters."""


def corpus_score(
    metric: str, texts: Sequence[str], references: Sequence[Sequence[str]], **arguments: Any
) -> float:
    """As sacrebleu has it; `references` are streams of one for each text."""
    import sacrebleu

    return float(getattr(sacrebleu, f"corpus_{metric}")(texts, references, **arguments).score)


def evened(items: Sequence[Any]) -> list[tuple[list[str], str]]:
    """The items with equally many references each: repeated in turn, which changes no score.

    A match counts once however many references have it, and mean lengths stay what they are.
    """
    references = [list(item[0]) if _is_list(item[0]) else [item[0]] for item in items]
    if not all(references):
        raise ValueError("a document has no reference")
    count = lcm(*(len(of_one) for of_one in references))
    return [
        (of_one * (count // len(of_one)), item[1])
        for of_one, item in zip(references, items, strict=True)
    ]


def _streams(items: Sequence[Any]) -> tuple[list[str], list[list[str]]]:
    """The texts, and streams of references as sacrebleu wants them: the first of each text, ...

    A text in a list of one stands for itself. Where documents differ in how many references they
    have, only as many count as every one has, as in lm-evaluation-harness.
    """
    references = [item[0] for item in items]
    if not _is_list(references[0]):
        references = [[reference] for reference in references]
    texts = [item[1] for item in items]
    if _is_list(texts[0]):
        if len(texts[0]) != 1:
            raise ValueError(f"one text for each document is needed, not {texts[0]!r}")
        texts = [text[0] for text in texts]
    return texts, [list(stream) for stream in zip(*references, strict=False)]


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)
