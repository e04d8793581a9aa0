"""One question as both sides were asked it and answered it, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from math import isfinite
from typing import Any

from leaderboard.samples import LONGEST_BAR, Choice, Question, read_question


@dataclass(frozen=True)
class Asked:
    """A part of what was sent; where it is the same `other` repeats `base`."""

    title: str
    same: bool
    base: tuple[Piece, ...]
    other: tuple[Piece, ...]
    folded: bool
    continuations: tuple[str, ...] = ()
    """What was scored behind it, where that is the same."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.base)


@dataclass(frozen=True)
class Choices:
    """One choice with how likely either side found it, the bars on one scale."""

    base: Choice
    other: Choice


@dataclass(frozen=True)
class Pair:
    """A question; `None` for a side whose file is not at hand."""

    base: Question | None
    other: Question | None
    asked: tuple[Asked, ...]
    choices: tuple[Choices, ...]
    """Empty where there are none, or not the same ones."""
    withheld: bool

    @property
    def questions(self) -> tuple[Question | None, Question | None]:
        return self.base, self.other

    @property
    def same_prompt(self) -> bool:
        return all(part.same for part in self.asked)


def read_pair(first: dict[str, Any] | None, second: dict[str, Any] | None) -> Pair:
    """Two samples of one document, made readable together."""
    base = read_question(first) if first else None
    other = read_question(second) if second else None
    withheld = any(side.withheld for side in (base, other) if side)
    if base is None or other is None:
        return Pair(base, other, (), (), withheld)
    return Pair(base, other, tuple(_asked(base, other)), tuple(_choices(base, other)), withheld)


def _asked(base: Question, other: Question) -> Iterator[Asked]:
    if base.requests or other.requests:
        own, others = ([a + b for a, b in side.requests] or [side.asked] for side in (base, other))
        for number in range(max(len(own), len(others))):
            pair = (texts[number] if number < len(texts) else "" for texts in (own, others))
            yield _part(f"Request {number + 1}", *pair)
        return
    if base.examples or other.examples:
        yield _part("Worked examples", base.examples, other.examples, folded=True)
    continuations = base.continuations if base.continuations == other.continuations else ()
    yield _part("Prompt as sent", base.asked, other.asked, continuations=continuations)


def _part(
    title: str,
    first: str,
    second: str,
    *,
    folded: bool = False,
    continuations: tuple[str, ...] = (),
) -> Asked:
    if first == second:
        whole = (Piece(first, False),)
        return Asked(title, True, whole, whole, folded, continuations)
    return Asked(title, False, *differences(first, second), folded=False)


def _choices(base: Question, other: Question) -> Iterator[Choices]:
    if [choice.text for choice in base.choices] != [choice.text for choice in other.choices]:
        return
    shortfalls = [choice.shortfall for side in (base, other) for choice in side.choices]
    longest = max((s for s in shortfalls if isfinite(s)), default=0.0) or 1.0
    for pair in zip(base.choices, other.choices, strict=True):
        yield Choices(
            *(
                replace(answer, bar=LONGEST_BAR * min(answer.shortfall / longest, 1.0))
                for answer in pair
            )
        )


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
