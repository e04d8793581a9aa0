"""Choosing whom to compare: a search that works without script, and suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from leaderboard.board import facets_of, search
from leaderboard.compare.chosen import Problem
from leaderboard.compare.lineup import MOST
from leaderboard.models import Run
from leaderboard.models.variant import way_of
from leaderboard.queue import listed, of_model
from leaderboard.snapshot import Board
from leaderboard.web import Address

LISTED = 12
BESIDE = 3
"""Neighbours in rank that are suggested above and below a model."""


@dataclass(frozen=True)
class Candidate:
    """Somebody to compare with, and the address that does it."""

    repo_id: str
    about: str
    url: str


@dataclass(frozen=True)
class Picker:
    """What the form offers; `exact` is an address to go to at once."""

    heading: str
    candidates: list[Candidate]
    more: int
    """How many were found besides."""
    problem: Problem | None
    full: bool
    exact: str = ""


def of_models(board: Board, rows: Sequence[int], address: Address) -> Picker:
    """Models of a board: those that a search finds, else neighbours in rank, else the newest."""
    text, full = address["q"], len(rows) >= MOST
    if not text:
        if rows and not full:
            return _picker("Ranked beside them", board, _beside(board, rows), rows, address)
        return _picker("Ranked last", board, _newest(board), rows, address)
    named = [row for row in facets_of(board).rows_of(text) if row not in rows]
    if len(named) == 1 and not full:
        return Picker("", [], 0, None, full, exact=_added(board, rows, named[0], address))
    try:
        mask, _ = search.parse(text).found(facets_of(board))
    except search.SearchError as error:
        return Picker("Nothing found", [], 0, Problem(f"Search: {error}"), full)
    found = [row for row in np.flatnonzero(mask).tolist() if row not in rows]
    problem = None if found else Problem(f"Search: no other model on this board has “{text}”.")
    return _picker("Found", board, found, rows, address, problem)


def _beside(board: Board, rows: Sequence[int]) -> list[int]:
    """The nearest in the board's order, those above first."""
    first = rows[0]
    near = range(max(0, first - BESIDE), min(len(board.models), first + 2 * BESIDE + 1))
    return [row for row in near if row not in rows][: 2 * BESIDE]


def _newest(board: Board) -> list[int]:
    """The ranked models that came to the board last."""
    ranked = np.flatnonzero(board.ranks.rank > 0)
    order = np.argsort(-facets_of(board).added[ranked], kind="stable")
    return [int(row) for row in ranked[order][:LISTED]]


def _picker(
    heading: str,
    board: Board,
    found: Sequence[int],
    rows: Sequence[int],
    address: Address,
    problem: Problem | None = None,
) -> Picker:
    full = len(rows) >= MOST
    candidates = [
        Candidate(
            board.models[row].repo_id,
            _about(board, row),
            "" if full else _added(board, rows, row, address),
        )
        for row in found[:LISTED]
    ]
    return Picker(heading, candidates, max(0, len(found) - LISTED), problem, full)


def _about(board: Board, row: int) -> str:
    """Rank and what tells it from others of its name."""
    model, rank = board.models[row], int(board.ranks.rank[row])
    place = f"rank {rank:,}, " if rank else ""
    told = filter(None, (model.quantisation or model.dtype, way_of(model), model.commit[:7]))
    return place + ", ".join(told)


def _added(board: Board, rows: Sequence[int], row: int, address: Address) -> str:
    keys = [str(board.models[place].variant) for place in (*rows, row)]
    return address.url(m=",".join(keys), q="", page="", doc="")


def of_runs(runs: Sequence[Run], address: Address) -> Picker:
    """Other finished runs that were asked the same, those of the model searched for first."""
    text, full = address["q"], len(runs) >= MOST
    if (key := _uuid(text)) and not full:
        exact = _with_run(runs, key, address)
        return Picker("", [], 0, None, full, exact=exact)
    if not runs:
        return Picker("", [], 0, None, full)
    same = Run.objects.filter(run_key=runs[0].run_key, state=Run.State.DONE)
    others = of_model(same, text).exclude(pk__in=[run.pk for run in runs]).order_by("-finished")
    found = list(listed(others)[: LISTED + 1])
    candidates = [
        Candidate(
            run.variant.hub_model.repo_id,
            f"{run.variant.told}, {run.variant.commit[:7]}",
            "" if full else _with_run(runs, run.pk, address),
        )
        for run in found[:LISTED]
    ]
    problem = None
    if text and not found:
        problem = Problem(f"Search: no finished run asked the same has “{text}” in its model’s ID.")
    return Picker("Runs that were asked the same", candidates, 0, problem, full)


def _with_run(runs: Sequence[Run], key: UUID, address: Address) -> str:
    keys = [str(run.pk) for run in runs]
    return address.url(run=",".join(dict.fromkeys([*keys, str(key)])), q="", page="", doc="")


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text.rpartition("/")[2])
    except ValueError:
        return None
