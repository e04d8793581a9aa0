"""A score against size, time or cost: where models stand, and what the line of the best says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import hypot, log
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.charts.chart import Cell, Chart, Choice, Group
from leaderboard.models.task import Style, is_share
from leaderboard.models.variant import family_of
from leaderboard.snapshot import MEASURES, Board, Flags, Floats, Scores, table_file
from leaderboard.stats import bend, front
from leaderboard.templatetags import figures
from leaderboard.templatetags.figures import percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


SIZE, TIME = "size", "time"
TOKENS, SECONDS = MEASURES[:2]


@dataclass(frozen=True, eq=False, kw_only=True)
class Front:
    """The models that have a score and a place, from the left, at one place the best first; arrays
    of shape (n,)."""

    board: Board
    axis: str
    """SIZE, TIME, TOKENS or SECONDS."""
    rows: NDArray[np.intp]
    """Of the board."""
    across: Floats
    """Parameters, seconds since 1970, or what a question takes."""
    scores: Scores
    left_out: int
    """Models with a score, but no place or no rank with the others."""
    machines: Mapping[str, int]
    """Of seconds every kind of machine and how many models have a place from it, most first."""
    machine: str
    """The kind that all places are from; empty where that does not matter."""

    @classmethod
    def of(
        cls, board: Board, axis: str, column: int | None, chosen: Flags, machine: str = ""
    ) -> Self:
        """Of the `chosen` models, by their score in a column or by the suite's average.

        Seconds depend on the machine, so that models on one kind are compared: on `machine`, or
        else on the kind with the most models.
        """
        columns = [at for at, one in enumerate(board.columns) if one.counts]
        scores = board.average
        if column is not None:
            columns, scores = [column], board.scores.column(column)
        # An older commit was here before the newer one, but their repository has one release date.
        reasons = ["flag_reason", "apart", "superseded_by"]
        if axis == TIME and not has_releases(board):
            reasons.remove("superseded_by")
        measured, across = np.isfinite(scores.value) & chosen, _across(board, axis, columns)
        stands, machines = measured & board.models.without(*reasons) & (across > 0), {}
        if axis == SECONDS and board.costs is not None and columns:
            kind, known = board.costs.machine_of(axis, columns), board.costs.kinds
            drawn = kind[stands & (kind >= 0)].tolist()
            machines = dict(Counter(sorted(known[at] for at in drawn)).most_common())
            machine = machine if machine in machines else next(iter(machines), "")
            stands &= kind == (known.index(machine) if machine else None)
        rows = np.flatnonzero(stands)
        rows = rows[np.lexsort((-scores.value[rows], across[rows]))]
        return cls(
            board=board,
            axis=axis,
            rows=rows,
            across=across[rows],
            scores=scores.rows(rows),
            left_out=int(measured.sum()) - len(rows),
            machines=machines,
            machine=machine if machines else "",
        )

    @cached_property
    def best(self) -> Flags:
        """Those that no other dominates: none is as far to the left and better."""
        return front(self.across, self.scores.value)

    @cached_property
    def families(self) -> list[str]:
        models = self.board.models.take(self.rows)
        names = zip(models.values("base_model"), models.values("repo_id"), strict=True)
        return [family_of(base or name) for base, name in names]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As a table, in full precision."""
        cost = {self.axis: pa.array(self.across)} if self.axis in MEASURES else {}
        yield pa.RecordBatch.from_pydict(
            {
                **table_file.of_models(self.board.models.take(self.rows)),
                **cost,
                **table_file.bounds("value", "", self.scores),
                "on_front": pa.array(self.best),
                "family": pa.array(self.families, pa.string()),
            }
        )


def _across(board: Board, axis: str, columns: Sequence[int]) -> Floats:
    """Of each model its place, for a score from these columns; NaN or 0 where it is not known."""
    if axis == SIZE:
        return np.array(board.models.values("parameters"), np.float64)
    if axis == TIME:
        days = board.models.values("released" if has_releases(board) else "added")
        return np.array([day.timestamp() if day else 0.0 for day in days], np.float64)
    if board.costs is None or not columns:
        return np.zeros(len(board.models))
    return board.costs.of_a_question(axis, columns, board.n)


