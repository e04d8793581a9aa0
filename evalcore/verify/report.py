"""What a verification found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Level = Literal["aggregate", "rescore"]

TOLERANCE = 1e-9
"""Relative, and absolute below 1: the same arithmetic on another machine."""


@dataclass
class Report:
    """Of one record: how much agrees, what does not, and what could not be computed again."""

    task: str
    source: Path
    level: Level
    numbers: int = 0
    """Figures computed again: values, standard errors, bounds, counts."""
    scores: int = 0
    """Scores of documents computed again (level `rescore`)."""
    differences: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    gave_up: bool = False
    """Whether the scores and numbers could not be computed again at all."""

    @property
    def ok(self) -> bool:
        """Whether all that could be computed again agrees, and something could be."""
        return not self.differences and not self.gave_up and self.numbers > 0

    def compare(self, what: str, stated: Any, found: Any) -> None:
        """Counts a figure; notes it where the two differ."""
        self.numbers += 1
        self.check(what, stated, found)

    def check(self, what: str, stated: Any, found: Any) -> None:
        """Notes where the two differ."""
        if not same(stated, found):
            self.differ(what, stated, found)

    def differ(self, what: str, stated: Any, found: Any) -> None:
        self.differences.append(f"{what}: stated {stated!r}, computed {found!r}")

    def give_up(self, why: str) -> None:
        self.gave_up = True
        self.leave("everything", why)

    def leave(self, what: str, why: str) -> None:
        self.unchecked.append(f"{what}: {why}")


def same(stated: Any, found: Any) -> bool:
    if isinstance(stated, bool | str) or not isinstance(stated, int | float):
        return bool(stated == found)
    if not isinstance(found, int | float):
        return False
    if math.isnan(stated) or math.isnan(found):
        return math.isnan(stated) and math.isnan(found)
    return abs(stated - found) <= TOLERANCE * max(1.0, abs(stated)) or stated == found
