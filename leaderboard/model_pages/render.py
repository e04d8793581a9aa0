"""The tables of a model's page that have hundreds of cells, as HTML: by Jinja2, since Django's own
templates are too slow for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.template import engines
from django.template.loader import render_to_string
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

from leaderboard.board import CUT_SHORT
from leaderboard.disputed import mark
from leaderboard.model_pages.field import Position
from leaderboard.model_pages.portrait import FIELD, Portrait, Row
from leaderboard.model_pages.runs import Ran
from leaderboard.model_pages.scores import Benchmark, Cell, Spread
from leaderboard.models.run import run_url
from leaderboard.models.task import Style, task_url
from leaderboard.snapshot import Score, Standing
from leaderboard.templatetags.figures import (
    exactly,
    margin,
    margin_in,
    percent,
    plural,
    shown,
    utc,
)
from leaderboard.templatetags.marks import style_mark
from leaderboard.templatetags.runs import state_mark
from leaderboard.web import Scale


class ScoreLine(NamedTuple):
    """A benchmark in one style; texts of our own making, or escaped."""

    style: str
    shots: str
    run: str
    """The run's address; empty for none."""
    text: str
    """The number; empty for none."""
    mark: str
    """Whether much of it was cut short."""
    margin: str
    """The interval beside it."""
    title: str
    n: str
    second: str
    """The same without disputed questions; empty where there are none."""
    whisker: str
    standing: str
    """Why there is no number, and what more there is to say of that."""
    more: str


class BenchmarkLines(NamedTuple):
    title: str
    url: str
    lines: list[ScoreLine]
    spread: str


class ProfileLine(NamedTuple):
    """A benchmark of the profile; texts of our own making, or escaped."""

    title: str
    url: str
    marks: str
    """What is drawn on the axis of the field."""
    ranks: list[tuple[str, str, str, str]]


class RunLine(NamedTuple):
    """A run in the list of all; texts of our own making, or escaped."""

    key: str
    url: str
    title: str
    style: str
    shots: str
    commit: str
    dtype: str
    state: str
    number: str
    exactly: str
    beside: str
    how_far: str
    """What stands in the place of a number."""
    created: str


HALVED = 6
"""Of so many benchmarks the scores are two tables, side by side where there is room."""


def scores(benchmarks: Sequence[Benchmark], scale: Scale) -> SafeString:
    """Every benchmark in every style, as one <table> or as two."""
    lines = [_benchmark(benchmark, scale) for benchmark in benchmarks]
    middle = len(lines) if len(lines) < HALVED else (len(lines) + 1) // 2
    halves = [half for half in (lines[:middle], lines[middle:]) if half]
    return _table("model_pages/scores_table.jinja", halves=halves)


def profile(portrait: Portrait) -> SafeString:
    """The whole <table> of a model's positions in the field."""
    return _table(
        "model_pages/profile_table.jinja",
        styles=[style_mark(style) for style in portrait.styles],
        rows=[_profile_line(row, portrait.styles) for row in portrait.rows],
    )


def runs(listed: Sequence[Ran]) -> SafeString:
    """The whole <table> of one page of the runs."""
    return _table("model_pages/runs_table.jinja", runs=[_run(run) for run in listed])


def _table(template: str, **context: object) -> SafeString:
    html = engines["jinja2"].get_template(template).render(context)
    return mark_safe(html)  # noqa: S308 what it takes over is escaped here


def _profile_line(row: Row, styles: Sequence[str]) -> ProfileLine:
    of_style = {position.column.style: position for position in row.positions}
    return ProfileLine(
        conditional_escape(row.title),
        conditional_escape(task_url(row.task)),
        "".join(
            _position_mark(of_style[style], lane, len(styles))
            for lane, style in enumerate(styles)
            if style in of_style
        ),
        [_rank_in(style, of_style.get(style)) for style in styles],
    )


def _rank_in(style: str, position: Position | None) -> tuple[str, str, str, str]:
    """What the style is called, and rank, range and number of models; empty for none."""
    label = str(Style(style).label)
    if position is None:
        return label, "", "", ""
    return label, f"{position.rank:,}", position.span, f"{position.of:,}"


