"""The tables of a model's page that have hundreds of cells, as HTML: by Jinja2, since Django's own
templates are too slow for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.template import engines
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

from leaderboard.board import CUT_SHORT
from leaderboard.model_pages.runs import Ran
from leaderboard.model_pages.scores import Benchmark, Cell, Spread
from leaderboard.models.run import run_url
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
    whisker: str
    standing: str
    """Why there is no number, and what more there is to say of that."""
    more: str


class BenchmarkLines(NamedTuple):
    title: str
    url: str
    lines: list[ScoreLine]
    spread: str


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


def scores(benchmarks: Sequence[Benchmark], scale: Scale) -> SafeString:
    """The whole <table> of every benchmark in every style."""
    return _table(
        "model_pages/scores_table.jinja",
        benchmarks=[_benchmark(benchmark, scale) for benchmark in benchmarks],
    )


def runs(listed: Sequence[Ran]) -> SafeString:
    """The whole <table> of one page of the runs."""
    return _table("model_pages/runs_table.jinja", runs=[_run(run) for run in listed])


def _table(template: str, **context: object) -> SafeString:
    html = engines["jinja2"].get_template(template).render(context)
    return mark_safe(html)  # noqa: S308 what it takes over is escaped here


def _benchmark(benchmark: Benchmark, scale: Scale) -> BenchmarkLines:
    return BenchmarkLines(
        conditional_escape(benchmark.title),
        conditional_escape(reverse("task", args=[benchmark.cells[0].entry.task__name])),
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
        return ScoreLine(style, shots, run, "", "", "", "", "", "", str(cell.standing), more)
    return ScoreLine(
        style,
        shots,
        run,
        shown(score, entry.metric),
        CUT_SHORT if score.lengths and score.lengths.is_large else "",
        margin_in(score, entry.metric).replace("<", "&lt;"),
        exactly(score),
        f"{score.n:,}",
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
