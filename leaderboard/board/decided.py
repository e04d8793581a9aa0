"""The neighbours in rank that few questions decide, and those that many do: beneath the board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.board.view import View
from leaderboard.board.wanted import Wanted
from leaderboard.snapshot import Decided, Model


@dataclass(frozen=True)
class Lead:
    rank: int
    upper: str
    lower: str
    """Names of the models."""
    questions: int | None
    """None for more than are sought."""
    of: int
    url: str
    """Of their comparison."""


@dataclass(frozen=True)
class Leads:
    least: list[Lead]
    most: list[Lead]
    """Each with its clearest first."""


def leads_of(view: View) -> Leads | None:
    """On the first page of the whole board; None where nothing is known of its neighbours."""
    if view.page > 1 or view.own_choice or view.found < view.total:
        return None
    pairs = [pair for pair in view.board.decided if _still(view, pair)]
    if not pairs:
        return None
    half = (len(pairs) + 1) // 2
    return Leads(_leads(view, pairs[:half]), _leads(view, pairs[: half - 1 : -1]))


def _still(view: View, pair: Decided) -> bool:
    """Whether they are neighbours still: a recall may have taken the rank of one."""
    board = view.board
    rows = [board.row_of.get(variant) for variant in (pair.upper, pair.lower)]
    upper, lower = (-1 if row is None else int(board.place_among_ranked[row]) for row in rows)
    return upper >= 0 and lower == upper + 1


def _leads(view: View, pairs: Sequence[Decided]) -> list[Lead]:
    board, asked = view.board, view.wanted
    found = []
    for pair in pairs:
        upper, lower = (board.row_of[variant] for variant in (pair.upper, pair.lower))
        both = Wanted(suite=asked.suite, style=asked.style, at=asked.at).but(
            m=f"{pair.upper},{pair.lower}"
        )
        found.append(
            Lead(
                int(board.ranks.rank[upper]),
                _name(board.models[upper]),
                _name(board.models[lower]),
                pair.questions,
                pair.of,
                both.url(to="compare"),
            )
        )
    return found


def _name(model: Model) -> str:
    return model.repo_id.rpartition("/")[2]
