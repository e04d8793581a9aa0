"""Two to six models, question by question: asked alike, who is ahead, and where they part."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board import Wanted, chosen_board, column_keys
from leaderboard.catalogue import suite_asked_for
from leaderboard.compare import chosen as compare_chosen
from leaderboard.compare import models as compare_models
from leaderboard.compare import models as compare_runs
from leaderboard.compare import picker as compare_picker
from leaderboard.compare import pins as compare_pins
from leaderboard.compare import words
from leaderboard.compare.chosen import Problem
from leaderboard.compare.detail import detail
from leaderboard.compare.differences import Compared
from leaderboard.compare.differences import compare as differences
from leaderboard.compare.lineup import Lineup, Task
from leaderboard.compare.pair import Difference
from leaderboard.compare.picker import Picker
from leaderboard.compare.question_list import SHOWN, SORTS
from leaderboard.compare.table import table
from leaderboard.models import Suite
from leaderboard.models import edition as editions
from leaderboard.models.task import Style
from leaderboard.snapshot import EVERY, OWN, Board
from leaderboard.web import Address, kept

JOINED = {"m": ",", "run": ","}
FIELDS = ("suite", "style", "at", "m", "run", "base")
"""What of the address says who is compared; the rest chooses what of it is shown."""
ALLOWED: dict[str, Collection[str]] = {
    "style": (OWN, *Style.values, EVERY),
    "spaces": ("", "1"),
    "show": SHOWN,
    "sort": SORTS,
}
"""What some fields may say."""


@dataclass(frozen=True)
class Request:
    """What an address asks to compare, resolved; `lineup` is None for fewer than two."""

    lineup: Lineup | None
    base: int
    problems: list[Problem]
    picker: Picker | None
    suite: Suite | None
    board: Board | None
    chosen: list[tuple[str, str]]
    """Of a single model or run: its ID and the address without it."""


def fields() -> dict[str, str]:
    """The page's state in the address, each field with what it says when it is not there."""
    return {
        "suite": settings.PLUMBLINE_SUITE,
        "style": OWN,
        "at": "",
        "m": "",
        "run": "",
        "base": "",
        "vs": "",
        "task": "",
        "part": "",
        "show": "all",
        "sort": "size",
        "page": "",
        "doc": "",
        "spaces": "",
        "q": "",
    }


@require_safe
def compare(request: HttpRequest) -> HttpResponseBase:
    address = Address(request, fields(), JOINED)
    return kept.answer(request, editions.now, lambda: _answer(request, address))


