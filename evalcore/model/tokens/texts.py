"""Many texts to tokens at once, and of texts that begin alike the common beginning only once.

An example prompt of 2,500 tokens is asked with every choice behind it, and stands before every
question: a tokenizer that is given each of these texts spends most of its time on what it has seen.
Here a text is cut where a line begins, and only what follows the cut is tokenised again.

Why this is exact. A byte-pair tokenizer joins neighbours to a longer token of its vocabulary; where
no token holds a line's end followed by that letter, nothing is ever joined across the cut. What it
does to a text before that (splitting into words, replacing signs) looks at the signs around each
place: the tail is tokenised with the line's end before it, and must come out as it did within the
first text that has it, or the shortcut is dropped. So it is where one of the texts that are checked
in full (the last of every sixteenth chain of texts that begin alike) comes out otherwise.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

CHARACTERS_PER_CALL = 4_000_000
"""What the tokenizer is given at once: it holds some hundred bytes for each token meanwhile."""

LINE_END = "\n"
_AFTER_LINE_END = re.compile("[\nĊ]([A-Za-z])")
"""In a vocabulary's token; byte-level ones write Ċ for a line's end."""

SAME_AFTER_CUT = 8
"""Characters behind a cut that two texts must have in common."""

SHORTEST_BEGINNING = 200
"""Characters; for less a tokenizer needs no longer than the search for it."""

CHAINS_PER_CHECK = 16


class Differs(Exception):
    """A text in pieces has other tokens than the whole."""


class Texts:
    """Tokenises texts, each distinct one once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._cuts = True

    def tokens(self, texts: Collection[str], special: bool | None) -> dict[str, list[int]]:
        """The tokens of each distinct text; `special`: whether with those that are added to a text
        (None: as the tokenizer does by itself)."""
        distinct = sorted(set(texts))
        if self._cuts and self._starts:
            try:
                return self._in_chains(distinct, special)
            except Differs:
                self._cuts = False
        return self._in_full(distinct, special)

    def _in_full(self, texts: Sequence[str], special: bool | None) -> dict[str, list[int]]:
        options: dict[str, Any] = {} if special is None else {"add_special_tokens": special}
        found: dict[str, list[int]] = {}
        for batch in _batches(texts):
            ids = self._tokenizer(batch, return_attention_mask=False, **options)["input_ids"]
            found.update(zip(batch, ids, strict=True))
        return found

    @cached_property
    def _starts(self) -> frozenset[str]:
        """Letters which no token of the vocabulary has behind a line's end; none where tokens are
        not made by joining pairs."""
        model = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "model", None)
        if type(model).__name__ != "BPE" or getattr(model, "dropout", None):
            return frozenset()
        tokens = self._tokenizer.get_vocab()
        joined = {after for token in tokens for after in _AFTER_LINE_END.findall(token)}
        return frozenset(string.ascii_letters) - joined

    def _in_chains(self, texts: Sequence[str], special: bool | None) -> dict[str, list[int]]:
        """Raises Differs where the pieces of a text are not the whole."""
        chains = _chains(texts, self._starts)
        checked = [chain.texts[-1] for chain in chains if len(chain.texts) > 1][::CHAINS_PER_CHECK]
        whole = self._in_full([*(chain.texts[0] for chain in chains), *checked], special)
        tails = {text[cut:] for chain in chains for text, cut in chain.cut_texts()}
        anchored = self._in_full([LINE_END + tail for tail in sorted(tails)], special=False)
        before = self._in_full([LINE_END], special=False)[LINE_END] if tails else []

        def after(tail: str) -> list[int]:
            ids = anchored[LINE_END + tail]
            if ids[: len(before)] != before:
                raise Differs
            return ids[len(before) :]

        found: dict[str, list[int]] = {}
        for chain in chains:
            found.update(chain.joined(whole[chain.texts[0]], after))
        if any(found[text] != whole[text] for text in checked):
            raise Differs
        return found


@dataclass(slots=True)
class _Chain:
    """Sorted texts, each but the first with a place up to which it is as the one before it."""

    texts: list[str]
    cuts: list[int] = field(default_factory=lambda: [0])

    def cut_texts(self) -> Iterator[tuple[str, int]]:
        """The tails to tokenise: those of the texts, and of the one before where it is cut anew."""
        for place in range(1, len(self.texts)):
            cut = self.cuts[place]
            yield self.texts[place], cut
            if cut != self.cuts[place - 1]:
                yield self.texts[place - 1], cut

    def joined(
        self, first: list[int], after: Callable[[str], list[int]]
    ) -> Iterator[tuple[str, list[int]]]:
        """Every text with its tokens, from those of the first; `after` has those of a tail. Raises
        Differs."""
        yield self.texts[0], first
        ids, kept = first, 0
        for place in range(1, len(self.texts)):
            cut = self.cuts[place]
            if cut != self.cuts[place - 1]:
                tail = after(self.texts[place - 1][cut:])
                kept = len(ids) - len(tail)
                if ids[max(kept, 0) :] != tail:
                    raise Differs
            ids = ids[:kept] + after(self.texts[place][cut:])
            yield self.texts[place], ids


def _chains(texts: Sequence[str], starts: frozenset[str]) -> list[_Chain]:
    """Sorted texts in chains; a text that shares little with the one before begins a new one."""
    chains: list[_Chain] = []
    for place, text in enumerate(texts):
        same = _common(texts[place - 1], text) if place else 0
        cut = _cut(text, same - SAME_AFTER_CUT, starts)
        # The tail of the text before is tokenised, too: less than half would gain nothing.
        if cut < max(SHORTEST_BEGINNING, len(text) // 2):
            chains.append(_Chain([text]))
        else:
            chains[-1].texts.append(text)
            chains[-1].cuts.append(cut)
    return chains


def _cut(text: str, most: int, starts: frozenset[str]) -> int:
    """The last beginning of a line with such a letter, not beyond `most`; 0 where there is none."""
    end = most
    while end > 0 and (found := text.rfind(LINE_END, 0, end)) >= 0:
        if text[found + 1] in starts:
            return found + 1
        end = found
    return 0


def _common(a: str, b: str) -> int:
    """How many characters two texts have in common at their beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and characters + len(text) > CHARACTERS_PER_CALL:
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch
