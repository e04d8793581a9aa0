"""From hidden rows to log-probabilities, without ever holding all logits.

A row of logits is as long as the vocabulary, so logits are made a slab at a time (some rows, and
of a plain linear head some tokens of the vocabulary), and of each slab only the rows' maxima, sums
and the logits asked for are kept. The softmax is taken in float32 whatever the model's precision,
unless a lower one is asked for: lm-evaluation-harness takes it in the precision of the logits, and
who compares with it wants its rounding, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalcore.errors import ModelError
from evalcore.model.base import EncodedRequest, Response

LOGITS_AT_ONCE, LOGITS_AT_ONCE_GPU = 1 << 23, 1 << 26
"""Logits held where a head answers for its whole vocabulary: 32 and 256 MiB in float32."""

SLAB_ROWS, SLAB_LOGITS = 512, 1 << 20
"""On a CPU, of a linear head: rows at once, so that its weights are read seldom, and logits at
once, so that what was just computed is still in the processor's cache when it is read."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model says of the targets of one request."""

    logprobs: tuple[float, ...]
    """Of each target, in nats."""
    is_greedy: bool
    """Whether each target is the likeliest token of all; of equals, the first."""


ScoresByRequest = Iterator[list[tuple[int, Scores]]]
"""In packs as they are computed, each by the index of its request."""


