"""A commit's numbers in one suite: each benchmark in each style, and how far styles lie apart.

Read from the results themselves: a number stands here as soon as its run is done, before the next
board is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from django.db.models import F, QuerySet
from numpy.typing import NDArray

from evalcore.lengths import NAMES
from evalcore.stats import Interval, difference_interval, paired_rows
from leaderboard.disputed import Second, of_results
from leaderboard.disputed import over_draws as disputed_over_draws
from leaderboard.models import Result, Run, Suite, SuiteEntry, Variant
from leaderboard.models.run import lengths_of
from leaderboard.models.task import is_share
from leaderboard.samples import Vector, by_result
from leaderboard.snapshot import PRECEDENCE, Score, Standing, of_draws
from leaderboard.stats import over_draws
from leaderboard.web import Scale


class Entry(NamedTuple):
    """What is shown of a suite entry, by the names of its fields: a page has hundreds of them."""

    benchmark: str
    title: str
    style: str
    shots: int
    metric: str
    filter: str
    run_key: str
    comparability_key: str
    task__name: str
    task__chance: float | None


@dataclass(frozen=True)
class Cell:
    """One benchmark in one style, or what keeps it from a number."""

    entry: Entry
    standing: Standing
    score: Score | None = None
    run: UUID | None = None
    results: tuple[int, ...] = ()
    """Of each draw of examples, by primary key."""
    second: Second | None = None
    """Without the questions whose keys are disputed."""

    @property
    def share(self) -> bool:
        return is_share(self.entry.metric)


@dataclass(frozen=True)
class Spread:
    """The highest minus the lowest of a benchmark's styles."""

    high: Entry
    low: Entry
    difference: Interval
    paired: bool
    """Whether the same questions were compared one by one; else as independent scores."""

    @property
    def clear(self) -> bool:
        return self.difference.low > 0


@dataclass(frozen=True)
class Benchmark:
    title: str
    cells: list[Cell]
    spread: Spread | None


def benchmarks(suite: Suite, variant: Variant) -> list[Benchmark]:
    """Every column of the suite, by benchmark in its order; empty where none was ever asked."""
    own = {name: f"chat_{name}" for name in ("run_key", "comparability_key") if variant.chat}
    names = [own.get(name, name) for name in Entry._fields]
    rows: QuerySet[SuiteEntry, Any] = suite.entries.order_by("position", "draw").values_list(*names)
    entries = [Entry(*row) for row in rows]
    of_key = _of_keys(entries, variant)
    if not of_key:
        return []
    columns: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        columns.setdefault((entry.benchmark, entry.style), []).append(entry)
    cells: dict[str, list[Cell]] = {}
    for (benchmark, _), draws in columns.items():
        found = [of_key.get(draw.run_key, Cell(draw, Standing.NOT_MEASURED)) for draw in draws]
        cells.setdefault(benchmark, []).append(_of_draws(found))
    cells = _with_seconds(cells)
    ends = {benchmark: _ends(found) for benchmark, found in cells.items()}
    shown = [cell for pair in ends.values() if pair for cell in pair]
    by_question = by_result([pk for cell in shown for pk in cell.results])
    return [
        Benchmark(found[0].entry.title, found, _spread(ends[benchmark], by_question))
        for benchmark, found in cells.items()
    ]


def _with_seconds(cells: dict[str, list[Cell]]) -> dict[str, list[Cell]]:
    """By benchmark the cells with their second figures; one query for all."""
    known = of_results([pk for of in cells.values() for cell in of for pk in cell.results])
    if not known:
        return cells
    return {
        benchmark: [
            replace(cell, second=disputed_over_draws([known.get(pk) for pk in cell.results]))
            for cell in of
        ]
        for benchmark, of in cells.items()
    }


_SCORE = ("value", "low", "high", "n", *NAMES)


