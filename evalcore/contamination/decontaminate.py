"""Which test documents does the training text contain, in whole or in part?

The rule of GPT-3 (Brown et al. 2020, appendix C, "overlap methodology"): a document is dirty if any
N-gram of its words occurs anywhere in the training text, case and punctuation ignored; N is the
5th percentile of the task's document lengths in words, at least 8 and at most 13. A document that
is shorter than N counts as one n-gram if it has 8 words; with fewer nothing can be told from it.

The n-grams of the test documents are indexed, which is little, and the training text streams past
once, which may be anything: memory depends on the test documents alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalcore.contamination.sources import Source, source_of
from evalcore.errors import TaskError

SHORTEST, LONGEST = 8, 13
"""Words in an n-gram."""
BATCH = 2**17
"""Words hashed at once, about; what bounds the memory of a search besides its index."""
BASE = np.uint64(0x9E3779B97F4A7C15)
BITS_PER_GRAM = 64
LARGEST_MAP = 2**26

Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

# From bytes of ASCII text to words: letters lowered, all but letters and digits a space.
_ASCII = bytes(ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 32 for c in range(256))


# No n-gram reaches over it.
_BREAK = np.zeros(1, dtype=np.int64)

Overlaps = list[str] | None
"""The passages of a document that the training text has, too; None if it is too short to tell."""

PERCENTILE = 5


class Decontamination:
    """Searches training text for test documents.

    A source is a file (plain text, .jsonl, .parquet, .arrow; text and JSON lines also as .gz and
    .zst), a folder of those or of `Dataset.save_to_disk`, or `ID[:CONFIG[:SPLIT]]` on the Hub. `n`
    is the length of the n-grams, 8 to 13; None: by the rule, for each task. Raises TaskError for a
    source that is none of these, and another `n`.
    """

    def __init__(self, sources: Sequence[str | Path], n: int | None = None) -> None:
        if n is not None and not SHORTEST <= n <= LONGEST:
            raise TaskError(
                f"decontaminate_n: expected {SHORTEST} to {LONGEST} words, got {n}; fewer match "
                "by chance, more miss copies"
            )
        self._sources: list[Source] = [source_of(str(source)) for source in sources]
        self._n = n

    def search(self, tasks: Sequence[Sequence[str]]) -> list[list[Overlaps]]:
        """The overlapping passages of each document of each task, in one pass over the sources.

        Raises TaskError that names a source's file and line where it is not as its name says, and
        InfraError where it cannot be read.
        """
        documents = [[Words.of(query) for query in queries] for queries in tasks]
        sizes = [
            [min(n, len(words)) if len(words) >= SHORTEST else None for words in of_task]
            for of_task in documents
            for n in [self._n or gram_size(list(map(len, of_task)))]
        ]
        index = GramIndex(
            (words, size)
            for of_task, of_sizes in zip(documents, sizes, strict=True)
            for words, size in zip(of_task, of_sizes, strict=True)
            if size is not None
        )
        for source in self._sources:
            index.read(source())
        passages = iter(index.passages())
        return [[None if n is None else next(passages) for n in of_task] for of_task in sizes]


def gram_size(lengths: Sequence[int]) -> int:
    """N of a task whose documents have so many words: their 5th percentile within 8 to 13."""
    if not lengths:
        return LONGEST
    return int(np.clip(np.percentile(lengths, PERCENTILE), SHORTEST, LONGEST))


@dataclass(frozen=True)
class Words:
    """A text and its words: lower case, without punctuation."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    """Where in the text each word lies."""

    @staticmethod
    def of(text: str) -> Words:
        text = unicodedata.normalize("NFC", text)
        found = list(_word_pattern().finditer(text))
        return Words(
            text,
            tuple(_normalised(match.group()) for match in found),
            tuple(match.span() for match in found),
        )

    def __len__(self) -> int:
        return len(self.words)


class GramIndex:
    """The n-grams of documents, and which of them a text that is read has, too.

    Words become numbers by the vocabulary of the test documents (0 for any other), n-grams become
    64-bit polynomial hashes of all positions at once, a bit map drops nearly all of them, and what
    is left is compared word by word: a passage is never found by a collision.
    """

    def __init__(self, documents: Iterable[tuple[Words, int]]) -> None:
        """`documents` come with the length of their n-grams, at most their number of words."""
        self._documents = list(documents)
        vocabulary: dict[str, int] = {}
        numbers = [0]
        starts: list[int] = []
        for document, _ in self._documents:
            starts.append(len(numbers))
            numbers.extend(vocabulary.setdefault(w, len(vocabulary) + 1) for w in document.words)
            numbers.append(0)
        self._vocabulary = vocabulary
        self._ascii = {word.encode(): n for word, n in vocabulary.items() if word.isascii()}
        self._numbers = np.array(numbers, dtype=np.int64)
        self._mixed = np.random.default_rng(0).integers(
            2**64, size=len(vocabulary) + 1, dtype=np.uint64
        )
        self._starts = starts
        self._grams = {
            size: self._grams_of(size) for size in sorted({n for _, n in self._documents})
        }
        self._waiting: list[Numbers] = [_BREAK]
        self._n_waiting = 1

    def read(self, text: Iterable[str | None]) -> None:
        """Looks for the n-grams in a text of blocks of whole words; after each document comes None.

        What is found shows in `passages`.
        """
        for block in text:
            self._take(_BREAK if block is None else self._numbers_of(block))
        self._search()

    def passages(self) -> Iterator[list[str]]:
        """What was found of each document, longest stretches of its own text in their order."""
        for (document, size), start in zip(self._documents, self._starts, strict=True):
            yield list(_stretches(document, size, self._grams[size].found_at(start)))

    def _grams_of(self, size: int) -> _Grams:
        starts = [
            start + place
            for (document, n), start in zip(self._documents, self._starts, strict=True)
            if n == size
            for place in range(len(document) - size + 1)
        ]
        hashes = dict(_rolling_hashes(self._mixed[self._numbers], {size}))[size]
        return _Grams(size, np.array(starts, dtype=np.int64), hashes, self._numbers)

    def _numbers_of(self, block: str) -> Numbers:
        words: list[Any]
        known: dict[Any, int]
        if block.isascii():
            words, known = block.encode().translate(_ASCII).split(), self._ascii
        else:
            words, known = _word_pattern().findall(_normalised(block)), self._vocabulary
        return np.fromiter(map(known.get, words, repeat(0)), dtype=np.int64, count=len(words))

    def _take(self, numbers: Numbers) -> None:
        self._waiting.append(numbers)
        self._n_waiting += len(numbers)
        if self._n_waiting >= BATCH:
            self._search()

    def _search(self) -> None:
        numbers = np.concatenate(self._waiting)
        for size, hashes in _rolling_hashes(self._mixed[numbers], self._grams.keys()):
            self._grams[size].look_up(hashes, numbers)
        rest = numbers[-(LONGEST - 1) :]  # an n-gram may begin here and end in the next batch
        self._waiting, self._n_waiting = [rest], len(rest)


class _Grams:
    """All n-grams of one length: hashes in ascending order, each with one place of its words."""

    def __init__(self, size: int, starts: Numbers, hashes: Hashes, numbers: Numbers) -> None:
        """`hashes` and `numbers` are those of all test documents, `starts` where n-grams begin."""
        self._size, self._numbers = size, numbers
        self._hashes, first, self._which = np.unique(
            hashes[starts], return_index=True, return_inverse=True
        )
        self._places = starts[first]
        self._all_starts = starts
        self._found = np.zeros(len(self._hashes), dtype=bool)
        bits = int(np.ceil(np.log2(BITS_PER_GRAM * len(starts))))
        size_of_map = min(2**bits, LARGEST_MAP)
        self._shift = np.uint64(65 - size_of_map.bit_length())
        self._map = np.zeros(size_of_map, dtype=bool)
        self._map[self._hashes >> self._shift] = True

    def look_up(self, hashes: Hashes, numbers: Numbers) -> None:
        """Notes which n-grams stand in the text `numbers`, whose n-grams have these hashes."""
        positions = np.flatnonzero(self._map[hashes >> self._shift])
        candidates = hashes[positions]
        which = np.minimum(np.searchsorted(self._hashes, candidates), len(self._hashes) - 1)
        same = self._hashes[which] == candidates
        which, positions = which[same], positions[same]
        equal = np.ones(len(which), dtype=bool)
        for place in range(self._size):
            equal &= self._numbers[self._places[which] + place] == numbers[positions + place]
        self._found[which[equal]] = True

    def found_at(self, start: int) -> Iterator[bool]:
        """For the n-gram that begins at `start` and those after it: was it found?"""
        begin = int(np.searchsorted(self._all_starts, start))
        return (bool(self._found[which]) for which in self._which[begin:])


def _stretches(document: Words, size: int, found: Iterator[bool]) -> Iterator[str]:
    """The text under found n-grams, those that touch or overlap as one."""
    begin = end = 0
    for place in compress(range(len(document) - size + 1), found):
        if place > end and end:
            yield _text_of(document, begin, end)
        if place > end or not end:
            begin = place
        end = place + size
    if end:
        yield _text_of(document, begin, end)


def _text_of(document: Words, begin: int, end: int) -> str:
    return document.text[document.spans[begin][0] : document.spans[end - 1][1]]


def _rolling_hashes(mixed: Hashes, sizes: Iterable[int]) -> Iterator[tuple[int, Hashes]]:
    """For each size the hash of the n-gram at each position: a polynomial of its words."""
    wanted = set(sizes)
    hashes = mixed
    for size in range(2, max(wanted, default=1) + 1):
        hashes = hashes[:-1] * BASE + mixed[size - 1 :]
        if size in wanted:
            yield size, hashes


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFC", text.casefold())


@cache
def _word_pattern() -> Any:
    import regex  # imported late; the standard library's has no scripts and no marks

    # Scripts without spaces: every character stands for a word.
    unspaced = "".join(
        rf"\p{{{script}}}"
        for script in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
    )
    return regex.compile(rf"[{unspaced}]|[[\p{{L}}\p{{M}}\p{{N}}]--[{unspaced}]]+", regex.V1)
