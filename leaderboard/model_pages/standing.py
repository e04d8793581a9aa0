"""Where a commit of a model stands on the boards, and which models stand near it.

All of it is read from boards that are in memory; nothing is compared here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlencode

import numpy as np
import pyarrow.compute as pc
from django.conf import settings
from django.urls import reverse

from leaderboard.board import BoardQuery
from leaderboard.models import Suite
from leaderboard.models.task import Style, is_share
from leaderboard.snapshot import (
    EVERY,
    OWN,
    Board,
    Column,
    Flags,
    Score,
    Standing,
    positions,
    published,
)

NAMED = 8
"""Of the models that are not told apart from it so many are listed, the nearest in rank."""
MAX_COMPARED = 6
"""Models that the comparison takes, this one among them."""
SIMILAR = 6
"""Similar models that are listed of each kind."""
NEAR = 1.25
"""A model is of the same size up to so many times as large or as small."""
EXTREMES = 4
"""Benchmarks that are listed as the strongest, and as the weakest."""
MIN_BENCHMARKS = 3
"""Of two, one would be the highest and the other the lowest, whatever they are."""


@dataclass(frozen=True)
class Place:
    """A row of one board."""

    board: Board
    row: int
    current: bool
    """Whether this is the newest version of its suite."""

    @property
    def style(self) -> str:
        return "" if self.board.style == OWN else self.board.style

    @property
    def style_words(self) -> str:
        return str(Style(self.style).label) if self.style else "each task’s own"

    @property
    def variant(self) -> int:
        return int(self.board.models.value(self.row, "variant"))

    @property
    def url(self) -> str:
        """The page of the board that it is on, with its row in sight."""
        board, variant = self.board, self.variant
        suite = board.suite if self.current else f"{board.suite}@{board.version}"
        wanted = BoardQuery(suite=suite, style=board.style, at_model=str(variant))
        return wanted.url(f"m{variant}")

    @property
    def rank(self) -> int:
        return int(self.board.ranks.rank[self.row])

    @property
    def span(self) -> str:
        return self.board.ranks.span(self.row)

    @property
    def low(self) -> int:
        return int(self.board.ranks.low[self.row])

    @property
    def high(self) -> int:
        return int(self.board.ranks.high[self.row])

    @property
    def cut(self) -> bool:
        """Whether the range ends somewhere only because models farther away were not compared."""
        ranks = self.board.ranks
        return bool(ranks.cut_low[self.row] or ranks.cut_high[self.row])

    @property
    def average(self) -> Score | None:
        return self.board.average_of(self.row)

    @property
    def counted(self) -> int:
        """Benchmarks in the average."""
        return sum(column.counts for column in self.board.columns)

    @property
    def superseded_by(self) -> str:
        return str(self.board.models.value(self.row, "superseded_by"))

    @property
    def apart(self) -> str:
        return str(self.board.models.value(self.row, "apart"))

    @property
    def flag_reason(self) -> str:
        return str(self.board.models.value(self.row, "flag_reason"))

    @property
    def missing(self) -> list[tuple[str, Standing]]:
        """The columns without a number, each with how it stands."""
        columns = enumerate(self.board.columns)
        found = [(column.title, self.board.standing_of(self.row, at)) for at, column in columns]
        return [(title, standing) for title, standing in found if standing is not Standing.SCORED]


@dataclass(frozen=True)
class Boards:
    """The newest boards that may have a model."""

    own: Board | None
    """Of the chosen suite, in the styles that it counts."""
    styled: tuple[Board, ...]
    """Of the chosen suite, in one style each."""
    every: Board | None
    """Of the chosen suite, with all styles side by side."""
    others: tuple[Board, ...]
    """Of other suites."""
    older: tuple[Board, ...]
    """Of versions that were submitted to and are not the newest."""


WORDS = ("description", "changelog", "reported")
"""Texts of a suite that no page of a model shows."""


def suites_of(submitted: Collection[int], site_suite: str) -> tuple[list[Suite], list[Suite]]:
    """The newest versions of the suites that were submitted to, the site's first; and older ones.

    `submitted` are primary keys; for none it is the site's suite.
    """
    rows = list(Suite.objects.order_by("created", "pk").defer(*WORDS))
    newest = {suite.name: suite for suite in rows}
    names = {suite.name for suite in rows if suite.pk in submitted} or {site_suite}
    current = [suite for suite in newest.values() if suite.name in names]
    older = [suite for suite in rows if suite.pk in submitted and suite not in current]
    current.sort(key=lambda suite: (suite.name != site_suite, suite.title))
    return current, older


def boards(
    suite: Suite | None,
    own: Board | None,
    suites: Iterable[Suite],
    older: Iterable[Suite],
    variant: int | None,
) -> Boards:
    """Those to look at for a variant; those in one style only where it is on the suite's own."""
    styles = own.styles if suite and own and variant in own.row_of else ()
    styled = [(suite, style) for style in styles if suite]
    others = [(other, OWN) for other in suites if other != suite]
    before = [(earlier, OWN) for earlier in older]
    every = [(suite, EVERY)] if suite and styles else []
    found = published.newest_of([*styled, *every, *others, *before])

    def built(wanted: Iterable[tuple[Suite, str]]) -> tuple[Board, ...]:
        keys = [(suite.pk, style) for suite, style in wanted]
        return tuple(found[key] for key in keys if key in found)

    return Boards(own, built(styled), next(iter(built(every)), None), built(others), built(before))


