"""Other models of the board beside this one: whom it cannot be told apart from, and the similar.

All is read from the board and its claims; nothing is compared here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlencode

import numpy as np
import pyarrow.compute as pc
from django.conf import settings
from django.urls import reverse

from leaderboard.model_pages.places import Place
from leaderboard.snapshot import OWN, Board, Score, positions

NAMED = 8
"""Of those that cannot be told apart so many are named, the nearest in rank."""
COMPARED = 6
"""Models that the comparison takes, this one among them."""
OF_FAMILY, OF_SIZE = 6, 6
"""So many similar models are listed of each kind."""
NEAR = 1.25
"""A model is of the same size up to so many times as large or as small."""


class Verdict(StrEnum):
    """What the board claims of this model against another."""

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
    """Of this other one against the model of the page."""
    compare_url: str

    @property
    def url(self) -> str:
        return reverse("model", args=[self.repo_id])

    @property
    def owner(self) -> str:
        owner, slash, _ = self.repo_id.rpartition("/")
        return owner + slash

    @property
    def name(self) -> str:
        return self.repo_id.rpartition("/")[2]


@dataclass(frozen=True)
class Similar:
    """Models worth a look beside this one; the best average first."""

    family: list[Neighbour]
    size: list[Neighbour]
    n_family: int
    n_size: int
    """How many there are on the board."""


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
        for places, claims, claim in sides
        for row_of, shown in zip(rows[places].tolist(), claims.tolist(), strict=True)
    }


def not_told_apart(place: Place, claims: dict[int, Verdict]) -> list[Neighbour]:
    """The nearest in rank of those that cannot be told apart from it."""
    rows = [row for row, verdict in claims.items() if verdict is Verdict.OPEN]
    rows.sort(key=lambda row: (abs(row - place.row), row))
    return [_neighbour(place, row, claims) for row in sorted(rows[:NAMED])]


def compare_url(place: Place, others: list[Neighbour]) -> str:
    """This model and the first others side by side."""
    return _compare(place, [other.variant for other in others[: COMPARED - 1]])


def similar(place: Place, base: str, claims: dict[int, Verdict]) -> Similar:
    """Of the same family (the base and what states it as its base), and of the same size."""
    board, row = place.board, place.row
    may_be_ranked = positions.members(board) & ~np.isnan(board.average.value)
    may_be_ranked[row] = False
    models = board.models
    in_family = np.asarray(pc.equal(models.array("base_model"), base), np.bool_)
    in_family |= np.asarray(pc.equal(models.array("repo_id"), base), np.bool_)
    own_id = models.value(row, "repo_id")
    other_repository = np.asarray(pc.not_equal(models.array("repo_id"), own_id), np.bool_)
    family = np.flatnonzero(in_family & may_be_ranked & other_repository)
    sizes = np.asarray(models.array("parameters"), np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(np.log(sizes / sizes[row]))
    near = np.flatnonzero((ratio <= np.log(NEAR)) & may_be_ranked & other_repository)
    # Of many of the size those with the nearest averages say most.
    distance = np.abs(board.average.value[near] - board.average.value[row])
    nearest = near[np.argsort(distance, kind="stable")][:OF_SIZE]
    return Similar(
        family=[_neighbour(place, other, claims) for other in family[:OF_FAMILY].tolist()],
        size=[_neighbour(place, other, claims) for other in sorted(nearest.tolist())],
        n_family=len(family),
        n_size=len(near),
    )


def _neighbour(place: Place, row: int, claims: dict[int, Verdict]) -> Neighbour:
    board, models = place.board, place.board.models
    rank, variant = int(board.ranks.rank[row]), models.value(row, "variant")
    return Neighbour(
        variant=variant,
        repo_id=models.value(row, "repo_id"),
        parameters=models.value(row, "parameters"),
        rank=rank,
        span=board.ranks.span(row) if rank else "",
        average=board.average_of(row),
        verdict=claims.get(row, Verdict.NONE),
        compare_url=_compare(place, [variant]),
    )


def _compare(place: Place, others: list[int]) -> str:
    board = place.board
    asked = {"m": ",".join(map(str, [place.variant, *others]))}
    if board.suite != settings.PLUMBLINE_SUITE:
        asked["suite"] = board.suite
    if board.style != OWN:
        asked["style"] = board.style
    return f"{reverse('compare')}?{urlencode(asked, safe=',')}"
