"""A board in memory: what one snapshot holds, as arrays over models and columns.

Rows are in board order: by average with the best first (flagged and superseded models in their
place, without a rank), then the models without an average by name. NaN and 0 stand for "there is
none" in arrays of floats and of ranks; no page shows either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from evalcore.lengths import Lengths
from evalcore.stats import Interval
from leaderboard.models.run import lengths_of, run_url
from leaderboard.snapshot.models import LACKING, Models

MEASURES = ("tokens", "seconds", "joules")
"""Of a question, on the mean; the places in `Costs.of`."""
COST_FIELDS = ("questions", *MEASURES, "hardware", "counters")
"""What `Cost.of` takes of a row of RunCost."""
NOT_KNOWN = -1


class Cost(NamedTuple):
    """NaN where it is not known; no kind of machine where there is no number of it."""

    tokens: float
    seconds: float
    joules: float
    machine: str
    """On which the seconds were taken ..."""
    meter: str
    """... and the same with what was counted for the joules."""

    @classmethod
    def of(
        cls,
        questions: int | None,
        tokens: int | None,
        seconds: float | None,
        joules: float | None,
        hardware: str | None,
        counters: str | None,
    ) -> Self | None:
        """None for a run without a row."""
        if not questions:
            return None
        meter = f"{hardware}: {counters}" if joules is not None else ""
        machine = hardware if hardware and seconds is not None else ""

        def of_one(whole: float | None) -> float:
            return np.nan if whole is None else whole / questions

        return cls(of_one(tokens), of_one(seconds), of_one(joules), machine, meter)


def mean_cost(draws: Sequence[Cost | None]) -> Cost | None:
    """Of one draw of examples on the mean; what one draw lacks, or did on another kind of machine,
    is not known."""
    known = [cost for cost in draws if cost is not None]
    if len(known) < len(draws):
        return None
    machines, meters = {cost.machine for cost in known}, {cost.meter for cost in known}
    tokens, seconds, joules = (float(np.mean(side)) for side in list(zip(*known, strict=True))[:3])
    one, metered = len(machines) == 1, len(meters) == 1
    return Cost(
        tokens,
        seconds if one else np.nan,
        joules if metered else np.nan,
        machines.pop() if one else "",
        meters.pop() if metered else "",
    )


@dataclass(frozen=True, eq=False)
class Costs:
    of: NDArray[np.float32]
    """Shape (rows, columns, 3), in the order of MEASURES; NaN where not known."""
    kind: NDArray[np.int16]
    """Shape (rows, columns, 2), for seconds and joules: place in `kinds`, or NOT_KNOWN."""
    kinds: list[str] = field(default_factory=list)

    @classmethod
    def none(cls, rows: int, columns: int) -> Self:
        return cls(
            np.full((rows, columns, 3), np.nan, np.float32),
            np.full((rows, columns, 2), NOT_KNOWN, np.int16),
        )

    def put(self, row: int, column: int, cost: Cost) -> None:
        """While a board is built."""
        self.of[row, column] = cost[:3]
        for place, name in enumerate((cost.machine, cost.meter)):
            if name:
                if name not in self.kinds:
                    self.kinds.append(name)
                self.kind[row, column, place] = self.kinds.index(name)

    def put_column(
        self, column: int, rows: NDArray[np.intp], of: Costs, places: NDArray[np.intp]
    ) -> None:
        """Those at `places` of a single column, while a board is built of several."""
        self.of[rows, column] = of.of[places, 0]
        for name in of.kinds:
            if name not in self.kinds:
                self.kinds.append(name)
        # NOT_KNOWN is the last of them by its number.
        number = np.array([*map(self.kinds.index, of.kinds), NOT_KNOWN], np.int16)
        self.kind[rows, column] = number[of.kind[places, 0]]

    def of_a_question(
        self, measure: str, columns: Sequence[int], asked: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """By row the mean over all questions of these columns, of which `asked`, shape (rows,
        columns), has the numbers; NaN where one column lacks it."""
        each = self.of[:, columns, MEASURES.index(measure)].astype(np.float64)
        n = asked[:, columns].astype(np.float64)
        with np.errstate(invalid="ignore"):  # a model that was asked nothing has no cost either
            mean: NDArray[np.float64] = (each * n).sum(axis=1) / n.sum(axis=1)
        return mean

    def machine_of(self, measure: str, columns: Sequence[int]) -> NDArray[np.int16]:
        """By row the place in `kinds` of the machine that all these columns are from; NOT_KNOWN
        where they are from several."""
        kinds = self.kind[:, columns, MEASURES.index(measure) - 1]
        return np.where((kinds == kinds[:, :1]).all(axis=1), kinds[:, 0], NOT_KNOWN)

    @property
    def known(self) -> bool:
        return bool(np.isfinite(self.of).any())

    @property
    def as_json(self) -> list[Any]:
        """For the digest of a board."""
        return [self.of.tobytes().hex(), self.kind.tobytes().hex(), self.kinds]

    def left(self, gone: NDArray[np.bool_], order: NDArray[np.intp]) -> Costs:
        """Without those of the cells that are gone, in a new order of rows."""
        of, kind = self.of.copy(), self.kind.copy()
        of[gone], kind[gone] = np.nan, NOT_KNOWN
        return Costs(of[order], kind[order], self.kinds)


OWN, EVERY = "own", "all"
"""Each benchmark in the style that its suite counts; every column of every style, unranked."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Score(NamedTuple):
    """A number with its 95 % interval; a share of 1, but for perplexities and their like."""

    value: float
    low: float
    high: float
    n: int = 0
    draws: int = 1
    """Draws of few-shot examples that it is the mean of."""
    sd_of_draws: float = 0.0
    lengths: Lengths | None = None
    """What was cut short, in all draws; None where nobody counted."""

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.value, self.high)


