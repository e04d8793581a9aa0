"""Second figures in the board's files: four fields more of each column with disputed questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from leaderboard.board.view import View
from leaderboard.disputed import Seconds

SIDES = ("value", "low", "high", "n")


def details(found: Mapping[int, Seconds]) -> dict[str, Any]:
    """How many questions are disputed, and what moves on with every second figure."""
    if not found:
        return {}
    return {
        "disputed_questions": {found[place].task: found[place].removed for place in sorted(found)},
        "second_figures": sorted(found[place].known for place in found),
    }


def of_rows(
    seen: View,
    found: Mapping[int, Seconds],
    rows: Sequence[int],
    name: Callable[[View, int], str],
) -> dict[str, pa.Array]:
    """Value, bounds and questions that are left; empty where there is no second figure.

    `found` is of the whole file, so that all its batches have the same fields.
    """
    fields = {}
    for place in sorted(found):
        cells = found[place].of_rows
        scores = [cells[row].score if row in cells else None for row in rows]
        for side in SIDES:
            ending = "" if side == "value" else f".{side}"
            values = [None if score is None else getattr(score, side) for score in scores]
            kind = pa.int64() if side == "n" else pa.float64()
            fields[f"{name(seen, place)}.without_disputed{ending}"] = pa.array(values, kind)
    return fields
