"""Which number stands in which cell, and why none does: from rows of runs and results.

A column is a suite entry: one benchmark in one prompt style, in all draws of its examples. Only
results with the entry's comparability key stand in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q, QuerySet

from evalcore.lengths import NAMES, Lengths
from evalcore.stats import Interval, mean_interval
from leaderboard.models import Result, Run, SuiteEntry, TaskVersion
from leaderboard.models.run import lengths_of
from leaderboard.models.task import is_share
from leaderboard.snapshot.data import (
    COST_FIELDS,
    PRECEDENCE,
    STANDINGS,
    Cost,
    Score,
    Standing,
    mean_cost,
)
from leaderboard.stats import normalised, over_draws

PLACE = {standing: place for place, standing in enumerate(STANDINGS)}


@dataclass(frozen=True)
class Cell:
    """One model in one draw of one column."""

    standing: Standing
    run: UUID | None = None
    result: int | None = None
    """Primary key of the number, where there is one."""
    score: Score | None = None
    cost: Cost | None = None
    why: str = ""
    """For NOT_COMPARABLE: in what this run differs from the column; for RECALLED: why."""
    parts: Mapping[str, Score] = field(default_factory=dict)
    """By task, where each part of a group is taken from a chance of its own."""
    results: tuple[int, ...] = ()
    """The results of all draws, where the cell is the mean over several."""
    other_draws: tuple[UUID, ...] = ()

    @property
    def of_draws(self) -> tuple[int, ...]:
        """The results of all draws; empty where there is no number."""
        return self.results or ((self.result,) if self.result is not None else ())


def cells_by_variant(entries: Sequence[SuiteEntry]) -> dict[int, Cell]:
    """A column's cells, of every variant that was tried; the entries are its draws of examples."""
    taken = {run_key for entry in entries for run_key, _ in entry.keys}
    by_draw = [_cells(entry, taken) for entry in entries]
    variants = dict.fromkeys(variant for cells in by_draw for variant in cells)
    none = Cell(Standing.NOT_MEASURED)
    return {
        variant: _of_draws([cells.get(variant, none) for cells in by_draw]) for variant in variants
    }


def _cells(entry: SuiteEntry, taken: set[str]) -> dict[int, Cell]:
    """By variant the best that its runs of this entry have to show; of equals the newest."""
    keys = [run_key for run_key, _ in entry.keys]
    asked = Q(run_key__in=keys)
    if not entry.draw:
        # Runs of this benchmark in this style that differ in something else are shown with why.
        tasks = TaskVersion.objects.filter(benchmark=entry.task.benchmark, style=entry.task.style)
        # By number: a join in one half of an OR would read the whole table.
        numbers = list(tasks.values_list("pk", flat=True))
        asked |= Q(task_id__in=numbers) & ~Q(run_key__in=taken)
    runs = (
        Run.objects.filter(asked)
        .exclude(state__in=(Run.State.CANCELLED, Run.State.SUPERSEDED))
        .order_by("created")
        .values_list("pk", "variant_id", "run_key", "state", "recall__reason")
    )
    scores = _scores(entry)
    parts = _parts(entry)
    strangers = [pk for pk, _, _, state, _ in runs if state == Run.State.DONE and pk not in scores]
    reasons = _reasons(entry, strangers)
    cells: dict[int, Cell] = {}
    for pk, variant, key, state, recalled in runs:
        if pk in scores:
            result, score, cost = scores[pk]
            new = Cell(Standing.SCORED, pk, result, score, cost, parts=parts.get(pk, {}))
        elif pk in reasons:
            new = Cell(Standing.NOT_COMPARABLE, pk, why=reasons[pk])
        elif key in keys:
            new = Cell(Standing(state), pk, why=recalled or "")
        else:
            new = Cell(Standing.NOT_MEASURED)
        old = cells.get(variant)
        if old is None or PRECEDENCE[new.standing] <= PRECEDENCE[old.standing]:
            cells[variant] = new
    return cells


def results_of(entry: SuiteEntry) -> QuerySet[Result]:
    """The numbers that stand in this column."""
    # The comparability key is made of the run key, so that no two of different pairs meet.
    return Result.objects.filter(
        comparability_key__in=[key for _, key in entry.keys if key],
        run__run_key__in=[run_key for run_key, _ in entry.keys],
        run__state=Run.State.DONE,
        task_name=entry.task.name,
        subset="",
        metric=entry.metric,
        filter=entry.filter,
    )


