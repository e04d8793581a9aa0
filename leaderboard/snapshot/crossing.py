"""The clearest case of a model that leads another in one style and trails it in the other.

Kept with the board of every style, for the first page that a visitor sees. Intervals are widened
until those of all models in all styles hold together (Bonferroni), for the case is picked from all
of them: both leads are right in 95 of 100 such boards.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from leaderboard.models.task import is_share
from leaderboard.snapshot.data import Board, Crossing
from leaderboard.snapshot.style_facts import in_styles
from leaderboard.stats import held_together

FARTHEST = 50
"""Models at each end of what a change of style does: a pair is one of either end."""


def clearest(board: Board) -> Crossing | None:
    """That of which the smaller of both leads is largest; None where no two models cross."""
    several = [places for _, places in in_styles(board)]
    columns = [
        place for places in several for place in places if is_share(board.columns[place].metric)
    ]
    rows = board.comparable_rows
    if not columns or not len(rows):
        return None
    scores = [side[rows][:, columns] for side in board.scores.sides]
    low, high = (side.reshape(-1, len(columns)) for side in held_together(*map(np.ravel, scores)))
    at = {place: number for number, place in enumerate(columns)}
    best: tuple[float, Crossing] | None = None
    for places in several:
        for first, second in permutations([place for place in places if place in at], 2):
            one, other = at[first], at[second]
            moved = scores[0][:, other] - scores[0][:, one]
            order = np.argsort(moved, kind="stable")
            order = order[~np.isnan(moved[order])]
            falls, rises = order[:FARTHEST], order[::-1][:FARTHEST]
            # Of each model that falls and each that rises how far apart the intervals lie.
            ahead = low[falls, one][:, None] - high[rises, one]
            behind = low[rises, other] - high[falls, other][:, None]
            apart = np.minimum(ahead, behind)
            place = int(np.argmax(apart)) if apart.size else 0
            if not apart.size or apart.flat[place] <= 0:
                continue
            fall, rise = (int(chosen) for chosen in np.unravel_index(place, apart.shape))
            variants = (board.models[int(rows[end])].variant for end in (falls[fall], rises[rise]))
            case = Crossing(first, second, *variants)
            if best is None or apart.flat[place] > best[0]:
                best = float(apart.flat[place]), case
    return best[1] if best else None