def has_releases(board: Board) -> bool:
    """Whether the Hub tells when any of these models was released; else they stand at the day on
    which they were first submitted."""
    released = board.models.array("released")
    return bool(released.null_count < len(released))


AVERAGE, FAMILY = "average", "family"
AXES = {SIZE: "Parameters", TIME: "Released on the Hub", TOKENS: "Tokens of a question",
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
_DAY = 86_400.0
MIN_MODELS = 10
"""Of fewer the heading states no rule such as points for four times the parameters."""


@dataclass(frozen=True, eq=False)
class Standings:
    front: Front
    score: str
    """AVERAGE, or the key of a column."""
    legend: str
    """What dots are grouped by: FAMILY, or anything else for types."""

    def groups(self) -> tuple[list[Group], NDArray[np.intp]]:
        """The legend's entries, and of each model the place of its own."""
        marks, keys = KINDS, self.front.board.models.take(self.front.rows).values("kind")
        if self.legend == FAMILY:
            keys = self.front.families
            largest = Counter(keys).most_common(len(FAMILIES))
            marks = {name: Group(name, *FAMILIES[at]) for at, (name, _) in enumerate(largest)}
            marks[""] = KINDS[""]._replace(label="Other families")
            keys = [family if family in marks else "" for family in keys]
        counts = Counter(keys)
        there = [key for key in marks if counts[key]]
        codes = np.array([there.index(key) for key in keys], np.intp)
        return [marks[key]._replace(n=counts[key]) for key in there], codes

    @property
    def axis_title(self) -> str:
        by_submission = self.front.axis == TIME and not has_releases(self.front.board)
        return "First submitted here" if by_submission else AXES[self.front.axis]

    def label(self, across: float) -> str:
        axis = self.front.axis
        if axis == TIME:
            return figures.day_of(datetime.fromtimestamp(across, UTC))
        if axis == SIZE:
            return figures.parameters(round(across))
        return figures.two_figures(across) + (" s" if axis == SECONDS else " tokens")

    def finding(self) -> tuple[str, str]:
        """What the line along the best says; a question where its ends are not beyond chance apart,
        or less than a step: fourfold, or a day."""
        is_time, thing = self.front.axis == TIME, AXES[self.front.axis].split()[0].lower()
        question = "How far have models come?" if is_time else f"What do more {thing} buy?"
        across, best = self.front.across[self.front.best], self.front.scores.rows(self.front.best)
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
        way = f"The best goes from {start} to {end}"
        if len(self.front.across) < MIN_MODELS:
            return way, f"{question} Fewer than {MIN_MODELS} models stand here: too few for a rule."
        lede = f"{question} {way}."
        if is_time:
            what, span = "average" if self.score == AVERAGE else "score", figures.span_of_days(far)
            return f"The best {what} rose by {100 * gain:.1f} points in {span}", lede
        buys = f"our times the {thing} buy {figures.about_points(gain / far)}"
        above = f"Above {self.label(float(f'{across[at]:.2g}'))}, f{buys}"
        return (above if at else f"F{buys}"), lede

    def figure(self, _part: slice) -> Figure:
        """A dot for each model in the shape of its group, and the line along the best."""
        from plotly.graph_objects import Figure

        axis, across, is_best = self.front.axis, self.front.across, self.front.best
        value, (groups, codes) = np.round(100 * self.front.scores.value, 2), self.groups()
        letter, unit = ("B", 1e9) if across.max() >= 1e9 else ("M", 1e6)
        places = across * (1000 if axis == TIME else 1 / unit if axis == SIZE else 1)
        # On a logarithmic axis plotly takes dots as they are, but ends and texts as logarithms.
        logs = places if axis == TIME else np.log10(places)
        cards, figure, best = self.lines(slice(None)), Figure(), np.flatnonzero(is_best)
        scale = {"type": "date"} if axis == TIME else {"type": "log", "tickformat": "~g"}
        words = self.axis_title + ("" if axis == TIME else ", log scale")
        suffix = {SIZE: letter, SECONDS: " s"}.get(axis, "")
        figure.update_xaxes(title=words, ticksuffix=suffix, range=_padded(logs), **scale)
        up = "average" if self.score == AVERAGE else "score"
        figure.update_yaxes(title=up, range=_padded(value))

        def add_dots(shown: Flags, size: int, **trace: Any) -> None:
            for number, group in enumerate(groups):
                chosen = np.flatnonzero((codes == number) & shown)
                group.add_dots(figure, number, [cards[at] for at in chosen], size,
                               x=places[chosen], y=value[chosen], **trace)  # fmt: skip

        add_dots(~is_best, 7, opacity=0.5)
        line = {"shape": "hv", "color": "var(--brass-fill)", "width": 2}
        figure.add_scatter(x=[*places[best], places[-1]], y=[*value[best], value[best[-1]]],
                           mode="lines", hoverinfo="skip", line=line)  # fmt: skip
        add_dots(is_best, 12)
        for at in best[::-1]:  # of two names that have no room, that of the better model stays
            name = cards[at][0].label
            figure.add_annotation(x=logs[at], y=value[at], text=name, name=str(codes[at]))
        return figure

    def lines(self, part: slice) -> list[list[Cell]]:
        front, ranks, lines = self.front, self.front.board.ranks, []
        names, kinds = (front.board.models.values(name) for name in ("repo_id", "kind"))
        for at, row in list(enumerate(front.rows.tolist()))[part]:
            value, low, high = (percent(side[at]) for side in front.scores.sides)
            ranked = self.score == AVERAGE and ranks.rank[row]
            lines.append(
                [
                    Cell.of_model(names[row], KINDS[kinds[row]].label.lower()),
                    Cell(value, figures.ends(low, high)),
                    Cell(self.label(float(front.across[at]))),
                    Cell(f"{ranks.rank[row]:,}", ranks.span(row)) if ranked else Cell(""),
                    Cell(f"Best for its {front.axis}" if front.best[at] else ""),
                ]
            )
        return lines


def against(front: Front, titles: dict[str, str], score: str, legend: str) -> Chart:
    """`score` is one of `titles`, of every score that can be drawn; `legend` FAMILY, or anything
    else for types."""
    axis, found = front.axis, Standings(front, score, legend)
    choices = [Choice("score", "Score", titles, score)]
    if axis in MEASURES:
        choices.append(Choice("against", "Cost", {key: AXES[key] for key in MEASURES[:2]}, axis))
    if len(front.machines) > 1:
        options = {kind: f"{kind} ({models:,})" for kind, models in front.machines.items()}
        choices.append(Choice("on", "Machine", options, front.machine))
    choices.append(Choice("legend", "Shapes by", {"type": "Type", FAMILY: "Family"}, legend))
    about = {"machine": front.machine} if axis == SECONDS else {}
    if axis == TIME:
        about["day"] = "released" if has_releases(front.board) else "first submitted"
    return Chart(
        title=f"{titles[score]} against {axis}",
        finding=found.finding(),
        name=f"{score}-by-{axis}",
        about={"score": score, **about},
        counts={"left_out": front.left_out},
        heads=("Model", titles[score], found.axis_title, "Rank", "On the line"),
        rows=len(front.rows),
        lines=found.lines,
        batches=front.batches,
        figure=found.figure if len(front.rows) else None,
        legend=found.groups()[0],
        choices=choices,
    )


def scores_of(board: Board, keys: Sequence[str]) -> dict[str, str]:
    """What can be drawn, with its title: the average and every column of shares."""
    return {AVERAGE: "Average"} | {
        key: f"{column.title}, {Style(column.style).in_a_sentence}"
        for key, column in zip(keys, board.columns, strict=True)
        if is_share(column.metric)
    }


def _padded(values: Floats) -> list[float]:
    """The ends of an axis: plotly's own would make room for names, which stand where there is."""
    low, high = float(values.min()), float(values.max())
    room = 0.05 * (high - low) or 1.0
    return [low - room, high + 1.5 * room]
