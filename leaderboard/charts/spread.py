"""How far the scores of one benchmark lie apart by how it is asked: its prompts and draws.

A model is asked a benchmark in several styles, and a suite may draw the examples of a prompt
several times. Here stand all of a model's scores on one benchmark, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.charts.chart import Cell, Chart, Choice, Group
from leaderboard.models.task import Style, is_share
from leaderboard.snapshot import Board, Column, Flags, Floats, scores_of_draws
from leaderboard.templatetags.figures import ends, in_unit, plural

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PER_PAGE, AT_ONCE = 25, 500
"""Models that are drawn, and models of a file that are read, together."""
MARKS = {"cloze": ("circle", "cloze"), "mmlu": ("square", "mmlu"), "hybrid": ("diamond", "hybrid")}
OTHER_MARKS = (("triangle-up", "k-tune"), ("cross", "k-chat"), ("triangle-down", "k-merge"))


@dataclass(frozen=True, eq=False)
class Spread:
    """One benchmark of the board of every style."""

    board: Board
    places: list[int]
    """Of its styles among the board's columns: the suite's own first."""
    chosen: Flags

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

    @property
    def groups(self) -> list[Group]:
        counts = np.isfinite(self.values).sum(axis=0).tolist()
        return [
            Group(str(Style(column.style).label),
                  *MARKS.get(column.style, OTHER_MARKS[at % len(OTHER_MARKS)]), counts[at])
            for at, column in enumerate(self.columns)
        ]  # fmt: skip

    def finding(self) -> tuple[str, str]:
        """Over the models with every style; a question where there is none, or one style."""
        whole = self.values[~np.isnan(self.values).any(axis=1)]
        if len(whole) < 2 or whole.shape[1] < 2:
            return "How much does a score depend on the prompt?", ""
        points = " points" if is_share(self.columns[0].metric) else ""
        half, tenth = (
            in_unit(float(apart), self.columns[0].metric) + points
            for apart in np.quantile(np.ptp(whole, axis=1), (0.5, 0.9))
        )
        models = plural(len(whole), "model")
        return (
            f"Another prompt moves half of the models by {half} or more",
            f"One in ten by {tenth} or more, of {models} asked in every style, chance included.",
        )

    def lines(self, part: slice) -> list[list[Cell]]:
        rows, written = self.rows[part].tolist(), partial(in_unit, metric=self.columns[0].metric)
        draws, lines = scores_of_draws(self.board, rows, self.places), []
        for row in rows:
            cells, values = [Cell.of_model(self.board.models.value(row, "repo_id"))], []
            for place in self.places:
                score = self.board.score(row, place)
                if score is None:
                    cells.append(Cell("—", "not measured"))
                    continue
                values.append(score.value)
                note = ends(written(score.low), written(score.high))
                if of_draws := draws.get((row, place)):
                    note += f"; draws {', '.join(map(written, of_draws))}"
                cells.append(Cell(written(score.value), note))
            apart = written(max(values) - min(values)) if len(values) > 1 else ""
            lines.append([*cells, Cell(apart)])
        return lines

    def figure(self, part: slice) -> Figure:
        """Of these models each style's score with its interval, and its draws as small rings."""
        from plotly.graph_objects import Figure

        rows, cards = self.rows[part].tolist(), self.lines(part)
        draws = scores_of_draws(self.board, rows, self.places)
        hundred, scores = 100 if is_share(self.columns[0].metric) else 1, self.board.scores
        figure = Figure({"layout": {"height": 30 * len(rows) + 90}})
        figure.update_xaxes(title="score", side="top")
        names = [card[0].label for card in cards]
        figure.update_yaxes(tickvals=[*range(len(rows))], ticktext=names, range=[len(rows), -1],
                            showgrid=False, automargin=True)  # fmt: skip
        for number, (group, place) in enumerate(zip(self.groups, self.places, strict=True)):
            up = np.arange(len(rows)) + 0.6 * ((number + 0.5) / len(self.places) - 0.5)
            value, low, high = (hundred * side[rows, place] for side in scores.sides)
            bar = {"array": high - value, "arrayminus": value - low, "width": 0,
                   "color": f"var(--{group.token})"}  # fmt: skip
            group.add_dots(figure, number, cards, 8, x=value, y=up, error_x=bar)
            rings = [(hundred * score, up[at]) for at, row in enumerate(rows)
                     for score in draws.get((row, place), ())]  # fmt: skip
            x, y = np.array(rings).reshape(-1, 2).T
            group._replace(symbol="circle-open").add_dots(figure, number, [], 5, x=x, y=y)
        return figure

    def batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, max(len(self.rows), 1), AT_ONCE):
            rows = self.rows[start : start + AT_ONCE].tolist()
            draws = scores_of_draws(self.board, rows, self.places)
            cells = [(self.board.models[row], row, at) for row in rows for at in self.places
                     if np.isfinite(self.board.scores.value[row, at])]  # fmt: skip
            scores = [[side[row, at] for _, row, at in cells] for side in self.board.scores.sides]
            yield pa.RecordBatch.from_pydict(
                {
                    "model": [model.repo_id for model, *_ in cells],
                    "commit": [model.commit for model, *_ in cells],
                    "precision": [model.dtype for model, *_ in cells],
                    "style": [self.board.columns[at].style for *_, at in cells],
                    "task": [self.board.columns[at].task for *_, at in cells],
                    **dict(zip(("value", "low", "high"), scores, strict=True)),
                    # A list is no value of a CSV file.
                    "draws": [
                        " ".join(map(repr, draws.get((row, at), ()))) for _, row, at in cells
                    ],
                }
            )


def spread(board: Board, benchmark: str, chosen: Flags) -> Chart:
    """Of the board of every style, which has a column: this benchmark, or the first."""
    titles = {column.benchmark: column.title for column in reversed(board.columns)}
    titles = dict(reversed(titles.items()))
    benchmark = benchmark if benchmark in titles else next(iter(titles))
    places = [at for at, column in enumerate(board.columns) if column.benchmark == benchmark]
    places.sort(key=lambda at: not board.columns[at].own)
    metric = board.columns[places[0]].metric
    # Numbers of two metrics have no common scale.
    found = Spread(board, [at for at in places if board.columns[at].metric == metric], chosen)
    return Chart(
        title=f"{titles[benchmark]} by prompt",
        finding=found.finding(),
        name=f"{benchmark}-spread",
        about={"benchmark": benchmark, "metric": metric},
        heads=("Model", *(group.label for group in found.groups), "Apart"),
        rows=len(found.rows),
        lines=found.lines,
        batches=found.batches,
        figure=found.figure if len(found.rows) else None,
        rows_are="scores",
        per_page=PER_PAGE,
        legend=found.groups,
        choices=[Choice("benchmark", "Benchmark", titles, benchmark)],
        notes={"draws": max(column.draws for column in found.columns)},
    )
