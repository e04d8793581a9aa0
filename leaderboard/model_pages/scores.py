"""A commit's numbers in one suite: each benchmark in each style, and how far styles lie apart.

A number stands here as soon as its run is done, before the next board is built: what the board has
not yet is read from the results themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from django.db.models import F, QuerySet
from numpy.typing import NDArray

from evalcore.lengths import NAMES
from evalcore.stats import Interval, difference_interval, paired_rows
from leaderboard.disputed import Second, of_variants
from leaderboard.disputed import over_draws as disputed_over_draws
from leaderboard.model_pages import on_board
from leaderboard.models import Result, Run, Suite, SuiteEntry, Variant
from leaderboard.models.run import lengths_of
from leaderboard.models.task import is_share
from leaderboard.samples import Vector, by_result
from leaderboard.snapshot import PRECEDENCE, Board, Score, Standing, of_draws
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
    runs: tuple[UUID, ...] = ()
    """Of each draw of examples; empty where there is no number."""
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


@dataclass(frozen=True)
class Known:
    """What is known of a commit's runs in a suite."""

    benchmarks: list[Benchmark]
    """Every column of the suite, by benchmark in its order; empty where none was ever asked."""
    of_run: dict[UUID, tuple[str, Score]]
    """By run, of those that have one, its column's metric and its own number there."""


def known(suite: Suite, variant: Variant, board: Board | None) -> Known:
    """`board` is the suite's of every style; what it has not yet is read."""
    own = {name: f"chat_{name}" for name in ("run_key", "comparability_key") if variant.chat}
    names = [own.get(name, name) for name in Entry._fields]
    rows: QuerySet[SuiteEntry, Any] = suite.entries.order_by("position", "draw").values_list(*names)
    entries = [Entry(*row) for row in rows]
    runs = _ended(variant, {entry.run_key for entry in entries})
    if not runs:
        return Known([], {})
    columns: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        columns.setdefault(entry.benchmark, {}).setdefault(entry.style, []).append(entry)
    there = on_board.numbers(board, variant.pk, _asked(columns, runs))
    settled = {run: score for of in there.values() for run, score in of.scores.items()}
    results = _results({entry.run_key: entry for entry in entries}, runs, settled)
    scores = {run: score for run, score in settled.items() if score}
    scores |= {run: score for run, (_, score) in results.items()}
    of_key = _of_keys(entries, runs, scores)
    none = Standing.NOT_MEASURED
    cells = {
        benchmark: [
            _of_draws([of_key.get(draw.run_key, Cell(draw, none)) for draw in draws])
            for draws in styles.values()
        ]
        for benchmark, styles in columns.items()
    }
    cells = _with_seconds(cells, variant)
    ends = {benchmark: _ends(found) for benchmark, found in cells.items()}
    read = [cell for name, pair in ends.items() if pair and name not in there for cell in pair]
    by_question = _by_question([run for cell in read for run in cell.runs], results)
    metrics = {entry.run_key: entry.metric for entry in entries}
    return Known(
        [
            Benchmark(
                found[0].entry.title, found, _spread(ends[name], there.get(name), by_question)
            )
            for name, found in cells.items()
        ],
        {run.pk: (metrics[run.key], scores[run.pk]) for run in runs if run.pk in scores},
    )


class _Run(NamedTuple):
    pk: UUID
    key: str
    state: str


def _ended(variant: Variant, keys: Collection[str]) -> list[_Run]:
    """The variant's runs with these keys that stand for something, the oldest first."""
    runs = Run.objects.filter(variant=variant)
    standing = runs.exclude(state__in=(Run.State.CANCELLED, Run.State.SUPERSEDED))
    rows = standing.order_by("created", "pk").values_list("pk", "run_key", "state")
    return [_Run(*row) for row in rows if row[1] in keys]


def _asked(
    columns: Mapping[str, Mapping[str, Sequence[Entry]]], runs: Sequence[_Run]
) -> dict[str, list[on_board.Asked]]:
    done: dict[str, list[UUID]] = {}
    for run in runs:
        if run.state == Run.State.DONE:
            done.setdefault(run.key, []).append(run.pk)
    return {
        benchmark: [
            on_board.Asked(
                style,
                draws[0].task__name,
                draws[0].metric,
                draws[0].filter,
                draws[0].comparability_key,
                [run for draw in draws for run in done.get(draw.run_key, ())],
            )
            for style, draws in styles.items()
        ]
        for benchmark, styles in columns.items()
    }


