"""Second figures in the board's files: four fields more of each column with disputed questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from leaderboard.board.second import seconds_of
from leaderboard.board.view import View

SIDES = ("value", "low", "high", "n")


def disputed(seen: View) -> list[int]:
    """The columns that have them, whatever the rows: all batches have the same fields."""
    return sorted(seconds_of(seen, []))


def details(seen: View) -> dict[str, Any]:
    """How many questions are disputed, and what moves on with every second figure."""
    found = seconds_of(seen, [])
    if not found:
        return {}
    return {
        "disputed_questions": {found[place].task: found[place].removed for place in sorted(found)},
        "second_figures": sorted(found[place].known for place in found),
    }


def of_rows(
    seen: View, columns: Sequence[int], rows: Sequence[int], name: Callable[[View, int], str]
) -> dict[str, pa.Array]:
    """Value, bounds and questions that are left; empty where there is no second figure."""
    if not columns:
        return {}
    found, fields = seconds_of(seen, rows), {}
    for place in columns:
        cells = found[place].of_rows if place in found else {}
        scores = [cells[row].score if row in cells else None for row in rows]
        for side in SIDES:
            ending = "" if side == "value" else f".{side}"
            values = [None if score is None else getattr(score, side) for score in scores]
            kind = pa.int64() if side == "n" else pa.float64()
            fields[f"{name(seen, place)}.without_disputed{ending}"] = pa.array(values, kind)
    return fields
