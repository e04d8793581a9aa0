"""A commit's numbers in one suite: each benchmark in each style, with its rank and its shade.

A number stands here as soon as its run is done, before the next board is built: what the board of
every style does not have yet is read from the results themselves.

What a run ended with never changes, and a column keeps its comparability key while a run with it
stands. So the number of a run that stood on the board, and is done still, is the number in the
tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, QuerySet
from django.template import engines
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

from evalcore.lengths import NAMES
from evalcore.stats import Interval
from leaderboard.board import CUT_SHORT
from leaderboard.model_pages.standing import Position
from leaderboard.models import Result, Run, Suite, SuiteEntry, Variant
from leaderboard.models.run import lengths_of, run_url
from leaderboard.models.task import Style, is_share, task_url
from leaderboard.snapshot import (
    PRECEDENCE,
    STANDINGS,
    Board,
    Score,
    Standing,
    adjusted,
    mean_of_draws,
    positions,
)
from leaderboard.templatetags.design import style_sign
from leaderboard.templatetags.figures import (
    bounds_in,
    exactly,
    ordinal,
    percent,
    points,
    shown,
)


class Entry(NamedTuple):
    """What is shown of a suite entry, by the names of its fields: a page has hundreds of them."""

    benchmark: str
    title: str
    style: str
    own: bool
    shots: int
    metric: str
    filter: str
    run_key: str
    comparability_key: str
    task__name: str


@dataclass(frozen=True)
class Cell:
    """One benchmark in one style, or what keeps it from a number."""

    entry: Entry
    standing: Standing
    score: Score | None = None
    run: UUID | None = None
    runs: tuple[UUID, ...] = ()
    """Of each draw of examples; empty where there is no number."""
    column: int | None = None
    """Of the board of every style, where the number stands there."""
    second: adjusted.AdjustedScore | None = None
    """Without the questions whose keys are disputed."""


@dataclass(frozen=True)
class Benchmark:
    """A line of the table, by style."""

    title: str
    cells: Mapping[str, Cell]

    @property
    def own(self) -> Cell:
        """In the style that the suite counts; in its first where it counts none."""
        cells = list(self.cells.values())
        return next((cell for cell in cells if cell.entry.own), cells[0])


def benchmarks_of(suite: Suite, variant: Variant, board: Board | None) -> list[Benchmark]:
    """Every benchmark of the suite in its order; empty where no run of it was ever asked for.

    `board` is the suite's of every style.
    """
    chat = {name: f"chat_{name}" for name in ("run_key", "comparability_key") if variant.chat}
    names = [chat.get(name, name) for name in Entry._fields]
    rows: QuerySet[SuiteEntry, Any] = suite.entries.order_by("position", "draw").values_list(*names)
    entries = [Entry(*row) for row in rows]
    runs = _ended(variant, {entry.run_key for entry in entries})
    if not runs:
        return []
    of_board = _on_board(board, variant, entries, runs)
    missing = [run for run in runs if run.pk not in of_board]
    of_key = _best_of_keys(entries, runs, of_board | _results(entries, missing))
    columns: dict[str, dict[str, list[Cell]]] = {}
    for entry in entries:
        cell = of_key.get(entry.run_key, Cell(entry, Standing.NOT_MEASURED))
        columns.setdefault(entry.benchmark, {}).setdefault(entry.style, []).append(cell)
    seconds = adjusted.of_variants([variant.pk])
    return [
        Benchmark(
            next(iter(styles.values()))[0].entry.title,
            {style: _with_second(_over_draws(draws), seconds) for style, draws in styles.items()},
        )
        for styles in columns.values()
    ]


class _Run(NamedTuple):
    pk: UUID
    key: str
    state: str


class _Found(NamedTuple):
    """What a run ended with: its column's number, or None where it has none of its column's key."""

    score: Score | None
    column: int | None


def _ended(variant: Variant, keys: Collection[str]) -> list[_Run]:
    """The variant's runs with these keys that stand for something, the oldest first."""
    runs = Run.objects.filter(variant=variant)
    standing = runs.exclude(state__in=(Run.State.CANCELLED, Run.State.SUPERSEDED))
    rows = standing.order_by("created", "pk").values_list("pk", "run_key", "state")
    return [_Run(*row) for row in rows if row[1] in keys]