def _of_keys(entries: Sequence[Entry], variant: Variant) -> dict[str, Cell]:
    """By run key the best that the variant's runs have to show; of equals the newest."""
    by_key = {entry.run_key: entry for entry in entries}
    runs = Run.objects.filter(variant=variant)
    results: QuerySet[Result, Any] = Result.objects.filter(
        run__in=runs.filter(state=Run.State.DONE), subset="", task_name=F("run__task__name")
    ).values_list("run_id", "metric", "filter", "comparability_key", "pk", *_SCORE)
    numbers = {
        (run, metric, of_filter, key): (
            pk,
            Score(value, low, high, n, lengths=lengths_of(counts)),
        )
        for run, metric, of_filter, key, pk, value, low, high, n, *counts in results
    }
    cells: dict[str, Cell] = {}
    ended = runs.exclude(state__in=(Run.State.CANCELLED, Run.State.SUPERSEDED)).order_by(
        "created", "pk"
    )
    for pk, run_key, state in ended.values_list("pk", "run_key", "state"):
        if run_key not in by_key:
            continue
        entry = by_key[run_key]
        number = numbers.get((pk, entry.metric, entry.filter, entry.comparability_key))
        if number:
            new = Cell(entry, Standing.SCORED, number[1], pk, (number[0],))
        elif state == Run.State.DONE:
            new = Cell(entry, Standing.NOT_COMPARABLE, run=pk)
        else:
            new = Cell(entry, Standing(state), run=pk)
        old = cells.get(run_key)
        if old is None or PRECEDENCE[new.standing] <= PRECEDENCE[old.standing]:
            cells[run_key] = new
    return cells


def _of_draws(cells: Sequence[Cell]) -> Cell:
    """The mean over the draws of examples, or what keeps one of them from a score."""
    first, scores = cells[0], [cell.score for cell in cells]
    for cell in cells:
        if cell.score is None:
            return Cell(first.entry, cell.standing, run=cell.run)
    if len(cells) == 1 or first.score is None:
        return first
    drawn = over_draws([score.interval for score in scores if score])
    lengths = of_draws([score.lengths for score in scores if score])
    n, sd = first.score.n, drawn.sd_of_draws
    score = Score(drawn.value, drawn.low, drawn.high, n, drawn.k, sd, lengths)
    results = tuple(pk for cell in cells for pk in cell.results)
    return Cell(first.entry, Standing.SCORED, score, first.run, results)


def _ends(cells: Sequence[Cell]) -> tuple[Cell, Cell] | None:
    """The styles with the highest and the lowest score; None for fewer than two in one unit."""
    scored = [(cell.score.value, place) for place, cell in enumerate(cells) if cell.score]
    if len(scored) < 2 or len({cells[place].share for _, place in scored}) > 1:
        return None
    return cells[max(scored)[1]], cells[min(scored)[1]]


def _spread(ends: tuple[Cell, Cell] | None, by_question: Mapping[int, Vector]) -> Spread | None:
    if ends is None:
        return None
    high, low = ends
    if high.score is None or low.score is None:
        return None
    if paired := _paired(high, low, by_question):
        return Spread(high.entry, low.entry, paired, paired=True)
    apart = difference_interval(high.score.interval, low.score.interval)
    return Spread(high.entry, low.entry, apart, paired=False)


def _paired(high: Cell, low: Cell, by_question: Mapping[int, Vector]) -> Interval | None:
    """The paired difference; None where the questions differ, or say nothing of others."""
    found = [by_question.get(pk) for cell in (high, low) for pk in cell.results]
    known = [vector for vector in found if vector]
    if len(known) < len(found):
        return None
    if len({(vector.layout.docs_digest, vector.by_part) for vector in known}) > 1:
        return None
    layout, draws = known[0].layout, len(high.results)
    scores = [vector.scores for vector in known]
    try:
        rows = paired_rows(
            _mean(scores[:draws]),
            _mean(scores[draws:]),
            clusters=layout.cluster,
            strata=layout.strata,
            by_part=known[0].by_part,
        )
    except ValueError:  # a single cluster
        return None
    low_end, value, high_end = float(rows.low[0]), float(rows.difference[0]), float(rows.high[0])
    return Interval(low_end, value, high_end) if low_end < high_end else None


def _mean(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Over draws of examples; as the one row of a table."""
    mean: NDArray[np.float64] = np.mean(scores, axis=0, keepdims=True)
    return mean


def scale_of(found: Iterable[Benchmark]) -> Scale:
    """One scale for all shares on the page, chance among them."""
    cells = [cell for benchmark in found for cell in benchmark.cells if cell.share]
    scores = (cell.score for cell in cells if cell.score)
    return Scale.over(scores, *(cell.entry.task__chance for cell in cells))
