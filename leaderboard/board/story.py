"""Why prompt styles matter, told on the first page by two models of the site's own data."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from leaderboard.board.view import View
from leaderboard.board.wanted import Wanted
from leaderboard.models import Suite
from leaderboard.snapshot import EVERY, OWN, Board, Crossing, published


@dataclass(frozen=True)
class Story:
    """`ahead` leads in the first style by `lead`, and trails in the second by `lag`."""

    ahead: str
    behind: str
    title: str
    """Of the benchmark."""
    first: str
    second: str
    lead: float
    lag: float
    url: str


def story_of(suite: Suite, view: View) -> Story | None:
    """On the suite's board as a visitor finds it; None where no two models cross."""
    asked = view.wanted
    if asked != Wanted(suite=asked.suite) or asked.style != OWN:
        return None
    board = published.newest(suite, EVERY)
    if board is None or board.crossing is None:
        return None
    return _told(board, board.crossing, asked.suite)


def _told(board: Board, case: Crossing, suite: str) -> Story | None:
    """None where a recall has taken one of the four scores since."""
    column = board.columns[case.first]
    rows = [board.row_of[variant] for variant in (case.ahead, case.behind)]
    first, second = (board.scores.value[rows, place] for place in (case.first, case.second))
    lead, lag = float(first[0] - first[1]), float(second[1] - second[0])
    if not (lead > 0 and lag > 0):
        return None
    ahead, behind = (board.models[row].repo_id.rpartition("/")[2] for row in rows)
    second_style = board.columns[case.second].style
    order = {"benchmark": column.benchmark, "a": column.style, "b": second_style}
    url = f"{reverse('styles')}?{urlencode({'suite': suite, **order})}"
    return Story(ahead, behind, column.title, column.style, second_style, lead, lag, url)
