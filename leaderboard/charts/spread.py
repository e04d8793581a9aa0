"""How far the scores of one benchmark lie apart by how it is asked: its prompts and draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.charts.chart import Cell, Chart, Choice, Group
from leaderboard.models import Result
from leaderboard.models.task import Style, is_share
from leaderboard.snapshot import Board, Column, Flags, Floats, Score
from leaderboard.templatetags.figures import ends, in_unit, plural

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


AT_ONCE = 500
"""Models of a file that are read together."""


class StyleScore(NamedTuple):
    """A model's number in one style."""

    row: int
    style: int
    """Place in `Spread.columns`."""
    score: Score
    draws: list[float]
    """What each draw of examples scored; empty where there is one, or one lacks its result."""


@dataclass(frozen=True, eq=False)
class Spread:
    """One benchmark of the board of every style, over chosen models that are ranked with each
    other."""

    board: Board
    places: list[int]
    """Of its styles among the board's columns: the suite's own first."""
    chosen: Flags

    @classmethod
    def of(cls, board: Board, benchmark: str, chosen: Flags) -> Spread:
        """In the styles that share a metric with the suite's own: others have another scale."""
        places = [at for at, column in enumerate(board.columns) if column.benchmark == benchmark]
        places.sort(key=lambda at: not board.columns[at].own)
        metric = board.columns[places[0]].metric
        return cls(board, [at for at in places if board.columns[at].metric == metric], chosen)

    @cached_property
    def columns(self) -> list[Column]:
        return [self.board.columns[place] for place in self.places]

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """Of the board, those with a number: by the mean over what each has, the best first."""
        rows = self.board.comparable_rows[self.chosen[self.board.comparable_rows]]
        values = self.board.scores.value[rows][:, self.places]
        known = ~np.isnan(values).all(axis=1)
        return rows[known][np.argsort(-np.nanmean(values[known], axis=1), kind="stable")]

    @property
    def values(self) -> Floats:
        """Of these rows, shape (models, styles); NaN for none."""
        return self.board.scores.value[self.rows][:, self.places]

    def scores(self, rows: Sequence[int]) -> list[StyleScore]:
        """Row by row and style by style; one query, where examples were drawn several times."""
        found = [
            (row, style, score, self.board.runs_of(row, place))
            for row in rows
            for style, place in enumerate(self.places)
            if (score := self.board.score(row, place))
        ]
        several = [(style, runs) for _, style, _, runs in found if self.columns[style].draws > 1]
        draws = self._draws({run: self.columns[style] for style, runs in several for run in runs})
        return [
            StyleScore(row, style, score, [draws[run] for run in runs] if draws.keys() >= {*runs}
                       and self.columns[style].draws > 1 else [])
            for row, style, score, runs in found
        ]  # fmt: skip

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As a table, in full precision: a row for each score."""
        for start in range(0, max(len(self.rows), 1), AT_ONCE):
            scores = self.scores(self.rows[start : start + AT_ONCE].tolist())
            models = [self.board.models[one.row] for one in scores]
            columns = [self.columns[one.style] for one in scores]
            bounds = {name: pa.array([getattr(one.score, name) for one in scores], pa.float64())
                      for name in ("value", "low", "high")}  # fmt: skip
            yield pa.RecordBatch.from_pydict(
                {
                    "model": [model.repo_id for model in models],
                    "commit": [model.commit for model in models],
                    "precision": [model.dtype for model in models],
                    "style": [column.style for column in columns],
                    "task": [column.task for column in columns],
                    **bounds,
                    # A list is no value of a CSV file.
                    "draws": [" ".join(map(repr, one.draws)) for one in scores],
                }
            )

    def _draws(self, column_of: dict[UUID, Column]) -> dict[UUID, float]:
        """What each of these runs scored."""
        if not column_of:
            return {}
        results = Result.objects.filter(run__in=column_of, subset="").values_list(
            "run_id", "task_name", "metric", "filter", "value"
        )
        return {
            run: value
            for run, *number, value in results
            if number == [column_of[run].task, column_of[run].metric, column_of[run].filter]
        }


PER_PAGE = 25
"""Models that are drawn together."""
MARKS = {"cloze": ("circle", "cloze"), "mmlu": ("square", "mmlu"), "hybrid": ("diamond", "hybrid")}
OTHER_MARKS = (("triangle-up", "k-tune"), ("cross", "k-chat"), ("triangle-down", "k-merge"))


def spread(board: Board, benchmark: str, chosen: Flags) -> Chart:
    """Of the board of every style, which has a column: this benchmark, or the first."""
    titles = {column.benchmark: column.title for column in board.columns}
    benchmark = benchmark if benchmark in titles else next(iter(titles))
    found = Spread.of(board, benchmark, chosen)
    counts = np.isfinite(found.values).sum(axis=0).tolist()
    legend = [
        Group(str(Style(column.style).label),
              *MARKS.get(column.style, OTHER_MARKS[at % len(OTHER_MARKS)]), counts[at])
        for at, column in enumerate(found.columns)
    ]  # fmt: skip
    return Chart(
        title=f"{titles[benchmark]} by prompt",
        finding=_finding(found),
        name=f"{benchmark}-spread",
        about={"benchmark": benchmark, "metric": found.columns[0].metric},
        counts={"models": len(found.rows)},
        heads=("Model", *(group.label for group in legend), "Apart"),
        rows=len(found.rows),
        lines=partial(_lines, found),
        batches=found.batches,
        figure=partial(_figure, found, legend) if len(found.rows) else None,
        rows_are="scores",
        per_page=PER_PAGE,
        legend=legend,
        choices=[Choice("benchmark", "Benchmark", titles, benchmark)],
        notes={"draws": max(column.draws for column in found.columns)},
    )


def _finding(found: Spread) -> tuple[str, str]:
    """Over the models with every style; a question where there is none, or one style."""
    whole, metric = found.values[~np.isnan(found.values).any(axis=1)], found.columns[0].metric
    if len(whole) < 2 or whole.shape[1] < 2:
        return "How much does a score depend on the prompt?", ""
    apart = np.quantile(np.ptp(whole, axis=1), (0.5, 0.9)).tolist()
    half, tenth = (in_unit(far, metric) + " points" * is_share(metric) for far in apart)
    lede = f"One in ten by {tenth} or more, of {plural(len(whole), 'model')} asked in every style, "
    return f"Another prompt moves half of the models by {half} or more", f"{lede}chance included."


def _lines(found: Spread, part: slice) -> list[list[Cell]]:
    rows, written = found.rows[part].tolist(), partial(in_unit, metric=found.columns[0].metric)
    cells = dict.fromkeys(np.ndindex(len(rows), len(found.columns)), Cell("—", "not measured"))
    for row, style, score, draws in found.scores(rows):
        of_draws = f"; draws {', '.join(map(written, draws))}" if draws else ""
        note = ends(written(score.low), written(score.high)) + of_draws
        cells[rows.index(row), style] = Cell(written(score.value), note)
    apart = np.nanmax(found.values[part], axis=1) - np.nanmin(found.values[part], axis=1)
    names = [Cell.of_model(found.board.models.value(row, "repo_id")) for row in rows]
    return [
        [name, *(cells[at, style] for style in range(len(found.columns))), Cell(written(apart[at]))]
        for at, name in enumerate(names)
    ]


def _figure(found: Spread, legend: list[Group], part: slice) -> Figure:
    """Of these models each style's score with its interval, and its draws as small rings."""
    from plotly.graph_objects import Figure

    rows, cards = found.rows[part].tolist(), _lines(found, part)
    hundred, scores = 100 if is_share(found.columns[0].metric) else 1, found.scores(rows)
    figure = Figure({"layout": {"height": 30 * len(rows) + 90}})
    figure.update_xaxes(title="score", side="top")
    figure.update_yaxes(tickvals=[*range(len(rows))], range=[len(rows), -1], automargin=True,
                        ticktext=[card[0].label for card in cards], showgrid=False)  # fmt: skip
    for style, group in enumerate(legend):
        own = [one for one in scores if one.style == style]
        places = [rows.index(one.row) for one in own]
        up = np.array(places) + 0.6 * ((style + 0.5) / len(legend) - 0.5)
        value, low, high = hundred * np.array([one.score[:3] for one in own]).reshape(-1, 3).T
        bar = {"array": high - value, "arrayminus": value - low, "width": 0,
               "color": f"var(--{group.token})"}  # fmt: skip
        group.add_dots(figure, style, [cards[at] for at in places], 8, x=value, y=up, error_x=bar)
        rings = [(hundred * draw, y) for y, one in zip(up, own, strict=True) for draw in one.draws]
        x, y = np.array(rings).reshape(-1, 2).T
        group._replace(symbol="circle-open").add_dots(figure, style, [], 5, x=x, y=y)
    return figure
