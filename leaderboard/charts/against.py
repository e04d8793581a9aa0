"""A score against size, time or cost: where models stand, and which are the best so far.

Cost is tokens or seconds of a question. Tokens are a matter of the model alone; seconds depend on
the machine, so that only models on one kind of machine stand on one chart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import hypot, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.charts.chart import Cell, Chart, Choice, Group
from leaderboard.models.task import Style, is_share
from leaderboard.snapshot import MEASURES, Board, Flags, Floats, Scores, table_file
from leaderboard.stats import bend, front
from leaderboard.templatetags import figures
from leaderboard.templatetags.figures import percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

AVERAGE, FAMILY = "average", "family"
SIZE, TIME, TOKENS, SECONDS = "size", "time", "tokens", "seconds"
AXES = {SIZE: "Parameters", TIME: "First submitted here", TOKENS: "Tokens of a question",
        SECONDS: "Seconds of a question"}  # fmt: skip
KINDS = {
    "pretrained": Group("Pretrained", "square", "k-base"),
    "chat": Group("Chat", "circle", "k-chat"),
    "fine-tuned": Group("Fine-tuned", "triangle-up", "k-tune"),
    "merge": Group("Merge", "diamond", "k-merge"),
    "": Group("Unknown", "circle-open", "ink-3"),
}
FAMILIES = (
    *(("square", "k-base"), ("circle", "k-chat"), ("triangle-up", "k-tune")),
    *(("diamond", "k-merge"), ("triangle-down", "hybrid"), ("cross", "mmlu"), ("square", "cloze")),
)
"""How the largest are drawn; the others are hollow."""
_SIZE = re.compile(r"[-_](?:moe-)?\d+(?:\.\d+)?[bm](?![a-z]).*", re.IGNORECASE)
"""A model's name from its size on: 7B, 0.5b, 410m."""
_DAY = 86_400.0