_COST = tuple(f"run__cost__{name}" for name in COST_FIELDS)


def _scores(entry: SuiteEntry) -> dict[UUID, tuple[int, Score, Cost | None]]:
    """By run the number that stands in this column, and what it took."""
    rows = results_of(entry).values_list(
        *("run_id", "pk", "value", "low", "high", "n"), *_COST, *NAMES
    )
    return {
        run: (
            pk,
            Score(value, low, high, n, lengths=lengths_of(rest[len(_COST) :])),
            Cost.of(*rest[: len(_COST)]),
        )
        for run, pk, value, low, high, n, *rest in rows
    }


def _parts(entry: SuiteEntry) -> dict[UUID, dict[str, Score]]:
    if not entry.part_chances:
        return {}
    rows = Result.objects.filter(
        run__run_key__in=[run_key for run_key, _ in entry.keys],
        run__state=Run.State.DONE,
        task_name__in=entry.part_chances,
        metric=entry.metric,
        filter=entry.filter,
    ).values_list("run_id", "task_name", "value", "low", "high", "n")
    by_run: dict[UUID, dict[str, Score]] = {}
    for run, task, value, low, high, n in rows:
        by_run.setdefault(run, {})[task] = Score(value, low, high, n)
    return by_run


def _reasons(entry: SuiteEntry, strangers: Sequence[UUID]) -> dict[UUID, str]:
    """In words, what keeps finished runs out of the column."""
    runs = Run.objects.filter(pk__in=strangers).select_related("task")
    own = Result.objects.filter(
        run_id__in=strangers, subset="", metric=entry.metric, filter=entry.filter
    )
    questions = {(r.run_id, r.task_name): r.n for r in own.only("run_id", "task_name", "n")}
    return {run.pk: _difference(entry, run, questions.get((run.pk, run.task.name))) for run in runs}


def _difference(entry: SuiteEntry, run: Run, n: int | None) -> str:
    if run.task.name != entry.task.name:
        return f"asked as task {run.task.name}, this column is {entry.task.name}"
    if run.task.version != entry.task.version:
        return f"task version {run.task.version}, this column is {entry.task.version}"
    if run.shots != entry.shots:
        return f"{run.shots} shots, this column has {entry.shots}"
    if run.run_key not in (run_key for run_key, _ in entry.keys):
        return "another way of asking than this column’s"
    if n is None:
        return f"no result for {entry.metric}"
    return f"other questions than this column’s (n = {n:,})"


def _of_draws(cells: Sequence[Cell]) -> Cell:
    """One cell of those of all draws: their mean, or what keeps one of them from a score."""
    first, *others = cells
    if not others:
        return first
    for cell in cells:
        if cell.score is None:
            return cell
    return Cell(
        Standing.SCORED,
        first.run,
        first.result,
        mean_of_draws([cell.score for cell in cells if cell.score]),
        mean_cost([cell.cost for cell in cells]),
        parts={name: mean_of_draws([cell.parts[name] for cell in cells]) for name in first.parts},
        results=tuple(cell.result for cell in cells if cell.result is not None),
        other_draws=tuple(cell.run for cell in others if cell.run),
    )


def mean_of_draws(scores: Sequence[Score]) -> Score:
    """The mean of a number over draws of examples, with what was cut short in all of them."""
    drawn = over_draws([score.interval for score in scores])
    lengths = _lengths_of_draws([score.lengths for score in scores])
    n, sd = scores[0].n, drawn.sd_of_draws
    return Score(drawn.value, drawn.low, drawn.high, n, drawn.k, sd, lengths)


def _lengths_of_draws(counts: Sequence[Lengths | None]) -> Lengths | None:
    """Of all draws together; None where those of one were not counted."""
    known = [lengths for lengths in counts if lengths is not None]
    return Lengths.sum(known) if len(known) == len(counts) else None


def from_chance(cell: Cell, entry: SuiteEntry) -> Interval | None:
    """The cell's score as its share of the way from guessing to all right; by part where so said.

    None where there is no score, or a part of it is missing.
    """
    if cell.score is None:
        return None
    if not is_share(entry.metric):
        return cell.score.interval
    chances = entry.part_chances
    if not chances:
        return normalised(cell.score.interval, entry.task.chance or 0.0)
    if cell.parts.keys() != chances.keys():
        return None
    return mean_interval([normalised(cell.parts[name].interval, chances[name]) for name in chances])