def _answer(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    asked = read(address)
    if asked.picker and asked.picker.exact:
        return HttpResponseRedirect(asked.picker.exact)
    if asked.lineup is None:
        context = _surroundings(asked, address)
        return address.redirect() or render_to_string("compare/pick.html", context, request)
    context = _page(differences(asked.lineup, asked.base), asked, address)
    if redirect := address.redirect():
        return redirect
    return kept.Unlisted(render_to_string("compare/page.html", context, request))


def read(address: Address) -> Request:
    """Whom the address asks for. Raises Http404 for a suite that does not exist."""
    for name, allowed in ALLOWED.items():
        address.choice(name, allowed)
    return _runs(address) if address["run"] else _models(address)


def _runs(address: Address) -> Request:
    names = address["run"].split(",")
    runs, problems = compare_chosen.runs(names, address["base"])
    if address["m"]:
        problems.append(Problem("Both m and run are asked for; the runs are compared."))
    base = _base([str(run.pk) for run in runs], address)
    return Request(
        lineup=compare_runs.lineup_of_runs(runs, base) if len(runs) > 1 else None,
        base=base,
        problems=problems,
        picker=compare_picker.of_runs(runs, address),
        suite=None,
        board=None,
        chosen=[(run.variant.hub_model.repo_id, address.url(run="", base="")) for run in runs],
    )


def _models(address: Address) -> Request:
    suite = suite_asked_for(address["suite"])
    wanted = Wanted(style=address["style"], at=address["at"])
    board = chosen_board(suite, wanted) if suite else None
    names = [name for name in address["m"].split(",") if name]
    if board is None:
        return Request(None, 0, [], None, suite, None, [])
    rows, problems = compare_chosen.models(names, board)
    if address["at"] and not wanted.moment:
        problems.append(Problem(f"“{address['at'][:20]}” is no date. Write it as 2026-01-31."))
    base = _base([str(board.models[row].variant) for row in rows], address)
    return Request(
        lineup=compare_models.lineup(board, column_keys(board), rows) if len(rows) > 1 else None,
        base=base,
        problems=problems,
        picker=compare_picker.of_models(board, rows, address),
        suite=suite,
        board=board,
        chosen=[(board.models[row].repo_id, address.url(m="", base="")) for row in rows],
    )


def _base(keys: list[str], address: Address) -> int:
    """The place of the baseline; the first where the address names none of them."""
    found = address.choice("base", keys[1:])  # the first needs no mention
    return keys.index(found) if found else 0


def _page(compared: Compared, asked: Request, address: Address) -> dict[str, Any]:
    lineup = compared.lineup
    vs = _vs(compared, address)
    task = _task(lineup, address)
    named, here = task is not None, address
    if task is None and (task := _farthest(compared, vs)):
        # Its links name it: another one may lie farthest apart when they are followed.
        here = address.at(task=task.key)
    pins = compare_pins.pins(lineup, compare_pins.runs_of(lineup.tasks), task)
    return {
        **_surroundings(asked, address),
        "lineup": lineup,
        "compared_names": _names(lineup),
        "several": len(lineup.sides) > 2,
        "sides": _sides(compared, address),
        "compared": compared,
        "pins": pins,
        "asked_alike": words.asked_alike(pins, len(lineup.sides)),
        "verdict": words.verdict(compared),
        "beats": [text for pair in compared.against for text in words.beats(compared, pair)],
        "table": table(compared, address, task, vs),
        "task": task,
        "named": named,
        "detail": detail(compared, task, vs, here) if task else None,
        "vs": lineup.sides[vs],
        "downloads": _downloads(address),
        "share_title": words.headline(compared),
        "picture_url": f"{reverse('compare-picture')}?{urlencode(_given(address, *FIELDS))}",
        "picture_alt": f"{words.headline(compared)}; the differences with their 95% intervals",
    }


def _surroundings(asked: Request, address: Address) -> dict[str, Any]:
    board = asked.board
    return {
        "address": address,
        "problems": asked.problems,
        "picker": asked.picker,
        "suite": asked.suite,
        "board": board,
        "style_label": Style(board.style).label if board and board.style in Style.values else "",
        "at": address["at"],
        "chosen": asked.chosen,
        "board_query": urlencode(_given(address, "suite", "style", "at")),
        "carried": _given(address, *FIELDS),
    }


def _given(address: Address, *names: str) -> list[tuple[str, str]]:
    """Those of the fields that are not as usual."""
    return [(name, address[name]) for name in names if address[name] != fields()[name]]


def _names(lineup: Lineup) -> str:
    first, *others = (side.name for side in lineup.sides)
    if len(others) == 1:
        return f"{first} and {others[0]}"
    return f"{first} and {len(others)} others"


def _task(lineup: Lineup, address: Address) -> Task | None:
    """The task shown in detail: the one asked for, or the only one."""
    if len(lineup.tasks) == 1:
        address.choice("task", ())  # the only one needs no mention
        return lineup.tasks[0]
    key = address.choice("task", [task.key for task in lineup.tasks])
    return next((task for task in lineup.tasks if task.key == key), None)


def _farthest(compared: Compared, vs: int) -> Task | None:
    """The task on which the baseline and the side `vs` lie farthest apart, question by question."""
    found = [
        (abs(one.value), task)
        for task, one in zip(compared.lineup.tasks, compared.of(vs).by_task, strict=True)
        if isinstance(one, Difference) and one.questions and task.drawn_to_scale
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _vs(compared: Compared, address: Address) -> int:
    """The side that is shown beside the baseline in detail."""
    sides = compared.lineup.sides
    others = [pair.side for pair in compared.against]
    key = address.choice("vs", [sides[place].key for place in others[1:]])
    return compared.lineup.place(key) if key else others[0]


def _sides(compared: Compared, address: Address) -> list[dict[str, Any]]:
    """Each of those compared, with the addresses that make it the baseline or take it out."""
    lineup, field = compared.lineup, "run" if address["run"] else "m"
    keys = [side.key for side in lineup.sides]
    return [
        {
            "side": side,
            "is_base": place == compared.base,
            "base_url": address.url(base=side.key if place else "", vs="", page="", doc=""),
            "without_url": address.url(
                **{field: ",".join(key for key in keys if key != side.key)},
                base="" if place == compared.base else address["base"],
                vs="",
                page="",
                doc="",
            ),
        }
        for place, side in enumerate(lineup.sides)
    ]


def _downloads(address: Address) -> list[tuple[str, str]]:
    """The comparison by question as files: of the shown task, else of all."""
    short = address.url(
        part="", show="all", sort="size", page="", doc="", spaces="", q="", base="", vs=""
    )
    query = short.partition("?")[2]
    return [
        (label, f"{reverse(f'compare-{label.lower()}')}?{query}")
        for label in ("CSV", "JSON", "Parquet")
    ]
