"""Which of the columns shown are to be read with care, and why: a line of the board's legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.board.table import Head
from leaderboard.models import ItemAnalysis
from leaderboard.models.vector import CEILING, KEYS, NOISE

WORDS = {
    NOISE: "models of like size hardly differ beyond noise",
    CEILING: "its best models are at the ceiling",
    KEYS: "many keys are likely wrong",
}


@dataclass(frozen=True)
class Warned:
    title: str
    style: str
    url: str
    """Of the figures behind it."""
    why: str


def warned(heads: Sequence[Head]) -> list[Warned]:
    """By the newest analysis of each column; one query for all of them."""
    columns = [head.column for head in heads if head.column]
    keys = {column.comparability_key for column in columns} - {""}
    rows = ItemAnalysis.objects.filter(comparability_key__in=keys).exclude(marks=[])
    marks = dict(rows.order_by("built", "pk").values_list("comparability_key", "marks"))
    return [
        Warned(
            head.label,
            head.column.style,
            f"{head.task_url}#health",
            "; ".join(WORDS[mark] for mark in marks[head.column.comparability_key]),
        )
        for head in heads
        if head.column and head.column.comparability_key in marks
    ]
