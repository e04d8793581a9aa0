"""Loglikelihoods that each engine measured for itself: how far they are apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.parity.compare import is_generated


def allowed(loglikelihood: float) -> float:
    """How much two engines' sums of 32-bit numbers may differ, in nats."""
    return 1e-4 + 1e-6 * abs(loglikelihood)


@dataclass
class Likelihoods:
    """What a comparison found."""

    compared: int = 0
    largest: float = 0.0
    beyond: list[str] = field(default_factory=list)
    """Loglikelihoods farther apart than allowed, and flags or texts that differ."""
    changed: list[tuple[str, float]] = field(default_factory=list)
    """Documents whose likeliest choice is another one, and by what margin it won."""

    @property
    def wrongly_changed(self) -> list[tuple[str, float]]:
        """Predictions that rounding does not excuse."""
        return [(place, margin) for place, margin in self.changed if margin > allowed(margin)]


def compare_likelihoods(
    ours: Mapping[Any, Mapping[str, Any]], theirs: Mapping[Any, Mapping[str, Any]]
) -> Likelihoods:
    """The first responses of lines of samples files, by task and document."""
    report = Likelihoods()
    for key, line in theirs.items():
        found, expected = _first(ours[key]), _first(line)
        for (our_value, our_flag), (their_value, their_flag) in zip(found, expected, strict=True):
            off = abs(our_value - their_value)
            report.compared += 1
            report.largest = max(report.largest, off)
            if off > allowed(their_value) or our_flag != their_flag:
                report.beyond.append(f"{key}: {our_value} {our_flag}, {their_value} {their_flag}")
        if len(expected) > 1:
            report.changed += _changed(str(key), found, expected)
    return report


def _changed(
    place: str, ours: Sequence[tuple[float, str]], theirs: Sequence[tuple[float, str]]
) -> Iterator[tuple[str, float]]:
    our_values, their_values = [value for value, _ in ours], [value for value, _ in theirs]
    pick = our_values.index(max(our_values))
    if pick != their_values.index(max(their_values)):
        yield place, max(their_values) - their_values[pick]


def _first(line: Mapping[str, Any]) -> list[tuple[float, str]]:
    """Of each request its first response if that is a loglikelihood; numbers are text in files."""
    if is_generated(line):
        return []
    firsts = [responses[0] for responses in line["resps"]]
    return [
        (float(first[0]), first[1]) if isinstance(first, list) else (float(first), "")
        for first in firsts
    ]
