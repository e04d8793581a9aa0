"""The compare page: an address becomes a query, the query a comparison, and that one template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import numpy as np
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board import facets_of, search
from leaderboard.compare.differences import Comparison, NoDifference
from leaderboard.compare.differences import compare as differences
from leaderboard.compare.pair import forest, forest_of_parts, headline, other_styles, parts_of
from leaderboard.compare.pins import pins_of
from leaderboard.compare.query import JOINED, WHO, Problem, Query, fields, read
from leaderboard.compare.questions import (
    Partings,
    crosstab_of,
    list_of,
    partings_of,
    preview,
    question_of,
)
from leaderboard.compare.six import six
from leaderboard.compare.table import MOST_MODELS, Lineup, Task
from leaderboard.models import Run
from leaderboard.models import edition as editions
from leaderboard.models.run import run_url
from leaderboard.models.task import Style
from leaderboard.models.variant import way_of
from leaderboard.queue import listed, of_model
from leaderboard.snapshot import OWN, Board
from leaderboard.templatetags.figures import percent
from leaderboard.web import Address, kept

MOST_REPEATED = 40
"""Characters of an unknown question that are shown again."""


@require_safe
def compare(request: HttpRequest) -> HttpResponseBase:
    """Two to six models, or runs of one benchmark; with fewer, the page to choose them on."""
    address = Address(request, fields(), JOINED)
    return kept.answer(request, editions.now, lambda: _answer(request, address))


def _answer(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    query = read(address)
    picker = picker_of(query)
    if picker and picker.exact:
        return HttpResponseRedirect(picker.exact)
    lineup = query.lineup
    if lineup is None:
        context = _surroundings(request, query, picker) | {"chosen": _chosen(query)}
        return address.redirect() or render_to_string("compare/pick.html", context, request)
    here = query.settled
    if redirect := here.redirect():
        return redirect
    comparison = differences(lineup)
    context = {**_surroundings(request, query, picker), "lineup": lineup}
    if len(lineup.sides) == 2:
        context |= _pair(query, comparison, here)
        template = "compare/pair.html"
    else:
        context |= _six(query, comparison)
        template = "compare/six.html"
    if redirect := here.redirect():
        return redirect
    return kept.Unlisted(render_to_string(template, context, request))


def _surroundings(request: HttpRequest, query: Query, picker: Picker | None) -> dict[str, Any]:
    board, address = query.board, query.address
    return {
        "address": address,
        "problems": query.problems,
        "picker": picker,
        "suite": query.suite,
        "board": board,
        "at": address["at"],
        "page_url": request.build_absolute_uri(),
        "board_query": urlencode(_given(address, "suite", "style", "at")),
        "carried": _given(address, *WHO),
        "styles": _styles(query),
    }


def _chosen(query: Query) -> list[tuple[str, str]]:
    """Of a single model or run: its ID, and the address without it."""
    board = query.board
    repo_ids = [run.variant.hub_model.repo_id for run in query.runs]
    repo_ids += [board.models[row].repo_id for row in query.rows] if board else []
    return [(repo_id, query.url([])) for repo_id in repo_ids]


def _given(address: Address, *names: str) -> list[tuple[str, str]]:
    """Those of the fields that are not as usual."""
    return [(name, address[name]) for name in names if address[name] != fields()[name]]


def _styles(query: Query) -> list[tuple[str, str, str, bool]]:
    """Style, label, address, whether it is shown; empty where there is one."""
    board = query.board
    if board is None or len(board.styles) < 2:
        return []
    return [
        (style, label, query.address.url(style=style, page="", doc=""), style == board.style)
        for style, label in (
            (OWN, "Each task’s own"),
            *((style, str(Style(style).label)) for style in board.styles),
        )
    ]


def _shared(query: Query, title: str) -> dict[str, Any]:
    """Title, picture and files."""
    who = _given(query.address, *WHO)
    return {
        "share_title": title,
        "picture_url": f"{reverse('compare-picture')}?{urlencode(who)}",
        "picture_alt": f"{title}, with the 95% intervals of the scores",
    }


def _files(query: Query, task: Task | None) -> list[tuple[str, str]]:
    """The comparison by question as files: of the chosen task, else of all."""
    given = [*_given(query.address, *WHO), *([("task", task.key)] if task else [])]
    return [
        (label, f"{reverse(f'compare-{label.lower()}')}?{urlencode(given)}")
        for label in ("CSV", "JSON", "Parquet")
    ]


def _pair(query: Query, comparison: Comparison, address: Address) -> dict[str, Any]:
    lineup, (pair,) = comparison.lineup, comparison.pairs
    task = lineup.task(address.choice("task", [task.key for task in lineup.tasks]))
    if len(lineup.tasks) == 1:
        address.choice("task", ())  # the only one needs no mention
        (task,) = lineup.tasks
    every = partings_of(lineup, pair)
    if task is None and every and (address["doc"] or address["part"]):
        task = every[0].task  # earlier addresses took the one farthest apart for granted
        address = address.at(task=task.key)
    chosen = next((partings for partings in every if partings.task is task), None)
    title, wins = headline(comparison), pair.tasks
    return {
        **_shared(query, title.sentence),
        "headline": title,
        "open_on_board": bool(title.words.claim) and _is_open_on_board(query, lineup),
        "wins": wins,
        "win_marks": ["a"] * wins.better + [""] * wins.equal + ["b"] * wins.worse,
        "pins": pins_of(lineup, task),
        "other_styles": other_styles(query, comparison),
        "forest": forest(comparison, address, task),
        "task": task,
        "files": _files(query, task),
        **_questions(comparison, every, chosen, task, address),
    }


def _is_open_on_board(query: Query, lineup: Lineup) -> bool:
    """Whether the board, which tests every pair of its models at once, leaves their order open."""
    board = query.board
    if query.runs or board is None:
        return False
    one, other = (board.row_of[int(side.key)] for side in lineup.sides)
    return board.tells_apart(one, other) is False


def _questions(
    comparison: Comparison,
    every: list[Partings],
    chosen: Partings | None,
    task: Task | None,
    address: Address,
) -> dict[str, Any]:
    """The questions that decide it: of the chosen task, else of all."""
    lineup, (pair,) = comparison.lineup, comparison.pairs
    if task is not None and chosen is None:
        return {"why_no_questions": pair.by_task[lineup.tasks.index(task)].why}
    if chosen is None:
        whole = bool(address["show"])
        return {
            "crosstab": crosstab_of(pair),
            "questions": list_of(every, None, address) if whole and every else None,
            "preview": [] if whole else preview(every, address),
            "all_questions_url": address.url("questions", show="all"),
            "has_files": any(all(partings.files) for partings in every),
        }
    problems, layout = [], chosen.layout
    if address["part"]:
        place = layout.parts.index(address["part"]) if address["part"] in layout.parts else None
        if place is None or len(layout.parts) == 1:
            unknown = address["part"][:MOST_REPEATED]
            problems.append(
                f"part: {chosen.task.title} has no part “{unknown}”. Choose one from the table."
            )
        else:
            chosen = replace(chosen, part=place)
    doc = layout.called(address["doc"]) if address["doc"] else None
    if address["doc"] and doc is None:
        unknown = address["doc"][:MOST_REPEATED]
        problems.append(
            f"doc: {chosen.task.title} has no question “{unknown}”. Choose one from the list."
        )
    questions = list_of([chosen], doc, address)
    return {
        "crosstab": chosen.by_question.crosstab,
        "by_question": chosen.by_question,
        "questions": questions,
        "shown": question_of(chosen, questions, doc, address) if doc is not None else None,
        "parts": forest_of_parts(
            parts_of(chosen, comparison.vectors), chosen.task, lineup, address
        ),
        "part": "" if chosen.part is None else address["part"],
        "all_parts_url": address.url("questions", part="", page="", doc=""),
        "all_tasks_url": address.url(
            "questions", task="", part="", show="", sort="size", page="", doc=""
        ),
        "problems_of_questions": problems,
        "has_files": any(chosen.facts),
        "draws": len(chosen.by_question.vectors),
        "run_urls": [run_url(number.run) for number in chosen.numbers],
    }


def _six(query: Query, comparison: Comparison) -> dict[str, Any]:
    page = six(comparison, query)
    return {
        **_shared(query, page.shared),
        "six": page,
        "comparisons": len(comparison.pairs),
        "unaveraged": any(isinstance(pair.result, NoDifference) for pair in comparison.pairs),
        "pins": pins_of(comparison.lineup, None),
        "files": _files(query, None),
    }


# Choosing whom to compare


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
