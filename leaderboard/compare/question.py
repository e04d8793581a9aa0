"""One question as both sides were asked it and answered it, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from leaderboard.compare.prompts import Piece, differences
from leaderboard.samples.question import LONGEST, Choice, Question, read_question


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
    withheld = any(one.withheld for one in (base, other) if one)
    if base is None or other is None:
        return Pair(base, other, (), (), withheld)
    return Pair(base, other, tuple(_asked(base, other)), tuple(_choices(base, other)), withheld)


def _asked(base: Question, other: Question) -> Iterator[Asked]:
    if base.requests or other.requests:
        own, others = ([a + b for a, b in one.requests] or [one.asked] for one in (base, other))
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
    if [one.text for one in base.choices] != [one.text for one in other.choices]:
        return
    shortfalls = [one.shortfall for side in (base, other) for one in side.choices]
    longest = max((s for s in shortfalls if isfinite(s)), default=0.0) or 1.0
    for pair in zip(base.choices, other.choices, strict=True):
        yield Choices(
            *(replace(one, bar=LONGEST * min(one.shortfall / longest, 1.0)) for one in pair)
        )