def _on_board(
    board: Board | None, variant: Variant, entries: Sequence[Entry], runs: Sequence[_Run]
) -> dict[UUID, _Found]:
    """By run what the board has already: in memory, where its rows lie all over the tables.

    Only where nothing else can stand in the cell: a single draw of which one run is done.
    """
    row = board.row_of.get(variant.pk) if board else None
    if board is None or row is None:
        return {}
    done: dict[str, list[UUID]] = {}
    for run in runs:
        if run.state == Run.State.DONE:
            done.setdefault(run.key, []).append(run.pk)
    by_column = {
        (column.benchmark, column.style, column.task, column.metric, column.filter): at
        for at, column in enumerate(board.columns)
        if column.draws == 1
    }
    # A row's arrays are read at once, as a board has hundreds of columns.
    sides = [side[row].tolist() for side in board.scores.sides]
    n, lengths = board.n[row].tolist(), board.lengths[row].tolist()
    run_ids, standings = board.run[row].tolist(), board.standing[row].tolist()
    found = {}
    for entry in entries:
        named = entry.benchmark, entry.style, entry.task__name, entry.metric, entry.filter
        at = by_column.get(named)
        if at is None or [UUID(bytes=run_ids[at])] != done.get(entry.run_key):
            continue
        (pk,) = done[entry.run_key]
        same_key = board.columns[at].comparability_key == entry.comparability_key
        if standings[at] == _SCORED:
            value, low, high = (side[at] for side in sides)
            score = Score(value, low, high, n[at], lengths=lengths_of(lengths[at]))
            found[pk] = _Found(score, at)
        elif standings[at] == _NOT_COMPARABLE and same_key:
            found[pk] = _Found(None, None)
    return found


_SCORED, _NOT_COMPARABLE = map(STANDINGS.index, (Standing.SCORED, Standing.NOT_COMPARABLE))
_SCORE = ("value", "low", "high", "n", *NAMES)


def _results(entries: Sequence[Entry], runs: Sequence[_Run]) -> dict[UUID, _Found]:
    """By run the number that stands in its column, of those that are done and have one."""
    by_key = {entry.run_key: entry for entry in entries}
    column = {run.pk: by_key[run.key] for run in runs if run.state == Run.State.DONE}
    if not column:  # Django would build the query before it finds that nothing is asked for
        return {}
    rows: QuerySet[Result, Any] = Result.objects.filter(
        run__in=list(column), subset="", task_name=F("run__task__name")
    ).values_list("run_id", "metric", "filter", "comparability_key", *_SCORE)
    return {
        run: _Found(Score(value, low, high, n, lengths=lengths_of(counts)), None)
        for run, metric, of_filter, key, value, low, high, n, *counts in rows
        if (entry := column[run]).comparability_key == key
        and (entry.metric, entry.filter) == (metric, of_filter)
    }


def _best_of_keys(
    entries: Sequence[Entry], runs: Sequence[_Run], found: Mapping[UUID, _Found]
) -> dict[str, Cell]:
    """By run key the best that the runs have to show; of equals the newest."""
    by_key = {entry.run_key: entry for entry in entries}
    nothing = _Found(None, None)
    cells: dict[str, Cell] = {}
    for pk, key, state in runs:
        score, column = found.get(pk, nothing)
        if score:
            new = Cell(by_key[key], Standing.SCORED, score, pk, (pk,), column)
        elif state == Run.State.DONE:
            new = Cell(by_key[key], Standing.NOT_COMPARABLE, run=pk)
        else:
            new = Cell(by_key[key], Standing(state), run=pk)
        old = cells.get(key)
        if old is None or PRECEDENCE[new.standing] <= PRECEDENCE[old.standing]:
            cells[key] = new
    return cells


def _over_draws(cells: Sequence[Cell]) -> Cell:
    """The mean over the draws of examples, or what keeps one of them from a score."""
    first = cells[0]
    for cell in cells:
        if cell.score is None:
            return Cell(first.entry, cell.standing, run=cell.run)
    if len(cells) == 1:
        return first
    score = mean_of_draws([cell.score for cell in cells if cell.score])
    runs = tuple(run for cell in cells for run in cell.runs)
    return Cell(first.entry, Standing.SCORED, score, first.run, runs)


def _with_second(
    cell: Cell, seconds: Mapping[tuple[UUID, str, str], adjusted.AdjustedScore]
) -> Cell:
    if not seconds or not cell.runs:
        return cell
    entry = cell.entry
    draws = [seconds.get((run, entry.metric, entry.filter)) for run in cell.runs]
    return replace(cell, second=adjusted.over_draws(draws))


class Table(NamedTuple):
    """The scores as a page shows them."""

    html: SafeString
    cut_short: bool
    """Whether a score is marked since many of its answers were cut short."""


class _CellText(NamedTuple):
    """Texts of our own making, or escaped."""

    classes: str
    url: str
    """The run's; empty for none."""
    value: str
    """The number, or how it stands."""
    interval: str
    """The ends of the interval, or what more there is to say of the standing."""
    title: str
    second: str
    """The same without disputed questions; empty where there are none."""


class _Line(NamedTuple):
    """A benchmark; texts of our own making, or escaped."""

    title: str
    url: str
    questions: str
    shots: str
    cells: list[_CellText | None]
    spread: str
    spread_range: str
    rank: str
    span: str
    strip: str


