"""A task with what its metrics gave for each document: what is aggregated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from evalcore.lengths import Lengths
from evalcore.record import Failure
from evalcore.score.sample import Sample
from evalcore.score.task_metrics import Measures
from evalcore.task.config import TaskSpec

Column = tuple[str, str]
"""A metric and a filter."""


@dataclass(frozen=True)
class ScoredTask:
    """A leaf task with what its metrics gave for each document."""

    spec: TaskSpec
    samples: list[Sample]
    measures: Measures
    items: dict[Column, list[Any]] = field(default_factory=dict)
    """What is aggregated, in the order of the documents."""
    positions: dict[Column, list[int]] = field(default_factory=dict)
    """The place in `samples` of the document of each item: a metric may leave some out."""
    failures: list[Failure] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.spec.name

    def enter(self, metric: str, filter: str, item: Any, position: int) -> None:
        """What a metric gave for the document at this position."""
        self.items.setdefault((metric, filter), []).append(item)
        self.positions.setdefault((metric, filter), []).append(position)

    def clusters(self, column: Column) -> list[str] | None:
        """The cluster of each item; None where the task names none."""
        if not self.spec.about.cluster:
            return None
        return [self.samples[position]["cluster"] for position in self.positions[column]]

    def samples_of(self, column: Column) -> list[Sample]:
        """The samples of the documents that have an item."""
        return [self.samples[position] for position in self.positions[column]]

    @cached_property
    def lengths(self) -> list[Lengths]:
        """Of each sample."""
        return [Lengths.of(sample["responses"]) for sample in self.samples]

    def only(self, keep: Callable[[Sample], bool]) -> ScoredTask:
        """The same task on some of its documents."""
        kept = [position for position, sample in enumerate(self.samples) if keep(sample)]
        place = {position: number for number, position in enumerate(kept)}
        part = replace(
            self, samples=[self.samples[position] for position in kept], items={}, positions={}
        )
        for column, positions in self.positions.items():
            for item, position in zip(self.items[column], positions, strict=True):
                if position in place:
                    part.enter(*column, item, place[position])
        return part