def place(board: Board | None, variant: int, *, current: bool = True) -> Place | None:
    """Where the variant stands; None where the board was not built or does not have it."""
    row = board.row_of.get(variant) if board else None
    return None if board is None or row is None else Place(board, row, current)


def in_styles(boards: Boards, variant: int) -> list[Place]:
    """Its place on the board of each style in which it has an average."""
    styled = (place(board, variant) for board in boards.styled)
    return [found for found in styled if found and found.average]


def places(boards: Boards, variant: int) -> list[Place]:
    """The suite's own board first, then each style that has an average, then other suites."""
    own = place(boards.own, variant)
    others = [place(board, variant) for board in boards.others]
    older = [place(board, variant, current=False) for board in boards.older]
    every = (own, *in_styles(boards, variant), *others, *older)
    return [found for found in every if found]


@dataclass(frozen=True)
class Position:
    """A model's rank on one benchmark in one style, and the ranks that are not excluded."""

    column: Column
    place: int
    """Of the column on its board."""
    rank: int
    low: int
    high: int
    models: int
    """With a score, this one among them."""

    def share(self, rank: float) -> float:
        """A rank as the share of the others that it leaves behind: 1 for the first of all."""
        return (self.models - rank) / (self.models - 1)

    @property
    def at(self) -> float:
        return self.share(self.rank)

    @property
    def bounds(self) -> tuple[float, float]:
        """The shares of the worst and of the best rank."""
        return self.share(self.high), self.share(self.low)

    @property
    def span(self) -> str:
        return f"{self.low:,}–{self.high:,}"


def positions_of(board: Board, row: int) -> list[Position]:
    """On each column in which it and another model of the field have a score, in board order.

    Columns whose numbers are no shares are left out: of a perplexity less is better. Empty for a
    model outside the field.
    """
    found = positions.of_board(board)
    sides = (side[row].tolist() for side in (found.rank, found.low, found.high))
    columns = zip(board.columns, *sides, found.models.tolist(), strict=True)
    return [
        Position(column, at, rank, low, high, models)
        for at, (column, rank, low, high, models) in enumerate(columns)
        if rank and models > 1 and is_share(column.metric)
    ]


@dataclass(frozen=True)
class Extremes:
    """The benchmarks on which a model leaves most and fewest of the others behind.

    By ranks and not by scores: a benchmark may be easy for all.
    """

    highest: list[Position]
    lowest: list[Position]
    benchmarks: int
    """From which they were picked."""

    @property
    def strong(self) -> bool:
        """Whether the highest are shown to be above the field's middle."""
        return self.highest[0].bounds[0] > 0.5

    @property
    def weak(self) -> bool:
        """Whether the lowest are shown to be below the field's middle."""
        return self.lowest[0].bounds[1] < 0.5


