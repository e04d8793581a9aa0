"""The distinct prefixes of many sequences, each once, as arrays.

Sequences that begin alike share a path of a trie. Sorted, a sequence adds to the trie what it does
not share with the one before it, and these additions, one after the other, are the trie's tokens
in depth-first preorder: every subtree is a contiguous run of them. A token's index among them is
called its place here. No loop runs over tokens, only over sequences.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]

COMPARED_AT_ONCE = 1 << 20
"""Tokens compared with their neighbours in one step; bounds what the comparison itself holds."""


class Trie:
    """Prefixes to compute, and where they are read; numbers of four bytes where there are many."""

    def __init__(self, sequences: Sequence[Sequence[int]], n_scored: Sequence[int]) -> None:
        """The last `n_scored[i]` positions of `sequences[i]` are read.

        Raises ValueError for an empty sequence, a token outside 0 to 2**32 - 1, and `n_scored[i]`
        outside 1 to the length.
        """
        for index, (sequence, count) in enumerate(zip(sequences, n_scored, strict=True)):
            if not 1 <= count <= len(sequence):
                raise ValueError(f"request {index} scores {count} of {len(sequence)} positions")
        rows, lengths, tokens = _sorted_rows(sequences)
        shared = _shared_with_the_row_before(lengths, tokens)
        added = lengths - shared
        self.tokens = tokens[_ranges(_starts(lengths) + shared, added)]
        """Shape (n,), unsigned: of every distinct prefix the last token, in preorder."""
        self.added_at = _starts(added)
        """Shape (distinct sequences,): the place where each one's addition begins."""
        self.added_depth = shared
        """The same shape: the addition's position in the sequence."""

        self.n_scored = np.array(n_scored, np.int32)
        most = np.zeros(len(lengths), np.int32)
        np.maximum.at(most, rows, self.n_scored)
        self.above, scored = self._follow(lengths - most, self.added_at + added)
        """The same shape: the place of the token that the addition comes after; -1 for none."""

        order = np.argsort(rows, kind="stable").astype(np.int32)
        counts = self.n_scored[order]
        ends = np.cumsum(most, dtype=np.int64)[rows[order]]
        places = scored[_ranges(ends - counts, counts)]
        by_place = np.argsort(places, kind="stable").astype(np.int32)
        self.read_place = places[by_place]
        """Shape (reads,), ascending."""
        self.read_request = np.repeat(order, counts)[by_place]
        self.read_ordinal = _ranges(np.zeros_like(counts), counts)[by_place]
        """Shape (reads,): which of its request's scored positions this is."""

    def _follow(self, first_read: Int32s, ends: Ints) -> tuple[Ints, Int32s]:
        """Follow every distinct sequence down the trie.

        Returns the places that their additions come after, and the places of their positions from
        `first_read` on, of all sequences one after the other. `ends`: where their additions end.
        """
        above: list[int] = []
        starts: list[int] = []
        lengths: list[int] = []
        path: list[tuple[int, int]] = []  # Of each addition on the path its depth and its place.
        additions = (self.added_depth, self.added_at, ends, first_read)
        for depth, place, end, first in zip(*(each.tolist() for each in additions), strict=True):
            while path and path[-1][0] >= depth:
                path.pop()
            above.append(path[-1][1] + depth - path[-1][0] - 1 if path else -1)
            if first < depth:
                runs = list(_back(path, depth, first))[::-1]
                starts += [start for start, _ in runs]
                lengths += [length for _, length in runs]
            starts.append(place + max(0, first - depth))
            lengths.append(end - starts[-1])
            path.append((depth, place))
        return (
            np.array(above, np.int64),
            _ranges(np.array(starts, np.int64), np.array(lengths, np.int64)),
        )


def _sorted_rows(
    sequences: Sequence[Sequence[int]],
) -> tuple[Int32s, Int32s, NDArray[np.uint32]]:
    """The row of each sequence among the distinct ones, sorted; the rows' lengths; their tokens."""
    try:
        # Big-endian, so that the order of the bytes is the order of the tokens.
        keys = [struct.pack(f">{len(sequence)}I", *sequence) for sequence in sequences]
    except struct.error as problem:
        raise ValueError(f"a token is not a number from 0 to 2**32 - 1: {problem}") from None
    distinct = sorted(set(keys))
    place = {key: row for row, key in enumerate(distinct)}
    return (
        np.array([place[key] for key in keys], np.int32),
        np.array([len(key) // 4 for key in distinct], np.int32),
        np.frombuffer(b"".join(distinct), ">u4").astype(np.uint32),
    )


def _shared_with_the_row_before(lengths: Int32s, tokens: NDArray[np.uint32]) -> Int32s:
    """Length of each row's longest common prefix with the row before it; 0 for the first."""
    starts = _starts(lengths)
    shared = np.zeros(len(lengths), np.int32)
    first = 1
    while first < len(lengths):
        last = int(np.searchsorted(starts, starts[first] + COMPARED_AT_ONCE))
        these, before = slice(first, last), slice(first - 1, last - 1)
        begin, end = starts[first], starts[last - 1] + lengths[last - 1]
        above = np.arange(begin, end) - np.repeat(lengths[before], lengths[these])
        differs = np.append(np.flatnonzero(tokens[begin:end] != tokens[above]), end - begin)
        inside = starts[these] - begin
        same = differs[np.searchsorted(differs, inside)] - inside
        # Past the end of the row before, `above` looks into the row itself: whatever is found
        # there, no more than the shorter of the two is shared.
        shared[these] = np.minimum(same, np.minimum(lengths[these], lengths[before]))
        first = last
    return shared


def _back(path: list[tuple[int, int]], end: int, first: int) -> Iterator[tuple[int, int]]:
    """Runs of places (start, length) of the path's positions from `first` to `end`, backwards."""
    for depth, place in reversed(path):
        begin = max(depth, first)
        yield place + begin - depth, end - begin
        end = begin
        if begin == first:
            return


def _starts(lengths: Int32s) -> Ints:
    """Where runs of these lengths begin, one after the other."""
    return np.cumsum(lengths, dtype=np.int64) - lengths


def _ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> Int32s:
    """The ranges of these starts and lengths, one after the other."""
    ranges = np.repeat((starts - _starts(lengths)).astype(np.int32), lengths)
    ranges += np.arange(len(ranges), dtype=np.int32)
    return ranges