@dataclass(frozen=True, eq=False)
class Standings:
    """The models that have a score and a place, from the left, at one place the best first; arrays
    of shape (n,)."""

    board: Board
    score: str
    """AVERAGE, or the key of a column."""
    axis: str
    rows: NDArray[np.intp]
    """Of the board."""
    across: Floats
    """Parameters, seconds since 1970, or what a question takes."""
    scores: Scores

    @cached_property
    def on_front(self) -> Flags:
        return front(self.across, self.scores.value)

    @cached_property
    def families(self) -> list[str]:
        models = self.board.models.take(self.rows)
        names = zip(models.values("base_model"), models.values("repo_id"), strict=True)
        return [family_of(base or name) for base, name in names]

    def groups(self, legend: str) -> tuple[list[Group], NDArray[np.intp]]:
        """The legend's entries, by type or by family, and of each model the place of its own."""
        marks, keys = KINDS, self.board.models.take(self.rows).values("kind")
        if legend == FAMILY:
            largest = Counter(self.families).most_common(len(FAMILIES))
            marks = {name: Group(name, *FAMILIES[at]) for at, (name, _) in enumerate(largest)}
            marks[""] = KINDS[""]._replace(label="Other families")
            keys = [family if family in marks else "" for family in self.families]
        counts = Counter(keys)
        there = [key for key in marks if counts[key]]
        codes = np.array([there.index(key) for key in keys], np.intp)
        return [marks[key]._replace(n=counts[key]) for key in there], codes

    def label(self, across: float) -> str:
        if self.axis == TIME:
            return figures.day_of(datetime.fromtimestamp(across, UTC))
        if self.axis == SIZE:
            return figures.parameters(round(across))
        return figures.two_figures(across) + (" s" if self.axis == SECONDS else " tokens")

    def finding(self) -> tuple[str, str]:
        """What the line along the best says; a question where its ends are not beyond chance apart,
        or less than a step: fourfold, or a day."""
        is_time, thing = self.axis == TIME, AXES[self.axis].split()[0].lower()
        question = "How far have models come?" if is_time else f"What do more {thing} buy?"
        across, best = self.across[self.on_front], self.scores.rows(self.on_front)
        along = (across - across[:1]) / _DAY if is_time else np.log(across) / log(4)
        if len(along) < 2:
            return question, ""
        at = 0 if is_time else bend(along, best.value)
        gain, far = best.value[-1] - best.value[at], along[-1] - along[at]
        chance = hypot(best.value[-1] - best.low[-1], best.high[at] - best.value[at])
        if far < 1 or gain <= chance:
            return question, ""
        start, end = (
            f"{percent(best.value[place])} {'on' if is_time else 'at'} {self.label(across[place])}"
            for place in (at, -1)
        )
        lede = f"{question} The best goes from {start} to {end}."
        if is_time:
            what, span = "average" if self.score == AVERAGE else "score", figures.span_of_days(far)
            return f"The best {what} rose by {100 * gain:.1f} points in {span}", lede
        buys = f"our times the {thing} buy {figures.about_points(gain / far)}"
        above = f"Above {self.label(float(f'{across[at]:.2g}'))}, f{buys}"
        return (above if at else f"F{buys}"), lede

    def figure(self, legend: str) -> Figure:
        """A dot for each model in the shape of its group, and the line along the best."""
        from plotly.graph_objects import Figure

        is_time, value = self.axis == TIME, np.round(100 * self.scores.value, 2)
        groups, codes = self.groups(legend)
        places = self.across * 1000 if is_time else self.across / (1e9 if self.axis == SIZE else 1)
        cards, figure, best = self.lines(slice(None)), Figure(), np.flatnonzero(self.on_front)
        unit = {SIZE: "B", SECONDS: " s"}.get(self.axis, "")
        scale = {"type": "date"} if is_time else {"type": "log", "tickformat": "~g"}
        across = AXES[self.axis].lower() + ("" if is_time else ", log scale")
        figure.update_xaxes(title=across, ticksuffix=unit, **scale)
        figure.update_yaxes(title="average" if self.score == AVERAGE else "score")

        def add_dots(shown: Flags, size: int, **trace: Any) -> None:
            for number, group in enumerate(groups):
                chosen = np.flatnonzero((codes == number) & shown)
                group.add_dots(figure, number, [cards[at] for at in chosen], size,
                               x=places[chosen], y=value[chosen], **trace)  # fmt: skip

        add_dots(~self.on_front, 7, opacity=0.5)
        line = {"shape": "hv", "color": "var(--brass-fill)", "width": 2}
        figure.add_scatter(x=[*places[best], places[-1]], y=[*value[best], value[best[-1]]],
                           mode="lines", hoverinfo="skip", line=line)  # fmt: skip
        add_dots(self.on_front, 12)
        for at in best[::-1]:  # of two names that have no room, that of the better model stays
            figure.add_annotation(x=places[at] if is_time else np.log10(places[at]), y=value[at],
                                  text=cards[at][0].label, name=str(codes[at]))  # fmt: skip
        return figure

    def lines(self, part: slice) -> list[list[Cell]]:
        ranks, lines = self.board.ranks, []
        names, kinds = (self.board.models.values(name) for name in ("repo_id", "kind"))
        for at, row in list(enumerate(self.rows.tolist()))[part]:
            value, low, high = (percent(side[at]) for side in self.scores.sides)
            ranked = self.score == AVERAGE and ranks.rank[row]
            lines.append(
                [
                    Cell.of_model(names[row], KINDS[kinds[row]].label.lower()),
                    Cell(value, figures.ends(low, high)),
                    Cell(self.label(float(self.across[at]))),
                    Cell(f"{ranks.rank[row]:,}", ranks.span(row)) if ranked else Cell(""),
                    Cell(f"Best for its {self.axis}" if self.on_front[at] else ""),
                ]
            )
        return lines

    def batches(self) -> Iterator[pa.RecordBatch]:
        cost = {self.axis: pa.array(self.across)} if self.axis in MEASURES else {}
        yield pa.RecordBatch.from_pydict(
            {
                **table_file.of_models(self.board.models.take(self.rows)),
                **cost,
                **table_file.bounds("value", "", self.scores),
                "on_front": pa.array(self.on_front),
                "family": pa.array(self.families, pa.string()),
            }
        )