def extremes(found: Sequence[Position]) -> Extremes | None:
    """None for too few benchmarks, or where all are level.

    Where some ranges lie wholly on one side of the field's middle only those are listed on that
    side; else the highest, or lowest, ranks whatever they mean.
    """
    ordered = sorted(found, key=lambda position: -position.at)
    if len(ordered) < MIN_BENCHMARKS or ordered[0].at == ordered[-1].at:
        return None
    listed = min(EXTREMES, len(ordered) // 2)
    above = [position for position in ordered if position.bounds[0] > 0.5]
    below = [position for position in reversed(ordered) if position.bounds[1] < 0.5]
    highest = (above or ordered)[:listed]
    rest = [position for position in reversed(ordered) if position not in highest]
    lowest = (below or rest)[:listed]
    return Extremes(highest, lowest, len(ordered))


class Verdict(StrEnum):
    """What the board claims of another model against this one."""

    BETTER = "shown to be better"
    WORSE = "shown to be worse"
    OPEN = "not told apart"
    NONE = ""
    """Nobody compared the two: one has no rank, or they lie too far apart."""


@dataclass(frozen=True)
class Neighbour:
    """Another model of the same board."""

    variant: int
    repo_id: str
    parameters: int
    rank: int
    """0 for none."""
    span: str
    average: Score | None
    verdict: Verdict
    compare_url: str

    @property
    def url(self) -> str:
        return reverse("model", args=[self.repo_id])

    @property
    def owner(self) -> str:
        return self.repo_id.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.repo_id.rpartition("/")[2]


def verdicts(board: Board, row: int) -> dict[int, Verdict]:
    """What is claimed of each other model, by row; only of those that were compared with it.

    Empty for a model without a rank.
    """
    rows = np.flatnonzero(board.ranks.rank > 0)
    own, reach = int(board.place_among_ranked[row]), board.ranks.reach
    if own < 0:
        return {}
    better = board.ranks.better
    above = np.arange(max(0, own - reach), own)
    distance = own - above - 1
    shown_above = better[above, distance // 8] >> (7 - distance % 8) & 1
    below = np.arange(own + 1, min(own + 1 + reach, len(rows)))
    shown_below = np.unpackbits(better[own], count=reach)[: len(below)]
    sides = ((above, shown_above, Verdict.BETTER), (below, shown_below, Verdict.WORSE))
    return {
        row_of: claim if shown else Verdict.OPEN
        for ranked, claims, claim in sides
        for row_of, shown in zip(rows[ranked].tolist(), claims.tolist(), strict=True)
    }


@dataclass(frozen=True)
class NotToldApart:
    """The models that were neither shown to be better nor to be worse."""

    count: int
    nearest: list[Neighbour]
    """In rank, in the board's order."""
    compare_url: str
    """This model and the first of them side by side."""


def not_told_apart(own: Place, claims: dict[int, Verdict]) -> NotToldApart | None:
    rows = [row for row, verdict in claims.items() if verdict is Verdict.OPEN]
    if not rows:
        return None
    rows.sort(key=lambda row: (abs(row - own.row), row))
    nearest = [_neighbour(own, row, claims) for row in sorted(rows[:NAMED])]
    first = [other.variant for other in nearest[: MAX_COMPARED - 1]]
    return NotToldApart(len(rows), nearest, _compare(own, first))


def of_family(own: Place, base: str, claims: dict[int, Verdict]) -> tuple[list[Neighbour], int]:
    """Models of the same board that state the same base, and the base; and how many there are."""
    models = own.board.models
    related = np.asarray(pc.equal(models.array("base_model"), base), np.bool_)
    related |= np.asarray(pc.equal(models.array("repo_id"), base), np.bool_)
    rows = np.flatnonzero(related & _others(own))
    return [_neighbour(own, row, claims) for row in rows[:SIMILAR].tolist()], len(rows)


def of_size(own: Place, claims: dict[int, Verdict]) -> tuple[list[Neighbour], int, int]:
    """Models of about the same size with the nearest averages; how many there are, and how many of
    those have a lower average."""
    board = own.board
    sizes = np.asarray(board.models.array("parameters"), np.float64)
    near = np.flatnonzero(_others(own) & (np.abs(np.log(sizes / sizes[own.row])) <= np.log(NEAR)))
    distance = board.average.value[near] - board.average.value[own.row]
    nearest = near[np.argsort(np.abs(distance), kind="stable")][:SIMILAR]
    listed = [_neighbour(own, row, claims) for row in sorted(nearest.tolist())]
    return listed, len(near), int((distance < 0).sum())


def _others(own: Place) -> Flags:
    """The rows of other repositories that may be ranked and have an average."""
    board = own.board
    own_id = board.models.value(own.row, "repo_id")
    other = np.asarray(pc.not_equal(board.models.array("repo_id"), own_id), np.bool_)
    return board.comparable & ~np.isnan(board.average.value) & other


def _neighbour(own: Place, row: int, claims: dict[int, Verdict]) -> Neighbour:
    board, models = own.board, own.board.models
    rank, variant = int(board.ranks.rank[row]), models.value(row, "variant")
    return Neighbour(
        variant=variant,
        repo_id=models.value(row, "repo_id"),
        parameters=models.value(row, "parameters"),
        rank=rank,
        span=board.ranks.span(row) if rank else "",
        average=board.average_of(row),
        verdict=claims.get(row, Verdict.NONE),
        compare_url=_compare(own, [variant]),
    )


def _compare(own: Place, others: list[int]) -> str:
    board = own.board
    query = {"m": ",".join(map(str, [own.variant, *others]))}
    if board.suite != settings.PLUMBLINE_SUITE:
        query["suite"] = board.suite
    if board.style != OWN:
        query["style"] = board.style
    return f"{reverse('compare')}?{urlencode(query, safe=',')}"
