"""What a tokenizer adds to a text besides the text's own tokens, and where it puts that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PROBES = ("The capital of France is", "2 + 2 =", "Question: été?\nAnswer:")


@dataclass(frozen=True, slots=True)
class AddedTokens:
    """Special tokens that surround every text, and those that stand within it."""

    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    within: tuple[int, ...] = ()
    """Empty unless the text's own tokens do not follow one another."""


def added_tokens(tokenizer: Any, special: bool | None) -> AddedTokens:
    """What is added to a text; `special`: whether with special tokens (None: as the tokenizer does
    by itself). Found by trying: how a tokenizer says it depends on who wrote it."""
    if special is False:
        return AddedTokens()
    options = {} if special is None else {"add_special_tokens": special}
    for probe in PROBES:
        whole = list(tokenizer(probe, **options)["input_ids"])
        own = list(tokenizer(probe, add_special_tokens=False)["input_ids"])
        if not own:
            continue  # a vocabulary without these letters
        start = _place_of(own, whole)
        if start is None:
            added = (token for token in whole if token not in own)
            return AddedTokens(within=tuple(dict.fromkeys(added)))
        return AddedTokens(tuple(whole[:start]), tuple(whole[start + len(own) :]))
    return AddedTokens()


def _place_of(own: Sequence[int], whole: Sequence[int]) -> int | None:
    """Where the tokens stand one after the other; None where they do not."""
    starts = range(len(whole) - len(own) + 1)
    return next((start for start in starts if whole[start : start + len(own)] == own), None)
