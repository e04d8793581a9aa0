"""The board: every model of a suite in one prompt style, as the newest snapshot has it."""

from __future__ import annotations

from datetime import date

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board import frame
from leaderboard.board.picture import headline, picture_url
from leaderboard.board.story import story_of
from leaderboard.board.table import dress
from leaderboard.board.view import chosen_board, view_of
from leaderboard.board.wanted import Wanted, column_keys
from leaderboard.catalogue import among, every_suite, newest_suite
from leaderboard.models import Suite
from leaderboard.snapshot import Board, published
from leaderboard.web import kept


@require_safe
def board(request: HttpRequest) -> HttpResponseBase:
    """Filtered, sorted and paged by the address alone."""
    wanted = Wanted.of(request)
    return kept.answer(
        request, lambda: published.edition(wanted.suite), lambda: _page(request, wanted)
    )


def _page(request: HttpRequest, wanted: Wanted) -> str | HttpResponseBase:
    suites = every_suite()
    suite = among(suites, wanted.suite)
    if suite is None:
        return _without_suite(request, wanted)
    found, first_day = _found(suite, wanted)
    if found is None:
        return _without_board(request, wanted, suite)
    shown = view_of(found, wanted)
    if redirect := shown.wanted.redirect(request):
        return redirect
    context = frame.context(shown, dress(shown), suite, suites, first_day)
    context |= {
        "picture_url": picture_url(suite, shown.wanted),
        "share_title": headline(shown),
        "story": story_of(suite, shown),
    }
    return render_to_string("board/page.html", context, request)


def _found(suite: Suite, wanted: Wanted) -> tuple[Board | None, date | None]:
    """The board that is asked for, and the first day that has one."""
    if wanted.moment:
        return chosen_board(suite, wanted), published.first_day(suite, wanted.style)
    return published.newest_and_first_day(suite, wanted.style)


def _without_suite(request: HttpRequest, wanted: Wanted) -> HttpResponse:
    if wanted.suite != settings.PLUMBLINE_SUITE:
        raise Http404(f"no suite {wanted.suite}")
    return render(request, "board/without_suite.html", {"suite_name": wanted.suite})


def _without_board(request: HttpRequest, wanted: Wanted, suite: Suite) -> HttpResponseBase:
    """No snapshot: it is being built, the day was too early, or nothing is asked in this style."""
    if redirect := wanted.redirect(request):
        return redirect
    context = {
        "suite": suite,
        "style": frame.style_label(wanted.style),
        "asked": wanted.style in published.styles_of(suite),
        "first_day": published.first_day(suite, wanted.style) if wanted.moment else None,
        "at": wanted.at if wanted.moment else "",
        "now_url": wanted.url(at=""),
        "own_url": wanted.url(style="own", sort="average", cols="", at=""),
    }
    return render(request, "board/without_snapshot.html", context)


@require_safe
def cell(request: HttpRequest, variant: int, column: str) -> HttpResponseRedirect:
    """To the run behind a variant’s number in a column of the board that the query asks for."""
    wanted = Wanted.of(request)
    suite = newest_suite(wanted.suite)
    board = chosen_board(suite, wanted) if suite else None
    if board is None:
        raise Http404(f"no board {wanted.suite}")
    row, keys = board.row_of.get(variant), column_keys(board)
    run = board.run_id(row, keys.index(column)) if row is not None and column in keys else None
    if run is None:
        raise Http404(f"no run of {variant} in {column}")
    return HttpResponseRedirect(reverse("run", args=[run]))