def rows_at_once(vocabulary: int, *, device: str = "cpu") -> int:
    """How many rows of logits a head is asked for that answers for its whole vocabulary.

    `device` is the type of the device that it is on.
    """
    most = LOGITS_AT_ONCE if device == "cpu" else LOGITS_AT_ONCE_GPU
    return max(1, most // vocabulary)


def read(
    hidden: Tensor,
    to_logits: Callable[[Tensor], Tensor],
    rows: NDArray[np.int64],
    targets: NDArray[np.int64],
    *,
    at_once: int,
    softmax: torch.dtype = torch.float32,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Log-probability of each target, and whether it is the likeliest token.

    `hidden` has a row for each position that is read, shape (r, width), and `to_logits` makes
    (k, vocabulary) of k of them, at most `at_once`. Target i is read off row `rows[i]`; a row may
    be read more than once. What `to_logits` gives is overwritten. `softmax` is the precision of the
    log-softmax. Raises ModelError for logits that are not numbers.
    """
    rounded = softmax != torch.float32
    in_slabs = not rounded and hidden.device.type == "cpu" and _is_linear(to_logits)
    step = SLAB_ROWS if in_slabs else at_once
    order = np.argsort(rows, kind="stable")
    sorted_rows, sorted_targets = rows[order], targets[order]
    logprobs, greedy = [], []
    for start in range(0, len(hidden), step):
        first, last = np.searchsorted(sorted_rows, (start, start + step))
        if first == last:
            continue
        chunk = hidden[start : start + step]
        here = sorted_rows[first:last] - start, sorted_targets[first:last]
        if rounded:
            said, likeliest = _rounded(to_logits(chunk), *here, softmax)
            logprobs.append(said)
            greedy.append(likeliest)
            continue
        reading = _Reading(chunk, *here)
        slabs = _slabs(chunk, to_logits) if in_slabs else [(0, to_logits(chunk))]
        for number, (token, logits) in enumerate(slabs):
            reading.take(number, token, logits.float())
        logprobs.append(reading.logprobs)
        greedy.append(reading.greedy)
    answers = np.empty(len(rows), np.float32), np.empty(len(rows), np.bool_)
    if logprobs:
        # One copy to the host for all chunks: on a GPU each waits for all that was asked before.
        answers[0][order] = torch.cat(logprobs).cpu().numpy()
        answers[1][order] = torch.cat(greedy).cpu().numpy()
    check_finite(answers[0])
    return answers


def total_of(logprobs: Sequence[float], softmax: torch.dtype = torch.float32) -> float:
    """The loglikelihood of several targets, in nats: their sum in float64, or as
    lm-evaluation-harness has it in the lower precision of the softmax."""
    if softmax == torch.float32:
        return math.fsum(logprobs)
    return float(torch.tensor(logprobs, dtype=softmax).sum())


def response_of(
    request: EncodedRequest, scores: Scores, softmax: torch.dtype, path: str = "plain"
) -> Response:
    """The answer to a loglikelihood request, computed in the way that `path` names."""
    return Response(
        key=request.key,
        kind="loglikelihood",
        loglikelihood=total_of(scores.logprobs, softmax),
        is_greedy=scores.is_greedy,
        token_ids=request.targets,
        token_logprobs=scores.logprobs,
        n_context_tokens=request.n_context_tokens,
        n_truncated=request.n_truncated,
        path=path,
    )


def _rounded(
    logits: Tensor, rows: NDArray[np.int64], targets: NDArray[np.int64], softmax: torch.dtype
) -> tuple[Tensor, Tensor]:
    """As `read`, from logits (rows, vocabulary), by a log-softmax in lower precision.

    The likeliest token is the first of those whose log-probabilities are equal once rounded, which
    more logits than the highest may be.
    """
    said = torch.log_softmax(logits, dim=-1, dtype=softmax)
    places = torch.from_numpy(rows).to(said.device)
    asked = torch.from_numpy(targets).to(said.device)
    wanted = said[places, asked]
    greedy = torch.zeros(len(rows), dtype=torch.bool, device=said.device)
    reaching = (wanted == said.amax(dim=-1)[places]).nonzero()[:, 0]
    greedy[reaching] = said[places[reaching]].argmax(dim=-1) == asked[reaching]
    return wanted.float(), greedy


def check_finite(logprobs: NDArray[np.float32]) -> None:
    """Raises ModelError for what is not a number: such weights have no score."""
    if not np.isfinite(logprobs).all():
        raise ModelError("the model's output is not a number (NaN or infinity): check its weights")


def _is_linear(head: Callable[[Tensor], Tensor]) -> bool:
    """Whether a head is a matrix product and nothing else, so that it can be asked in parts."""
    return (
        type(head) is torch.nn.Linear
        and type(head.weight.data) is Tensor  # torchao's quantised ones cannot all be cut
        and "forward" not in vars(head)
        and not (head._forward_hooks or head._forward_pre_hooks)
    )


def _slabs(hidden: Tensor, head: Any) -> Iterator[tuple[int, Tensor]]:
    """Logits of all rows for stretches of the vocabulary, each with its first token."""
    width = SLAB_LOGITS // len(hidden)
    for token in range(0, len(head.weight), width):
        some = slice(token, token + width)
        bias = None if head.bias is None else head.bias[some]
        yield token, torch.nn.functional.linear(hidden, head.weight[some], bias)


class _Reading:
    """Targets read off some rows, whose logits come slab by slab (online softmax, as in attention).

    Of equal logits the likeliest is the first in the vocabulary, which is the order of the slabs.
    """

    def __init__(self, hidden: Tensor, rows: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        device = hidden.device
        real = torch.float32  # whatever the program's default is
        self._rows = torch.from_numpy(rows).to(device)
        self._targets = targets
        self._highest = torch.full((len(hidden),), float("-inf"), dtype=real, device=device)
        self._sum = torch.zeros(len(hidden), dtype=real, device=device)
        self._slab_of_highest = torch.zeros(len(hidden), dtype=torch.long, device=device)
        self._wanted = torch.full((len(rows),), float("nan"), dtype=real, device=device)
        self._slab_if_highest = torch.full((len(rows),), -1, dtype=torch.long, device=device)

    def take(self, number: int, token: int, logits: Tensor) -> None:
        """Read slab `number`, of float32 logits (rows, tokens from `token` on), overwriting it."""
        highest = logits.amax(dim=1)
        self._look_up(number, token, logits, highest)
        self._slab_of_highest.masked_fill_(highest > self._highest, number)
        highest = torch.maximum(self._highest, highest)
        # Below all numbers lies only minus infinity, which may fill a slab but not the whole row.
        base = highest.clamp(min=torch.finfo(torch.float32).min)
        self._sum *= (self._highest - base).exp_()
        self._sum += logits.sub_(base[:, None]).exp_().sum(dim=1)
        self._highest = highest

    def _look_up(self, number: int, token: int, logits: Tensor, highest: Tensor) -> None:
        here = (self._targets >= token) & (self._targets < token + logits.shape[1])
        if not here.any():
            return
        index = torch.from_numpy(here.nonzero()[0]).to(logits.device)
        targets = torch.from_numpy(self._targets[here] - token).to(logits.device)
        rows = self._rows[index]
        wanted = logits[rows, targets]
        self._wanted[index] = wanted
        # The place of the maximum costs another pass, and matters only where a target reaches it.
        reaching = (wanted == highest[rows]).nonzero()[:, 0]
        if len(reaching):
            first = logits[rows[reaching]].argmax(dim=1) == targets[reaching]
            self._slab_if_highest[index[reaching[first]]] = number

    @property
    def logprobs(self) -> Tensor:
        """Of each target, shape (targets,)."""
        return self._wanted - (self._highest + self._sum.log())[self._rows]

    @property
    def greedy(self) -> Tensor:
        """Whether each target is the likeliest token of its row, shape (targets,)."""
        return self._slab_if_highest == self._slab_of_highest[self._rows]