class Standing(StrEnum):
    """Why a cell shows what it shows; only SCORED counts. Boards keep places here: a new one
    comes last."""

    SCORED = "scored"
    RUNNING = "running"
    QUEUED = "queued"
    FAILED = "failed"
    NOT_COMPARABLE = "not comparable"
    NOT_MEASURED = "not measured"
    RECALLED = "recalled"


STANDINGS = tuple(Standing)
_FIRST = (Standing.SCORED, Standing.RECALLED)
PRECEDENCE = {
    standing: place
    for place, standing in enumerate((*_FIRST, *(s for s in Standing if s not in _FIRST)))
}
"""Of several runs of one cell, the lowest is shown: no rerun hides what was recalled."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A suite entry: one benchmark in one style, with what its cells share."""

    benchmark: str
    title: str
    style: str
    own: bool
    counts: bool
    """Whether it is part of the suite's average."""
    task: str
    task_version: str
    metric: str
    filter: str
    shots: int
    draws: int
    """Draws of few-shot examples that its scores are means of."""
    chance: float | None
    people: float | None
    people_source: str
    run_key: str
    comparability_key: str
    n: int | None
    """Questions; None where nothing was measured yet."""


@dataclass(frozen=True)
class Scores:
    """Values with their 95 % intervals, each of shape (rows, columns) or (rows,)."""

    value: Floats
    low: Floats
    high: Floats

    @classmethod
    def none(cls, *shape: int) -> Scores:
        return cls(*(np.full(shape, np.nan) for _ in range(3)))

    def put(self, places: Any, value: Any, low: Any, high: Any) -> None:
        self.value[places], self.low[places], self.high[places] = value, low, high

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """The lowest and the highest bound of each column, NaN where nothing was measured.

        Over all columns at once: one after the other takes five times as long. For scores that
        do not change any more.
        """
        return np.fmin.reduce(self.low, axis=0, initial=np.nan), np.fmax.reduce(
            self.high, axis=0, initial=np.nan
        )

    @property
    def sides(self) -> tuple[Floats, Floats, Floats]:
        return self.value, self.low, self.high

    def rows(self, chosen: NDArray[Any]) -> Scores:
        return Scores(*(side[chosen] for side in self.sides))

    def row(self, place: int) -> Scores:
        return Scores(*(side[place] for side in self.sides))

    def column(self, place: int) -> Scores:
        return Scores(*(side[:, place] for side in self.sides))

    @property
    def as_column(self) -> Scores:
        """Those of shape (rows,) as a single column."""
        return Scores(*(side[:, None] for side in self.sides))

    def where(self, rows: Flags) -> Scores:
        """The same with NaN in all other rows."""
        return Scores(*(np.where(rows, side, np.nan) for side in self.sides))

    def mean(self, columns: Sequence[int]) -> Scores:
        """By row the mean over columns with its interval, NaN where one is missing.

        The same as `evalcore.stats.mean_interval` of each row (Zou and Donner 2008, eq. 6).
        """
        value, low, high = (side[:, columns] for side in self.sides)
        mean = value.mean(axis=1)
        below = np.sqrt(((value - low) ** 2).sum(axis=1)) / len(columns)
        above = np.sqrt(((high - value) ** 2).sum(axis=1)) / len(columns)
        return Scores(mean, mean - below, mean + above)


