"""Short addresses of runs, for tables that have thousands of them: by model and column."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board.columns import column_keys
from leaderboard.board.view import chosen_board
from leaderboard.board.wanted import Wanted
from leaderboard.catalogue.suites import newest_suite


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