def _position_mark(position: Position, lane: int, lanes: int) -> str:
    """Range and rank on a lane of the style's own, in the style's shape."""
    worst, best = (f"{FIELD.x(bound):.2f}%" for bound in position.bounds)
    x, y = f"{FIELD.x(position.at):.2f}%", f"{100 * (lane + 0.5) / lanes:.1f}%"
    style = position.column.style
    turned = ' transform="rotate(45)"' if style == "hybrid" else ""
    shape = (
        f'<circle class="dot" cx="{x}" cy="{y}" r="3.5"/>'
        if style == "cloze"
        else f'<svg x="{x}" y="{y}" overflow="visible"><rect class="dot" x="-3" y="-3" width="6" '
        f'height="6"{turned}/></svg>'
    )
    range_of_ranks = f'<line class="i" x1="{worst}" x2="{best}" y1="{y}" y2="{y}"/>'
    return f'<g class="{style}">{range_of_ranks}{shape}</g>'


def _benchmark(benchmark: Benchmark, scale: Scale) -> BenchmarkLines:
    return BenchmarkLines(
        conditional_escape(benchmark.title),
        conditional_escape(task_url(benchmark.cells[0].entry.task__name)),
        [_score_line(cell, scale) for cell in benchmark.cells],
        _spread(benchmark.spread) if benchmark.spread else "",
    )


def _score_line(cell: Cell, scale: Scale) -> ScoreLine:
    entry, score = cell.entry, cell.score
    shots = plural(entry.shots, "shot")
    if score and score.draws > 1:
        shots += f", mean of {score.draws} draws"
    style, run = style_mark(entry.style), run_url(cell.run) if cell.run else ""
    if score is None:
        other = ": its questions or its way of asking are not this column’s"
        more = other if cell.standing is Standing.NOT_COMPARABLE else ""
        return ScoreLine(style, shots, run, "", "", "", "", "", "", "", str(cell.standing), more)
    return ScoreLine(
        style,
        shots,
        run,
        shown(score, entry.metric),
        CUT_SHORT if score.lengths and score.lengths.is_large else "",
        margin_in(score, entry.metric).replace("<", "&lt;"),
        exactly(score),
        f"{score.n:,}",
        mark(cell.second, entry.metric) if cell.second else "",
        _whisker(score, scale, entry.task__chance, entry.style) if cell.share else "",
        "",
        "",
    )


def _whisker(score: Score, scale: Scale, chance: float | None, style: str) -> str:
    """As `marks.whisker` draws it, in fewer letters: heights are the stylesheet's."""
    left, right = scale.x(score.low), scale.x(score.high)
    at = "" if chance is None else f"{scale.x(chance):.2f}%"
    plumb = f'<line class="c" x1="{at}" x2="{at}" y2="101%"/>' if at else ""
    return (
        f'<svg class="w {style}" aria-hidden="true">{plumb}<rect class="i" x="{left:.2f}%" '
        f'width="{right - left:.2f}%"/><rect class="p" x="{scale.x(score.value):.2f}%"/></svg>'
    )


def _spread(spread: Spread) -> str:
    apart = spread.difference
    return (
        f"Spread over styles <b>{percent(apart.value)}</b> "
        f"{margin(apart).replace('<', '&lt;')} points, "
        f"{style_mark(spread.high.style)} over {style_mark(spread.low.style)}, "
        f"{'on the same questions' if spread.paired else 'as independent scores'}"
        f"{'' if spread.clear else '; the two cannot be told apart'}"
    )


def _run(ran: Ran) -> RunLine:
    run, score = ran.run, ran.score
    title: str = run.title  # type: ignore[attr-defined]
    return RunLine(
        str(run.pk),
        run_url(run.pk),
        conditional_escape(title),
        style_mark(run.task.style),
        plural(run.shots, "shot"),
        run.variant.commit[:7],
        conditional_escape(run.variant.dtype),
        state_mark(run),
        shown(score, ran.metric) if score else "",
        exactly(score) if score else "",
        _beside(score, ran.metric) if score else "",
        "" if score else render_to_string("web/how_far.html", {"run": run}),
        utc(run.created),
    )


def _beside(score: Score, metric: str) -> str:
    beside = margin_in(score, metric).replace("<", "&lt;")
    return f"{beside} {conditional_escape(metric)}, {plural(score.n, 'question')}"
