"""Whether texts may be written as `continuous.py` writes them: tried on a real prompt of the run.

A prompt, and a second one that branches off it, are read and gone on with, a few tokens each, that
are known beforehand; the log-probabilities on the way must be those of the model's plain forward
pass over the whole. Nothing is concluded from the name of an architecture.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from evalcore.model.faults import set_aside
from evalcore.model.forward.logits import logits_at
from evalcore.model.forward.plain import Rows
from evalcore.model.forward.selfcheck import (
    COPIES,
    Trial,
    coarseness,
    is_half,
    noisy,
    tolerated,
    tried_in_both,
)
from evalcore.model.writing.decoding import Decoder
from evalcore.model.writing.prefilling import Prefill
from evalcore.model.writing.slots import Entry

FORCED = 4
"""Tokens that are gone on with: each is one more forward pass."""

LEAST_LENGTH = 64
"""Tokens of the prompt at least, where it has them."""

MOST_SHARE = 0.002
"""Of the run's tokens, shared or not: a longer part of the prompt is tried where it is no more."""

BORDERS = ("sliding_window", "attention_chunk_size", "original_max_position_embeddings")
"""Lengths in a configuration beyond which a model may compute otherwise."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal(Trial):
    """What was found."""

    length: int
    """In tokens."""
    found_on: str = ""
    """The day of an earlier run on this machine; empty if it was this one."""

    def __str__(self) -> str:
        found = (
            f"at most {self.largest:.1g} nats from the model's own answers to a prompt of "
            f"{self.length} tokens"
        )
        if self.found_on:
            found += f", found on {self.found_on}"
        return f"{found}; not tried in float32: {self.only_rounded}" if self.only_rounded else found


def borders_of(model: Any) -> list[int]:
    """Lengths from which on the model may compute otherwise than before, ascending."""
    config = model.config.get_text_config()
    stated = [config.to_dict(), getattr(config, "rope_parameters", None) or {}]
    found = {where.get(name) for where in stated for name in BORDERS}
    return sorted(length for length in found if isinstance(length, int) and length > 0)


def rehearse(
    model: Any, prompt: Sequence[int], *, through_head: bool, reach: int, n_planned: int
) -> Rehearsal:
    """Tries `prompt`; texts of the run have up to `reach` tokens, all of them `n_planned` together.

    A prompt is repeated where it is shorter than a length that matters. Raises
    torch.OutOfMemoryError.
    """
    left = [border for border in borders_of(model) if border < reach]
    beyond = min(left[-1] + 2 * FORCED, reach) if left else 0
    length = max(
        beyond, min(len(prompt), max(LEAST_LENGTH, int(MOST_SHARE * n_planned))), 2 * FORCED
    )
    tokens = (list(prompt) * (1 + length // len(prompt)))[-length:]
    half = length // 2
    rows = [tokens, tokens[:half] + tokens[: half - 1 : -1]]
    return tried_in_both(model, partial(_tried, model, rows, through_head))


def _tried(model: Any, rows: Rows, through_head: bool, times: int) -> Rehearsal:
    """In the model's present precision, `times` as far off as usual at most."""
    length, is_wide = len(rows[0]), not is_half(model)
    expected = torch.stack([_expected(model, row) for row in rows])
    noise: float | None = None  # asked where it is needed: it is four rows more
    try:
        found = _found(model, rows, through_head)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a model does not bear is a reason to leave it alone
        problem = set_aside("to write continuously", error)
        return Rehearsal(problem=problem, largest=0.0, length=length)
    largest = 0.0
    for (row, place), logprobs in found.items():
        likely = expected[row, place].log_softmax(dim=-1)
        stored = 0.0 if is_wide else coarseness(expected[row, place], model.dtype)
        for token in (rows[row][length - FORCED + place], int(likely.argmax())):
            said, should = float(logprobs[token]), float(likely[token])
            moved = abs(said - should)
            largest = max(largest, moved)
            allowed = max(stored, tolerated(model, should))
            if not moved <= times * allowed:
                noise = _noise(model, rows[0]) if noise is None else noise
                allowed = max(allowed, noisy(model, noise))
            if not moved <= times * allowed:
                problem = f"a log-probability of {should:.4f} became {said:.4f}"
                return Rehearsal(problem=problem, largest=moved, length=length)
    return Rehearsal(problem=None, largest=largest, length=length)


def _found(model: Any, rows: Rows, through_head: bool) -> dict[tuple[int, int], Tensor]:
    """Log-probabilities (vocabulary) by row and place among its last tokens."""
    # The second prompt is one longer, so that the two are in different places all the way.
    lengths = [len(row) - FORCED + number for number, row in enumerate(rows)]
    prompts = [row[:length] for row, length in zip(rows, lengths, strict=True)]
    waiting: deque[Entry] = deque()
    found = {}
    prefill = Prefill(
        model,
        prompts,
        budget=max(1, len(rows[0]) * 2 // 3),  # so that one pack inherits from another
        to_come=[FORCED] * len(rows),
        through_head=through_head,
        least_saved=1,
    )
    for starts, logits in prefill.starts():
        for start, of_start in zip(starts, logits, strict=True):
            index = start.seat.index
            found[index, index] = of_start.float().log_softmax(dim=-1)
            waiting.append(start)
    decoder = Decoder(
        model,
        most_rows=len(rows),
        most_tokens=8 * len(rows[0]),
        reach=8 * len(rows[0]),
        # So that the first text fills its slot with its next token, and goes to a larger one.
        least_own=1 + min(entry.seat.own for entry in waiting),
    )
    decoder.admit(waiting)
    for step in range(FORCED - 1):
        decoder.make_room()
        order = [seat.index for seat in decoder.seats]
        logits = decoder.step([rows[row][lengths[row] + step] for row in order])
        for row, of_row in zip(order, logits, strict=True):
            if (place := row + step + 1) < FORCED:
                found[row, place] = of_row.float().log_softmax(dim=-1)
    return found


@torch.inference_mode()
def _expected(model: Any, row: Sequence[int], *, copies: int = 1) -> Tensor:
    """(FORCED, vocabulary): logits of the model's own plain forward pass over one row, or over
    copies of it, of which these are the first one's."""
    fed = torch.tensor([row] * copies, device=model.device)
    places = torch.arange(len(row) - FORCED - 1, len(row) - 1, device=model.device)
    return logits_at(model, fed, places)[0].float()


def _noise(model: Any, row: Sequence[int]) -> float:
    """How far the model's own answer for a row among copies is from that for it alone."""
    alone, among = (_expected(model, row, copies=n).log_softmax(dim=-1) for n in (1, COPIES))
    likely = alone.argmax(dim=-1, keepdim=True)
    return float((alone.gather(1, likely) - among.gather(1, likely)).abs().max())
