"""On which questions of a task do two sides part, the largest disagreement first?

Over all questions, from arrays: no text is read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaderboard.compare.samples import NONE, Answers
from leaderboard.compare.vectors import Floats, Vector


class Outcome(IntEnum):
    ALIKE = 0
    BASE = 1
    """The baseline did better."""
    OTHER = 2
    WRONG = 3
    """Neither is right, and they picked different choices."""


SHOWN = {"all": None, "base": Outcome.BASE, "other": Outcome.OTHER, "wrong": Outcome.WRONG}
"""What an address may ask for."""
SORTS = {"size": "Largest disagreement first", "file": "Order of the file"}


@dataclass(frozen=True, eq=False)
class Partings:
    """Two sides' answers to the questions of one task; arrays have one entry for each."""

    base: Vector
    other: Vector
    base_answers: Answers | None
    other_answers: Answers | None
    """None where a sample file is not at hand: then only scores are known."""
    higher_is_better: bool
    part: int | None = None
    """Place of the only part whose questions are listed; None for all."""

    @cached_property
    def outcome(self) -> NDArray[np.int8]:
        """Of each question, an Outcome."""
        ahead = self.other.scores - self.base.scores
        if not self.higher_is_better:
            ahead = -ahead
        found = np.zeros(len(ahead), np.int8)
        found[ahead < 0], found[ahead > 0] = Outcome.BASE, Outcome.OTHER
        if self.base_answers and self.other_answers:
            picks = self.base_answers.pick, self.other_answers.pick
            picked = (picks[0] != NONE) & (picks[1] != NONE) & (picks[0] != picks[1])
            wrong = (self.base.scores < 1) & (self.other.scores < 1)
            found[picked & wrong & (ahead == 0)] = Outcome.WRONG
        return found

    @cached_property
    def counts(self) -> dict[str, int]:
        """By what an address may ask for how many questions that is."""
        return {name: int(self._shown(name).sum()) for name in SHOWN}

    @cached_property
    def distance(self) -> Floats:
        """How far the margins of the two lie apart, in nats; NaN where there are none."""
        if self.base_answers is None or self.other_answers is None:
            return np.full(len(self.outcome), np.nan)
        with np.errstate(invalid="ignore"):  # both found something impossible
            return np.asarray(np.abs(self.base_answers.margin - self.other_answers.margin))

    def places(self, shown: str, sort: str) -> NDArray[np.intp]:
        """Places in the file of the questions where they part, in the order asked for."""
        found = np.flatnonzero(self._shown(shown))
        if sort == "file":
            return found
        apart = np.abs(self.other.scores - self.base.scores)[found]
        distance = np.nan_to_num(self.distance[found], nan=-1.0)
        return found[np.lexsort((found, -distance, -apart))]

    def _shown(self, shown: str) -> NDArray[np.bool_]:
        of = SHOWN[shown]
        found = self.outcome > 0 if of is None else self.outcome == of
        return found if self.part is None else found & (self.base.layout.part == self.part)

    def place_of(self, task: str, doc_id: int) -> int | None:
        """The place of a question in the file; None where the task has none such."""
        layout = self.base.layout
        if task not in layout.tasks:
            return None
        here = (layout.task == layout.tasks.index(task)) & (layout.doc_id == doc_id)
        found = np.flatnonzero(here)
        return int(found[0]) if len(found) else None