@dataclass(frozen=True)
class Ranks:
    """Ranks with the ranges that hold for all of them at once (docs/method.md), each (rows,)."""

    rank: Ints
    """1 for the best, equal averages share one; 0 for none."""
    low: Ints
    high: Ints
    cut_low: Flags
    """Whether the range begins here only because models farther up were not compared."""
    cut_high: Flags
    better: NDArray[np.uint8]
    """Bits, shape (ranked, bytes): bit d of row j says that the j-th ranked model was shown to be
    better than the one d + 1 places below it among the ranked."""
    reach: int
    """How many places up and down each model was compared with."""

    @classmethod
    def none(cls, rows: int) -> Ranks:
        zeros, no = np.zeros(rows, np.int32), np.zeros(rows, np.bool_)
        nothing = np.zeros((0, 0), np.uint8)
        return cls(zeros, zeros, zeros, no, no, nothing, 0)

    @property
    def claims(self) -> Flags:
        """`better` as flags, shape (ranked, reach): who was shown to be better than whom."""
        return np.unpackbits(self.better, axis=1, count=self.reach).astype(np.bool_)

    def span(self, row: int) -> str:
        """The ranks that are not excluded; one that was cut off says that it may go on."""
        low, high = f"{self.low[row]:,}", f"{self.high[row]:,}"
        return f"{'≤' if self.cut_low[row] else ''}{low}–{'≥' if self.cut_high[row] else ''}{high}"

    def rows(self, chosen: NDArray[Any]) -> Ranks:
        """Those of some rows; `better` is of the ranked anyway."""
        arrays = {name: getattr(self, name)[chosen] for name in _BY_ROW}
        return replace(self, **arrays)

    def having(self, rows: NDArray[Any], ranks: Ranks) -> Ranks:
        """The same with `ranks` in these rows."""
        arrays = {}
        for name in _BY_ROW:
            array = getattr(self, name).copy()
            array[rows] = getattr(ranks, name)
            arrays[name] = array
        return replace(self, **arrays, better=ranks.better, reach=ranks.reach)


_BY_ROW = ("rank", "low", "high", "cut_low", "cut_high")


@dataclass(frozen=True)
class StyleGap:
    """One benchmark’s score in one style minus that in another, by row; NaN where one misses."""

    benchmark: str
    first: int
    second: int
    """Columns of the board of every style."""
    difference: Scores
    paired: Flags
    """Whether the same questions were compared one by one; else as independent scores."""


@dataclass(frozen=True)
class BestOf:
    """The largest score over a benchmark's styles, by row: derived, never ranked."""

    benchmark: str
    score: Scores
    column: Ints
    """Where it was reached; -1 for none."""


