"""Which rows are computed, and which of them together.

Requests that feed the model the same tokens are one row: the four letters of a question differ
only in what is read off the last position. Rows of like length share a batch, longest first, so
that padding is small and the largest batch is tried at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Tokens = tuple[int, ...]
Rows = Sequence[Sequence[int]]
"""The tokens of each of many requests: those that are fed, or those that are scored."""


@dataclass(frozen=True)
class Row:
    """One sequence to feed, and the requests (by index) that are read from it."""

    tokens: Tokens
    requests: tuple[int, ...]


def rows_of(sequences: Rows) -> list[Row]:
    """Distinct token sequences, longest first; equal lengths in order of first appearance."""
    members: dict[Tokens, list[int]] = {}
    for index, tokens in enumerate(sequences):
        members.setdefault(tuple(tokens), []).append(index)
    rows = [Row(tokens, tuple(indexes)) for tokens, indexes in members.items()]
    return sorted(rows, key=lambda row: -len(row.tokens))


def batches_of(
    rows: Sequence[Row], *, budget: int, most_rows: int | None = None
) -> list[list[Row]]:
    """Consecutive rows in batches of at most `budget` tokens, padding included.

    A row longer than the budget is a batch of its own. Raises ValueError for a budget or a number
    of rows below 1.
    """
    if budget < 1 or (most_rows is not None and most_rows < 1):
        raise ValueError(f"budget {budget} and rows {most_rows} must be at least 1")
    batches: list[list[Row]] = []
    for row in rows:
        batch = batches[-1] if batches else []
        longest = len(batch[0].tokens) if batch else 0
        full = most_rows is not None and len(batch) >= most_rows
        if batch and not full and max(longest, len(row.tokens)) * (len(batch) + 1) <= budget:
            batch.append(row)
        else:
            batches.append([row])
    return batches
