"""Every distinct row fed whole, rows of like length together: what any causal model can do.

Requests that feed the model the same tokens are one row: the four letters of a question differ
only in what is read off the last position. Rows of like length share a batch, longest first, so
that padding is small and the largest batch is tried at once.

One forward pass a batch over right-padded rows without an attention mask: what lies to the right of
a position cannot reach it. Logits are asked for only where a target is scored; of a single row with
too many of them, some at a time (`long_rows.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalcore.errors import ModelError
from evalcore.model.forward.head import Scores, ScoresByRequest, read, rows_at_once
from evalcore.model.forward.logits import logits_at
from evalcore.model.forward.long_rows import LongRows
from evalcore.model.forward.memory import end_where_divided

Tokens = tuple[int, ...]
Rows = Sequence[Sequence[int]]
"""The tokens of each of many requests: those that are fed, or those that are scored."""

LOGITS_CPU, LOGITS = 1 << 24, 1 << 25
"""Logits that are held at once on a CPU and on an accelerator: 64 and 128 MiB in
float32, and as much again while they are read. A single row may need more."""


def logits_per_batch(device: torch.device) -> int:
    return LOGITS_CPU if device.type == "cpu" else LOGITS


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


@dataclass(frozen=True)
class PlainPath:
    """Scores targets after what is fed, in batches of at most `batch_size` rows."""

    model: Any
    batch_size: int | None = None
    softmax: torch.dtype = torch.float32
    in_parts: bool = True
    """Whether logits of a single row may be made some at a time, where that gives the same."""

    def scores(self, sequences: Rows, targets: Rows, *, budget: int) -> ScoresByRequest:
        """Scores of each request by its index, a batch of at most `budget` padded tokens at a time.

        Request i feeds `sequences[i]`, whose last positions predict `targets[i]`. Raises ModelError
        for one row that does not fit the memory, torch.OutOfMemoryError for several.
        """
        for batch in batches_of(rows_of(sequences), budget=budget, most_rows=self.batch_size):
            for part in self._parts(batch, targets):
                try:
                    scored = self._scores(part, targets)
                except torch.OutOfMemoryError as problem:
                    end_where_divided(problem)
                    if len(part) > 1:
                        raise
                    raise ModelError(f"out of memory on {self.model.device}: {problem}") from None
                yield scored

    def _parts(self, batch: Sequence[Row], targets: Rows) -> Iterator[Sequence[Row]]:
        """The batch, halved until its logits are few enough."""
        if len(batch) == 1 or self._n_logits(batch, targets) <= self._at_once:
            yield batch
            return
        for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
            yield from self._parts(half, targets)

    @torch.inference_mode()
    def _scores(self, batch: Sequence[Row], targets: Rows) -> list[tuple[int, Scores]]:
        width = max(len(row.tokens) for row in batch)
        padded = [row.tokens + (0,) * (width - len(row.tokens)) for row in batch]
        columns = _columns(batch, targets)
        device = self.model.device
        tokens, places = (torch.tensor(of, device=device) for of in (padded, columns))
        column_of = {place: column for column, place in enumerate(columns)}
        asked = [
            (request, line * len(columns) + column_of[place], token)
            for line, row in enumerate(batch)
            for request in row.requests
            for place, token in zip(_places(row, targets[request]), targets[request], strict=True)
        ]
        if self.in_parts and len(batch) == 1 and self._n_logits(batch, targets) > self._at_once:
            table = np.array(asked, np.int64)
            if found := self._long_rows.read(tokens, places, table[:, 1], table[:, 2]):
                return _by_request(table, *found)
        logits = logits_at(self.model, tokens, places)
        return scores_of(logits.flatten(0, 1), asked, softmax=self.softmax)

    def _n_logits(self, batch: Sequence[Row], targets: Rows) -> int:
        vocabulary = len(self.model.get_input_embeddings().weight)
        return len(batch) * len(_columns(batch, targets)) * vocabulary

    @property
    def _at_once(self) -> int:
        return logits_per_batch(self.model.device)

    @cached_property
    def _long_rows(self) -> LongRows:
        return LongRows(self.model, self.softmax)


def scores_of(
    logits: Tensor,
    asked: Sequence[tuple[int, int, int]],
    *,
    softmax: torch.dtype = torch.float32,
) -> list[tuple[int, Scores]]:
    """Scores of each request from (request, row of `logits`, target), a request's in a row.

    `logits` has shape (rows, vocabulary), and `softmax` is the precision of the log-softmax. Raises
    ModelError for logits that are not numbers.
    """
    table = np.array(asked, np.int64)
    needed, rows = np.unique(table[:, 1], return_inverse=True)
    # Rows are picked a chunk at a time: a copy of all of them could be as large as the logits.
    logprobs, greedy = read(
        torch.from_numpy(needed).to(logits.device),
        lambda chosen: logits[chosen],
        rows,
        table[:, 2],
        at_once=rows_at_once(logits.shape[-1]),
        softmax=softmax,
    )
    return _by_request(table, logprobs, greedy)


def _by_request(
    table: NDArray[np.int64], logprobs: NDArray[np.float32], greedy: NDArray[np.bool_]
) -> list[tuple[int, Scores]]:
    """What was read for each line of a table whose first column is the request."""
    borders = [0, *(np.flatnonzero(np.diff(table[:, 0])) + 1).tolist(), len(table)]
    return [
        (int(table[i, 0]), Scores(tuple(logprobs[i:j].tolist()), bool(greedy[i:j].all())))
        for i, j in pairwise(borders)
    ]


def _columns(batch: Sequence[Row], targets: Rows) -> list[int]:
    """The positions that any row of the batch is scored at."""
    return sorted(
        {
            place
            for row in batch
            for request in row.requests
            for place in _places(row, targets[request])
        }
    )


def _places(row: Row, targets: Sequence[int]) -> range:
    """Positions of the row whose logits predict the targets."""
    return range(len(row.tokens) - len(targets), len(row.tokens))
