"""The second figures of a page of the board: each column without its disputed questions.

They stand beside the first in small letters and rank nothing. Boards of past days and scores from
chance are without them: what is disputed now says nothing of then, and a second figure is as
measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from leaderboard.board.cells import Cells
from leaderboard.board.view import View
from leaderboard.board.wanted import CHANCE
from leaderboard.disputed import Seconds, mark, of_board
from leaderboard.templatetags.figures import exactly, plural


def seconds_of(view: View, rows: Sequence[int]) -> dict[int, Seconds]:
    """By column of the board; one query where nothing is disputed."""
    if view.wanted.moment or view.scale == CHANCE:
        return {}
    return of_board(view.board, rows, view.columns)


def with_seconds(
    cells: Cells, seconds: Seconds, rows: Sequence[int], metric: str, *, wide: bool
) -> Cells:
    """The column with its second figures; of a wide table only where one points at a number."""
    titles, written = list(cells.title), list(cells.second)
    for place, row in enumerate(rows):
        if (second := seconds.of_rows.get(row)) is None or place in cells.missing:
            continue
        words = f"without {plural(second.removed, 'disputed question')}"
        titles[place] += f"; {words} {exactly(second.score)}"
        if not wide:
            written[place] = mark(second, metric)
    return cells._replace(title=titles, second=written)