def against(
    board: Board, keys: Sequence[str], score: str, axis: str, machine: str, legend: str,
    chosen: Flags,
) -> Chart:  # fmt: skip
    """Of the `chosen` models. `score` is AVERAGE or one of `keys`, the names of the board's
    columns; `machine` the kind to compare seconds on, by default that of the most models; `legend`
    FAMILY, or anything else for types."""
    titles, scores = scores_of(board, keys), board.average
    columns = [at for at, column in enumerate(board.columns) if column.counts]
    if score != AVERAGE:
        columns = [keys.index(score)]
        scores = board.scores.column(columns[0])
    # What a newer commit took the place of was there before it.
    reasons = ("flag_reason", "apart", *(("superseded_by",) if axis != TIME else ()))
    lacking = zip(*(board.models.values(reason) for reason in reasons), strict=True)
    free = np.fromiter((not any(model) for model in lacking), np.bool_, len(board.models))
    measured, across = np.isfinite(scores.value) & chosen, _across(board, axis, columns)
    stands, kinds = measured & free & (across > 0), {}
    if axis == SECONDS and board.costs is not None and columns:
        kind, known = board.costs.machine_of(axis, columns), board.costs.kinds
        drawn = kind[stands & (kind >= 0)].tolist()
        kinds = dict(Counter(sorted(known[at] for at in drawn)).most_common())
        machine = machine if machine in kinds else next(iter(kinds), "")
        stands &= kind == (known.index(machine) if machine else None)
    rows = np.flatnonzero(stands)
    rows = rows[np.lexsort((-scores.value[rows], across[rows]))]
    found = Standings(board, score, axis, rows, across[rows], scores.rows(rows))
    choices = [Choice("score", "Score", titles, score)]
    if axis in MEASURES:
        choices.append(Choice("against", "Cost", {key: AXES[key] for key in MEASURES[:2]}, axis))
    if len(kinds) > 1:
        options = {kind: f"{kind} ({models:,})" for kind, models in kinds.items()}
        choices.append(Choice("on", "Machine", options, machine))
    choices.append(Choice("legend", "Shapes by", {"type": "Type", FAMILY: "Family"}, legend))
    return Chart(
        title=f"{titles[score]} against {axis}",
        finding=found.finding(),
        name=f"{score}-by-{axis}",
        about={
            "score": score,
            **({"machine": machine if kinds else ""} if axis == SECONDS else {}),
            "left_out": int(measured.sum()) - len(rows),
        },
        heads=("Model", titles[score], AXES[axis], "Rank", "On the line"),
        rows=len(rows),
        lines=found.lines,
        batches=found.batches,
        figure=(lambda _: found.figure(legend)) if len(rows) else None,
        legend=found.groups(legend)[0],
        choices=choices,
        notes={"machine": machine if kinds else ""},
    )


def _across(board: Board, axis: str, columns: Sequence[int]) -> Floats:
    """Of each model its place, for a score from these columns; NaN or 0 where it is not known."""
    if axis == SIZE:
        return np.array(board.models.values("parameters"), np.float64)
    if axis == TIME:
        return np.array([day.timestamp() for day in board.models.values("added")], np.float64)
    if board.costs is None or not columns:
        return np.zeros(len(board.models))
    return board.costs.of_a_question(axis, columns, board.n)


def scores_of(board: Board, keys: Sequence[str]) -> dict[str, str]:
    """What can be drawn, with its title: the average and every column of shares."""
    return {AVERAGE: "Average"} | {
        key: f"{column.title}, {Style(column.style).in_a_sentence}"
        for key, column in zip(keys, board.columns, strict=True)
        if is_share(column.metric)
    }


def family_of(name: str) -> str:
    """What models of one series share: the name before its size, as in Llama-3.1 and Qwen2.5."""
    own = name.rpartition("/")[2]
    return _SIZE.sub("", own) or own
