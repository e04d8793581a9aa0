"""The few of a run's own requests by which a path is checked, and what the model says of them.

Short made-up probes miss what matters: a window that only long rows leave, an embedding of
positions that changes with length, a memory that is wrong from the second token on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evalcore.model.head import Scores
from evalcore.model.plain import PlainPath, logits_at, scores_of
from evalcore.model.prefix import plan
from evalcore.model.shared import families_of

Tokens = tuple[int, ...]

SIBLINGS = 3
"""Requests of a group: two that branch off one another, and a third beside them."""

END = 64
"""Tokens that are left of a context where its length is of no concern, and targets of any probe."""

BRANCH = 8
"""Tokens of a branch that is made up."""

TOLERANCE, TOLERANCE_HALF = (1e-4, 1e-6), (0.02, 1e-3)
"""Nats by which a loglikelihood may move, and that share of it; and in half precision."""

COPIES, TIMES_NOISE = 4, 3
"""In half precision, three times what a batch of four copies differs by from one is no mistake."""

TIMES_ROUNDING = 2
"""Nor are two steps between neighbouring numbers at a logit: at 20 in bfloat16 one is 0.125."""


@dataclass(frozen=True)
class Probes:
    """Requests of the run, some of which share their beginning."""

    sequences: tuple[Tokens, ...]
    targets: tuple[Tokens, ...]

    @property
    def n_tokens(self) -> int:
        """What it costs to feed them one by one."""
        return sum(map(len, self.sequences))

    @property
    def n_unique(self) -> int:
        """What it costs to feed each of their tokens once."""
        return plan(self.sequences, list(map(len, self.targets)), budget=self.n_tokens).n_unique


def probes_of(sequences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Probes:
    """The longest request, and the one that begins most like it, for what depends on length. Of a
    group after one context, of the request with most targets and of the shortest the ends.

    Where no context has two continuations a branch is made up, for a run that has may follow.
    """
    found = dict.fromkeys(_probes(sequences, targets))
    return Probes(tuple(fed for fed, _ in found), tuple(asked for _, asked in found))


def _probes(
    sequences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> Iterator[tuple[Tokens, Tokens]]:
    def whole(one: int) -> tuple[Tokens, Tokens]:
        return tuple(sequences[one]), tuple(targets[one][-END:])

    def end(one: int) -> tuple[Tokens, Tokens]:
        fed, asked = whole(one)
        return fed[-(END + len(asked)) :], asked

    requests = range(len(sequences))
    longest = max(requests, key=lambda one: len(sequences[one]))
    yield whole(longest)
    alike = _most_alike(sequences, longest)
    if alike is not None:
        yield whole(alike)
    shortest = min(requests, key=lambda one: len(sequences[one]))
    groups = [
        [members[0] for fed, members in family.fed.items() if fed]
        for family in families_of(sequences, list(map(len, targets))).values()
        if len(family.fed) > 1
    ]
    if groups:
        group = max(groups, key=lambda group: max(len(sequences[one]) for one in group))
        yield from map(end, group[:SIBLINGS])
        # A memory may be wrong only from some token on.
        yield end(
            max((one for group in groups for one in group), key=lambda one: len(targets[one]))
        )
    else:
        fed, asked = end(longest)
        yield fed, asked
        yield fed[: (len(fed) + 1) // 2] + tuple(sequences[shortest][-BRANCH:]), asked[-1:]
    yield end(shortest)


def _most_alike(sequences: Sequence[Sequence[int]], one: int) -> int | None:
    """The request that shares most of its beginning with this one, and is not equal to it."""
    whole, best, shared = tuple(sequences[one]), None, 0
    for other, sequence in enumerate(sequences):
        if shared and (len(sequence) < shared or sequence[shared - 1] != whole[shared - 1]):
            continue
        common = _common(whole, tuple(sequence), shared)
        if common > shared and tuple(sequence) != whole:
            best, shared = other, common
    return best


def _common(one: Tokens, other: Tokens, least: int) -> int:
    """Tokens that both begin with; 0 if these are fewer than `least`."""
    if one[:least] != other[:least]:
        return 0
    length = min(len(one), len(other))
    return next((place for place in range(least, length) if one[place] != other[place]), length)


class Reference:
    """What the model itself says of the probes one by one, and how far an answer may be from it."""

    def __init__(self, model: Any, probes: Probes) -> None:
        self._half = model.dtype != torch.float32 and model.dtype != torch.float64
        alone = PlainPath(model, batch_size=1)
        self._scores = dict(
            pair
            for pack in alone.scores(probes.sequences, probes.targets, budget=1)
            for pair in pack
        )
        self._allowance = 0.0
        if self._half:
            self._allowance = self._allowance_of(model, probes)

    def _allowance_of(self, model: Any, probes: Probes) -> float:
        """Nats by which half precision itself moves a loglikelihood: what copies of the longest
        probe in one batch do to it, and how coarsely its logits are stored."""
        place = max(range(len(probes.sequences)), key=lambda one: len(probes.sequences[one]))
        fed, targets = probes.sequences[place], probes.targets[place]
        rows = torch.tensor([fed] * COPIES, device=model.device)
        places = torch.arange(len(fed) - len(targets), len(fed), device=model.device)
        with torch.inference_mode():
            logits = logits_at(model, rows, places).flatten(0, 1)
        asked = [
            (copy, copy * len(targets) + column, token)
            for copy in range(COPIES)
            for column, token in enumerate(targets)
        ]
        alone = _total(self._scores[place])
        noise = max(abs(_total(one) - alone) for _, one in scores_of(logits, asked))
        largest = max(abs(float(logits[row, token])) for _, row, token in asked)
        rounding = torch.finfo(model.dtype).eps * largest
        return max(TIMES_NOISE * noise, TIMES_ROUNDING * rounding)

    def difference(self, found: dict[int, Scores]) -> tuple[float, str | None]:
        """The largest difference in loglikelihood, and what is wrong with these answers if any is.

        Greedy flags are not held against a path: where two tokens are nearly as likely, rounding
        decides.
        """
        largest = 0.0
        share, base = (TOLERANCE_HALF if self._half else TOLERANCE)[::-1]
        for probe, expected in self._scores.items():
            if probe not in found:
                return largest, "it left a request without an answer"
            total = _total(expected)
            moved = abs(_total(found[probe]) - total)
            largest = max(largest, moved)
            if not moved <= max(self._allowance, base + share * abs(total)):
                return moved, f"a loglikelihood of {total:.4f} became {_total(found[probe]):.4f}"
        return largest, None


def _total(scores: Scores) -> float:
    return float(sum(scores.logprobs))