class Crossing(NamedTuple):
    """Two models of which one leads in the first column, the other in the second, both shown."""

    first: int
    second: int
    """Columns of the board of every style, of one benchmark."""
    ahead: int
    """Variant that leads in the first ..."""
    behind: int
    """... and that leads in the second."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Board:
    """A suite version in one style as it stood when the snapshot was built."""

    suite: str
    version: str
    title: str
    normalisation: str
    """`chance` where the suite's average is of scores taken from chance, else `none`."""
    style: str
    built: datetime
    data_version: str
    columns: tuple[Column, ...]
    models: Models
    scores: Scores
    normalised: Scores
    """From chance: 0 is guessing, 1 all right; by part where parts differ in chance."""
    n: Ints
    standing: NDArray[np.int8]
    """Place in STANDINGS."""
    sd_of_draws: Floats
    run: NDArray[Any]
    """The cell's run as 16 bytes (dtype V16); zeros for none. Read with `run_id`."""
    average: Scores
    """The suite's own average, shape (rows,)."""
    ranks: Ranks
    lengths: Ints
    """What was cut short, shape (rows, columns, 6) in the order of NAMES; 0 requests where nobody
    counted."""
    costs: Costs | None = None
    """What the scores took; None in files of before it was kept."""
    why: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """For cells that are not comparable in what their run differs from the column, for recalled
    ones why they were."""
    other_draws: Mapping[tuple[int, int], tuple[UUID, ...]] = field(default_factory=dict)
    """The runs of the other draws of examples."""
    styles: tuple[str, ...] = ()
    """Every style in which the suite asks anything."""
    without_style: tuple[str, ...] = ()
    """Titles of the suite's benchmarks that are not asked in this style."""
    gaps: tuple[StyleGap, ...] = ()
    best: tuple[BestOf, ...] = ()
    crossing: Crossing | None = None
    """Of the board of every style."""
    by_question: tuple[bool, ...] = ()
    """Of each column of the average whether ranks are from its scores by question."""
    rank_rule: int = 0
    """By which rule its windows of models begin (`ranking.RULE`); 0 in files of before there was
    another."""

    @property
    def by_chance(self) -> bool:
        return self.normalisation == "chance"

    @cached_property
    def ranked(self) -> int:
        """How many models have a rank."""
        return int((self.ranks.rank > 0).sum())

    @cached_property
    def averaged(self) -> int:
        """How many models have an average: the first so many rows; not all of them are ranked."""
        return int((~np.isnan(self.average.value)).sum())

    @cached_property
    def row_of(self) -> dict[int, int]:
        """Row by variant."""
        return {variant: row for row, variant in enumerate(self.models.values("variant"))}

    @cached_property
    def comparable(self) -> Flags:
        """Which rows nothing keeps from a rank but, maybe, a missing column."""
        return self.models.without(*LACKING)

    @cached_property
    def comparable_rows(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.comparable)

    @cached_property
    def place_among_ranked(self) -> Ints:
        """For each row its place among the ranked from 0, as `Ranks.better` counts; or -1."""
        has = self.ranks.rank > 0
        return np.where(has, np.cumsum(has) - 1, -1).astype(np.int32)

    def tells_apart(self, one: int, other: int) -> bool | None:
        """Whether one of two rows was shown to be better, among all; None where nobody compared."""
        first, second = sorted(self.place_among_ranked[[one, other]].tolist())
        if first < 0 or not 0 < second - first <= self.ranks.reach:
            return None
        return bool(np.unpackbits(self.ranks.better[first])[second - first - 1])

    def score(self, row: int, column: int) -> Score | None:
        """The cell's number, None where there is none."""
        value = self.scores.value[row, column]
        if np.isnan(value):
            return None
        return Score(
            float(value),
            float(self.scores.low[row, column]),
            float(self.scores.high[row, column]),
            int(self.n[row, column]),
            self.columns[column].draws,
            float(self.sd_of_draws[row, column]),
            lengths_of(self.lengths[row, column].tolist()),
        )

    def average_of(self, row: int) -> Score | None:
        value = self.average.value[row]
        if np.isnan(value):
            return None
        low, high = self.average.low[row], self.average.high[row]
        return Score(float(value), float(low), float(high))

    def standing_of(self, row: int, column: int) -> Standing:
        return STANDINGS[int(self.standing[row, column])]

    def run_id(self, row: int, column: int) -> UUID | None:
        raw = self.run[row, column].tobytes()
        return UUID(bytes=raw) if any(raw) else None

    def runs_of(self, row: int, column: int) -> tuple[UUID, ...]:
        """The runs behind the cell's number, that of the first draw of examples first."""
        run = self.run_id(row, column)
        if run is None or self.standing_of(row, column) is not Standing.SCORED:
            return ()
        return (run, *self.other_draws.get((row, column), ()))


_NO_RUN = "0" * 32


def run_urls(runs: NDArray[Any]) -> list[str]:
    """The address of each run, shape (n,) as a board has them; empty for none."""
    urls = []
    for run in (raw.hex() for raw in runs.tolist()):
        dashed = f"{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:]}"
        urls.append("" if run == _NO_RUN else run_url(dashed))
    return urls
