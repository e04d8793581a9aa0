"""Choosing whom to compare: a search by name that works without script, and suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import numpy as np

from leaderboard.board import facets_of, search
from leaderboard.compare.query import Problem, Query
from leaderboard.compare.table import MOST_MODELS
from leaderboard.models import Run
from leaderboard.models.variant import way_of
from leaderboard.queue import listed, of_model
from leaderboard.snapshot import Board
from leaderboard.templatetags.figures import percent

MOST_FOUND = 12
SUGGESTED = 5
"""Models of each kind that are suggested."""
BESIDE = 3
"""Neighbours in rank that are suggested above and below a model."""


class Candidate(NamedTuple):
    """A model or run to compare with, and the address that does it."""

    repo_id: str
    about: str
    url: str

    @property
    def maker(self) -> str:
        return self.repo_id.partition("/")[0]


@dataclass(frozen=True, kw_only=True)
class Picker:
    """What the form offers; `exact` is an address to go to at once."""

    full: bool
    groups: list[tuple[str, list[Candidate]]] = field(default_factory=list)
    """Candidates under a heading each."""
    more: int = 0
    """How many were found besides."""
    problem: Problem | None = None
    exact: str = ""


def picker_of(query: Query) -> Picker | None:
    """None where there is no board yet."""
    if query.field == "run":
        return _of_runs(query)
    return _of_models(query, query.board) if query.board else None


def _of_models(query: Query, board: Board) -> Picker:
    """Models of a board: those that a search finds, else the nearest, the highest, the newest."""
    text, rows, full = query.address["q"], query.rows, len(query.rows) >= MOST_MODELS

    def candidates(of: Sequence[int]) -> list[Candidate]:
        return [_candidate(query, board, row) for row in of]

    if full:
        return Picker(full=True)
    if not text:
        ranked = np.flatnonzero(board.ranks.rank > 0)
        newest = ranked[np.argsort(-facets_of(board).added[ranked], kind="stable")]
        suggested = (
            ("Ranked beside it" if len(rows) == 1 else "Ranked beside them", _beside(board, rows)),
            ("Highest on the board", _few(ranked.tolist(), rows)),
            ("Newest on the board", _few(newest.tolist(), rows)),
        )
        groups = [(heading, candidates(of)) for heading, of in suggested if of]
        return Picker(full=False, groups=groups)
    named = [row for row in facets_of(board).rows_of(text) if row not in rows]
    if len(named) == 1:
        return Picker(full=False, exact=_with(query, str(board.models[named[0]].variant)))
    try:
        mask, _ = search.parse(text).found(facets_of(board))
    except search.SearchError as error:
        return Picker(full=False, problem=Problem(f"Search: {error}"))
    matches = [row for row in np.flatnonzero(mask).tolist() if row not in rows]
    if not matches:
        problem = Problem(f"Search: no other model on this board has “{text}”.")
        facets = facets_of(board)
        near = [search.parse(name).found(facets)[0] for name in facets.near(text)]
        found = [row for row in np.flatnonzero(np.any(near, axis=0)).tolist() if row not in rows]
        groups = [("Did you mean", candidates(found[:MOST_FOUND]))] if found else []
        return Picker(full=False, problem=problem, groups=groups)
    shown = candidates(matches[:MOST_FOUND])
    more = max(0, len(matches) - MOST_FOUND)
    return Picker(full=False, groups=[("Found", shown)], more=more)


def _few(order: Sequence[int], rows: Sequence[int]) -> list[int]:
    return [row for row in order[: SUGGESTED + MOST_MODELS] if row not in rows][:SUGGESTED]


def _beside(board: Board, rows: Sequence[int]) -> list[int]:
    """The nearest to the first in the board's order, those above it first."""
    if not rows:
        return []
    first = rows[0]
    near = range(max(0, first - BESIDE), min(len(board.models), first + 2 * BESIDE + 1))
    return [row for row in near if row not in rows][: 2 * BESIDE]


def _candidate(query: Query, board: Board, row: int) -> Candidate:
    """With its rank and average, and what tells it from others of its name."""
    model, rank = board.models[row], int(board.ranks.rank[row])
    about = [f"rank {rank:,}", f"average {percent(board.average.value[row])}"] if rank else []
    about += filter(None, (model.quantisation or model.dtype, way_of(model), model.commit[:7]))
    return Candidate(model.repo_id, ", ".join(about), _with(query, str(model.variant)))


def _with(query: Query, key: str) -> str:
    """The page with one more."""
    return query.url(dict.fromkeys((*query.keys, key)))


def _of_runs(query: Query) -> Picker:
    """Other finished runs that were asked the same, those of the model searched for first."""
    text, runs, full = query.address["q"], query.runs, len(query.runs) >= MOST_MODELS
    if full:
        return Picker(full=True)
    if key := _uuid(text):
        return Picker(full=False, exact=_with(query, str(key)))
    if not runs:
        return Picker(full=False)
    same = Run.objects.filter(run_key=runs[0].run_key, state=Run.State.DONE)
    others = of_model(same, text).exclude(pk__in=[run.pk for run in runs]).order_by("-finished")
    found = list(listed(others)[:MOST_FOUND])
    if not found:
        problem = f"Search: no finished run asked the same has “{text}” in its model’s ID."
        return Picker(full=False, problem=Problem(problem) if text else None)
    candidates = [
        Candidate(
            run.variant.hub_model.repo_id,
            f"{run.variant.told}, {run.variant.commit[:7]}",
            _with(query, str(run.pk)),
        )
        for run in found
    ]
    return Picker(full=False, groups=[("Runs that were asked the same", candidates)])


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text.rpartition("/")[2])
    except ValueError:
        return None