_SCORE = ("value", "low", "high", "n", *NAMES)


def _results(
    by_key: Mapping[str, Entry], runs: Sequence[_Run], there: Container[UUID]
) -> dict[UUID, tuple[int, Score]]:
    """By run the primary key and the number of what stands in its column, of those not `there`."""
    column = {
        run.pk: by_key[run.key]
        for run in runs
        if run.state == Run.State.DONE and run.pk not in there
    }
    if not column:  # Django would build the query before it finds that nothing is asked for
        return {}
    rows: QuerySet[Result, Any] = Result.objects.filter(
        run__in=list(column), subset="", task_name=F("run__task__name")
    ).values_list("run_id", "metric", "filter", "comparability_key", "pk", *_SCORE)
    return {
        run: (pk, Score(value, low, high, n, lengths=lengths_of(counts)))
        for run, metric, of_filter, key, pk, value, low, high, n, *counts in rows
        if (entry := column[run]).comparability_key == key
        and (entry.metric, entry.filter) == (metric, of_filter)
    }


def _of_keys(
    entries: Sequence[Entry], runs: Sequence[_Run], scores: Mapping[UUID, Score]
) -> dict[str, Cell]:
    """By run key the best that the runs have to show; of equals the newest."""
    by_key = {entry.run_key: entry for entry in entries}
    cells: dict[str, Cell] = {}
    for pk, key, state in runs:
        if pk in scores:
            new = Cell(by_key[key], Standing.SCORED, scores[pk], pk, (pk,))
        elif state == Run.State.DONE:
            new = Cell(by_key[key], Standing.NOT_COMPARABLE, run=pk)
        else:
            new = Cell(by_key[key], Standing(state), run=pk)
        old = cells.get(key)
        if old is None or PRECEDENCE[new.standing] <= PRECEDENCE[old.standing]:
            cells[key] = new
    return cells


def _with_seconds(cells: dict[str, list[Cell]], variant: Variant) -> dict[str, list[Cell]]:
    """By benchmark the cells with their second figures; one query for all."""
    known = of_variants([variant.pk])
    if not known:
        return cells
    return {
        benchmark: [
            replace(
                cell,
                second=disputed_over_draws(
                    [known.get((run, cell.entry.metric, cell.entry.filter)) for run in cell.runs]
                ),
            )
            for cell in of
        ]
        for benchmark, of in cells.items()
    }


def _by_question(
    runs: Sequence[UUID], results: Mapping[UUID, tuple[int, Score]]
) -> dict[UUID, Vector]:
    """By run the scores by question behind its number."""
    run_of = {results[run][0]: run for run in runs}
    if not run_of:
        return {}
    return {run_of[pk]: vector for pk, vector in by_result(list(run_of)).items()}


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
    runs = tuple(run for cell in cells for run in cell.runs)
    return Cell(first.entry, Standing.SCORED, score, first.run, runs)


def _ends(cells: Sequence[Cell]) -> tuple[Cell, Cell] | None:
    """The styles with the highest and the lowest score; None for fewer than two in one unit."""
    scored = [(cell.score.value, place) for place, cell in enumerate(cells) if cell.score]
    if len(scored) < 2 or len({cells[place].share for _, place in scored}) > 1:
        return None
    return cells[max(scored)[1]], cells[min(scored)[1]]


def _spread(
    ends: tuple[Cell, Cell] | None,
    there: on_board.Numbers | None,
    by_question: Mapping[UUID, Vector],
) -> Spread | None:
    if ends is None:
        return None
    high, low = ends
    if high.score is None or low.score is None:
        return None
    if there is not None:
        apart = there.difference(high.runs[0], low.runs[0])
        return Spread(high.entry, low.entry, apart, paired=True)
    if paired := _paired(high, low, by_question):
        return Spread(high.entry, low.entry, paired, paired=True)
    apart = difference_interval(high.score.interval, low.score.interval)
    return Spread(high.entry, low.entry, apart, paired=False)


def _paired(high: Cell, low: Cell, by_question: Mapping[UUID, Vector]) -> Interval | None:
    """The paired difference; None where the questions differ, or say nothing of others."""
    found = [by_question.get(run) for cell in (high, low) for run in cell.runs]
    known = [vector for vector in found if vector]
    if len(known) < len(found):
        return None
    if len({(vector.layout.docs_digest, vector.by_part) for vector in known}) > 1:
        return None
    layout, draws = known[0].layout, len(high.runs)
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
