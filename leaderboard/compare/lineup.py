"""Models side by side: who is compared, on which tasks, and with which numbers.

Two ways lead to a `Lineup`: models on a suite and runs of one benchmark (both in `models.py`). What
follows from it is in `differences.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from evalcore.stats import Interval
from leaderboard.models import Artifact
from leaderboard.models.task import is_share
from leaderboard.samples import Vector, by_result
from leaderboard.snapshot import Score

LETTERS = "ABCDEF"
MOST = len(LETTERS)
"""Models on one page."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of those compared."""

    letter: str
    key: str
    """As the address calls it: the number of a variant, or a run."""
    repo_id: str
    commit: str
    dtype: str
    quantisation: str
    way: str = ""
    """What sets it apart from a whole model that is asked in plain text."""
    flag_reason: str = ""
    asked: str = ""
    """Of a run: its task, style and shots."""
    name: str = ""
    """Short, and unlike any other's on the page."""

    @property
    def owner(self) -> str:
        return self.repo_id.rpartition("/")[0]

    @property
    def model(self) -> str:
        return self.repo_id.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Number:
    """What one side scored on one task."""

    score: Score
    results: tuple[int, ...]
    """Primary keys, one for each draw of examples."""
    runs: tuple[UUID, ...]
    normalised: Interval | None = None
    """As it enters the suite's average: from chance, where that is of such scores."""

    @property
    def run(self) -> UUID:
        return self.runs[0]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One benchmark in one style, with every side's number."""

    key: str
    """As addresses call it."""
    benchmark: str
    title: str
    style: str
    name: str
    metric: str
    filter: str
    shots: int
    n: int | None
    numbers: tuple[Number | None, ...]
    """By side."""
    why: tuple[str, ...]
    """By side why it has no number, or one that compares with none; else empty."""
    higher_is_better: bool = True
    weight: float = 0.0
    """Its share of the average; 0 where it does not count."""
    chance: float = 0.0
    """What the average takes as zero; 0 where it takes scores as they are."""
    part_chances: Mapping[str, float] = field(default_factory=dict)
    """The same by leaf task, where they differ."""

    @property
    def drawn_to_scale(self) -> bool:
        """Whether its differences are points, more being better, and so fit on a common scale."""
        return is_share(self.metric) and self.higher_is_better


@dataclass(frozen=True, kw_only=True)
class Lineup:
    """Everything that is compared on a page."""

    sides: tuple[Side, ...]
    tasks: tuple[Task, ...]
    averaged: bool
    """Whether there is an average over the tasks that count."""

    def place(self, key: str) -> int:
        """Which side the address calls so."""
        return next(place for place, side in enumerate(self.sides) if side.key == key)


def vectors_of(tasks: Sequence[Task]) -> dict[int, Vector]:
    """By primary key the scores by question of each result behind these tasks' numbers."""
    return by_result(
        [pk for task in tasks for number in task.numbers if number for pk in number.results]
    )


def stored_files(runs: Iterable[UUID], kind: Artifact.Kind) -> dict[UUID, str]:
    """By run the digest of its file of this kind."""
    files = Artifact.objects.filter(run__in=list(runs), kind=kind)
    return dict(files.values_list("run_id", "sha256"))


def named(sides: Sequence[Side]) -> tuple[Side, ...]:
    """The sides with their letters, each with the shortest name that no other has."""
    lettered = [replace(side, letter=letter) for side, letter in zip(sides, LETTERS, strict=False)]
    names = [side.model for side in lettered]
    for more in _QUALIFIERS:
        alike = Counter(names)
        told = [more(side) for side in lettered]
        # A word that all of those alike share tells nobody from another.
        telling = {
            name
            for name, times in alike.items()
            if times > 1
            and len({word for word, of in zip(told, names, strict=True) if of == name}) > 1
        }
        names = [
            f"{name}, {word}" if name in telling and word else name
            for name, word in zip(names, told, strict=True)
        ]
    return tuple(replace(side, name=name) for side, name in zip(lettered, names, strict=True))


_QUALIFIERS: tuple[Callable[[Side], str], ...] = (
    lambda side: side.owner,
    lambda side: side.quantisation or side.dtype,
    lambda side: side.way,
    lambda side: side.commit[:7],
    lambda side: side.asked,
    lambda side: side.letter,
)
