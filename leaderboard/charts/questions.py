"""How hard each question of a benchmark is, and whether it tells models apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaderboard.catalogue import suite_asked_for
from leaderboard.models import ItemAnalysis, Run, SuiteEntry
from leaderboard.tasks import column, items
from leaderboard.web import Address


@dataclass(frozen=True, eq=False)
class Questions:
    """A column of a suite whose questions were analysed."""

    entry: SuiteEntry
    columns: tuple[tuple[str, str], ...]
    """Task and title of every column of the suite that was analysed."""
    table: items.Table | None
    """None where its file is lost."""
    run: Run | None
    """One in which the questions can be read, where any file is at hand."""

    @property
    def title(self) -> str:
        return self.entry.task.titled(self.entry.title)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Those with the lowest discrimination first; without one last, the hardest first."""
        if self.table is None:
            return np.empty(0, np.intp)
        table = self.table
        return np.lexsort((table.difficulty, table.discrimination, ~table.defined))

    def url(self, place: int) -> str:
        """The question with its text and how many models failed it; empty without any file."""
        if self.run is None or self.table is None:
            return ""
        return f"{self.run.get_absolute_url()}?doc={self.table.label(place)}#question"

    def called(self, place: int) -> str:
        """Its part, where there are several, and its number from 1."""
        if self.table is None:
            return ""
        table = self.table
        part = f"{table.parts[table.part[place]]} " if len(table.parts) > 1 else ""
        return f"{part}{table.key(place)[1] + 1}"


def questions_of(address: Address) -> Questions | None:
    """The column that `task` names, or the first; None where none was analysed yet."""
    suite = suite_asked_for(address["suite"])
    if suite is None:
        return None
    entries = suite.entries.filter(draw=0).exclude(comparability_key="")
    analysed = _analysed(list(entries.select_related("task").order_by("position")))
    if not analysed:
        return None
    by_task = {entry.task.name: entry for entry in reversed(analysed)}
    asked = address.choice("task", by_task)
    entry = by_task.get(asked, analysed[0])
    found = items.newest(entry.comparability_key)
    return Questions(
        entry=entry,
        columns=tuple((e.task.name, e.task.titled(e.title)) for e in analysed),
        table=items.table(found) if found else None,
        run=column.run_with_samples(entry.task)[0],
    )


def _analysed(entries: Sequence[SuiteEntry]) -> list[SuiteEntry]:
    keys = {entry.comparability_key for entry in entries}
    rows = ItemAnalysis.objects.filter(comparability_key__in=keys).order_by()
    having = set(rows.values_list("comparability_key", flat=True).distinct())
    return [entry for entry in entries if entry.comparability_key in having]
