"""In what do two texts differ? Lines first, then words within the lines that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MOST = 600
"""Lines, or words, that are matched with each other; the time grows with their square."""

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True)
class Piece:
    text: str
    changed: bool


Sides = tuple[tuple[Piece, ...], tuple[Piece, ...]]


def differences(first: str, second: str) -> Sides:
    """Both texts in pieces, each of which the other has in its place or has not.

    Joined, the pieces of a side are its text. What is too long to be matched counts as changed from
    the first difference to the last.
    """
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    lines = first.splitlines(keepends=True), second.splitlines(keepends=True)
    for changed, old, new in _matched(*lines):
        if changed and old and new:
            words = _WORDS.findall("".join(old)), _WORDS.findall("".join(new))
            for differs, before, after in _matched(*words):
                _add(pieces, differs, before, after)
        else:
            _add(pieces, changed, old, new)
    return tuple(pieces[0]), tuple(pieces[1])


def _matched(
    first: Sequence[str], second: Sequence[str]
) -> Iterator[tuple[bool, Sequence[str], Sequence[str]]]:
    """Runs that are the same in both, and runs that differ, in order."""
    start = _common(first, second)
    rest = len(first) - start, len(second) - start
    end = min(_common(first[::-1], second[::-1]), *rest)
    yield False, first[:start], second[:start]
    old, new = first[start : len(first) - end], second[start : len(second) - end]
    if max(len(old), len(new)) > MOST:
        yield True, old, new
    else:
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            yield tag != "equal", old[a:b], new[c:d]
    yield False, first[len(first) - end :], second[len(second) - end :]


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """How many elements both begin with."""
    pairs = zip(first, second, strict=False)
    return next(
        (place for place, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second))
    )


def _add(
    pieces: tuple[list[Piece], list[Piece]],
    changed: bool,
    old: Sequence[str],
    new: Sequence[str],
) -> None:
    for side, words in zip(pieces, (old, new), strict=True):
        text = "".join(words)
        if text and side and side[-1].changed == changed:
            side[-1] = Piece(side[-1].text + text, changed)
        elif text:
            side.append(Piece(text, changed))