STRIP_WIDTH = 160


def scores_table(
    benchmarks: Sequence[Benchmark],
    variant: Variant,
    board: Board | None,
    own_positions: Sequence[Position],
) -> Table:
    """The <table> of a model's scores; `board` is the suite's of every style."""
    styles = list(dict.fromkeys(style for line in benchmarks for style in line.cells))
    row = board.row_of.get(variant.pk) if board else None
    shades = _shades(board, row) if board and row is not None else []
    by_benchmark = {position.column.benchmark: position for position in own_positions}
    lines = []
    for line in benchmarks:
        own = line.own.entry
        spread = _spread(line, board, row)
        position = by_benchmark.get(own.benchmark)
        score = line.own.score
        lines.append(
            _Line(
                conditional_escape(line.title),
                conditional_escape(task_url(own.task__name)),
                f"{score.n:,}" if score else "",
                _shots(own.shots, score),
                [_cell_text(line.cells[style], shades) if style in line.cells else None
                 for style in styles],
                points(spread.value) if spread else "",
                f"{percent(spread.low)} to {percent(spread.high)}" if spread else "",
                f"{position.rank:,}" if position else "",
                position.span if position else "",
                _strip(position) if position else "",
            )
        )  # fmt: skip
    labels = [(style, str(Style(style).label)) for style in styles]
    heads = [(style_sign(style), label, label.removesuffix("-style")) for style, label in labels]
    most = max((position.models for position in own_positions), default=0)
    html = engines["jinja2"].get_template("model_pages/scores_table.jinja").render(
        {
            "heads": heads,
            "lines": lines,
            "models": f"{most:,}" if most else "",
            "last": ordinal(most) if most else "",
            "spread": any(line.spread for line in lines),
        }
    )  # fmt: skip
    cut = any(cell and CUT_SHORT in cell.value for line in lines for cell in line.cells)
    return Table(mark_safe(html), cut)  # noqa: S308 what it takes over is escaped here


def _shades(board: Board, row: int) -> list[str]:
    """By column the classes of the cell's shade; the best of the column has a class more."""
    heat = positions.heat_of(board)[row].tolist()
    ranks = positions.of_board(board).rank[row].tolist()
    return [
        (f" h{shade}" if shade else "") + (" best" if shade and rank == 1 else "")
        for shade, rank in zip(heat, ranks, strict=True)
    ]


def _shots(shots: int, score: Score | None) -> str:
    draws = f", mean of {score.draws} draws" if score and score.draws > 1 else ""
    return f"{shots}-shot{draws}"


def _cell_text(cell: Cell, shades: Sequence[str]) -> _CellText:
    entry, score = cell.entry, cell.score
    url = run_url(cell.run) if cell.run else ""
    own = " own" if entry.own else ""
    if score is None:
        words = "other questions" if cell.standing is Standing.NOT_COMPARABLE else ""
        return _CellText(f"n na{own}", url, str(cell.standing), words, "", "")
    shade = shades[cell.column] if shades and cell.column is not None else ""
    cut = CUT_SHORT if score.lengths and score.lengths.is_large else ""
    return _CellText(
        f"n{shade}{own}",
        url,
        shown(score, entry.metric) + cut,
        bounds_in(score, entry.metric),
        exactly(score),
        adjusted.mark(cell.second, entry.metric) if cell.second else "",
    )


def _spread(line: Benchmark, board: Board | None, row: int | None) -> Interval | None:
    """The highest minus the lowest of its styles, as the board compared them; None where the board
    has not both."""
    scored = [
        (cell.score.value, cell.column)
        for cell in line.cells.values()
        if cell.score and cell.column is not None and is_share(cell.entry.metric)
    ]
    if board is None or row is None or len(scored) < 2:
        return None
    high, low = max(scored)[1], min(scored)[1]
    for gap in board.gaps:
        if {gap.first, gap.second} == {high, low}:
            value, least, most = (float(side[row]) for side in gap.difference.sides)
            if gap.first == high:
                return Interval(least, value, most)
            # Not by a minus: of no difference that would make -0.
            return Interval(0.0 - most, 0.0 - value, 0.0 - least)
    return None


def _strip(position: Position) -> str:
    """Rank and range from the last of the field to its first, on a logarithmic scale."""

    def x(rank: int) -> float:
        return STRIP_WIDTH * (1 - log(rank) / log(position.models))

    left, right = x(position.high), x(position.low)
    return (
        f'<rect class="span" x="{left:.1f}" y="6" width="{max(right - left, 2):.1f}" height="8" '
        f'rx="3"/><rect class="pt" x="{x(position.rank) - 1.5:.1f}" y="2" width="3" height="16" '
        'rx="1"/>'
    )
