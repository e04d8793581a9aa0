"""Stops and draws inside the `generate` of transformers, each row of a batch for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    StoppingCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)
from transformers.generation.logits_process import TopHLogitsWarper

from evalcore.model.forward.head import check_finite
from evalcore.model.writing.ending import StopRule
from evalcore.model.writing.generation import Plan

TOP_K = 50
"""What transformers draws from where neither the task nor the model says."""


class StopAt(StoppingCriteria):
    """Ends each row once a stop of the plan is in the text of its last tokens."""

    def __init__(
        self, tokenizer: Any, plan: Plan, *, width: int, beams: int, unsearched: Sequence[int]
    ) -> None:
        """`width`: positions of the prompt, in which nothing is looked for, nor in as many tokens
        of each answer as `unsearched` says."""
        self._rule = StopRule(tokenizer, plan)
        self._width = width
        self._unsearched = list(unsearched)
        self._beams = beams > 1
        # compat looks for stops at the first beam only.
        self._first_beam_decides = self._beams and plan.mode == "compat"
        self.ended: dict[int, int] = {}
        """By row: how many tokens were generated when its stop came."""

    def __call__(self, input_ids: Tensor, scores: Any, **_options: Any) -> Tensor:  # noqa: ARG002
        new = input_ids[:, self._width :].tolist()
        if self._beams and not self._first_beam_decides:
            # Beams change places: nothing is kept. Of each request there are more than go on.
            each = len(new) // len(self._unsearched)
            done = [self._stops_now(row // each, tokens) for row, tokens in enumerate(new)]
        else:
            for place, row in enumerate(new[:1] if self._first_beam_decides else new):
                if place not in self.ended and self._stops_now(place, row):
                    self.ended[place] = len(row)
            done = [place in self.ended for place in range(len(new))]
            if self._first_beam_decides:
                done = done[:1] * len(new)
        return torch.tensor(done, device=input_ids.device)

    def _stops_now(self, place: int, row: Sequence[int]) -> bool:
        answer = self._rule.answer_from(row)
        if answer is None:
            return False
        searched = row[max(answer, self._unsearched[place]) :]
        if self._rule.thinks_until is not None and not searched:
            return False  # an empty stop waits for the answer's first token, too
        return self._rule.stops_now(searched)


class OnlyNumbers(LogitsProcessor):
    """Raises ModelError for a row that has no likeliest token."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002
        likeliest(scores)
        return scores


def likeliest(logits: Tensor) -> Tensor:
    """The likeliest token of each row of (rows, vocabulary); shape (rows,).

    Raises ModelError for logits that are no numbers, of which a text of one token would be made.
    """
    chosen = logits.argmax(dim=-1)
    check_finite(logits.gather(1, chosen[:, None]).float().cpu().numpy())
    return chosen


class SeededDraw(LogitsProcessor):
    """Leaves each row one possible token: drawn from its distribution by a generator of its own.

    What a row draws depends on its seed and its logits alone, not on the batch, its place in it or
    the device.
    """

    def __init__(self, seeds: Sequence[int], warpers: LogitsProcessorList) -> None:
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._warpers = warpers

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002
        chosen = drawn(scores, self._generators, self._warpers)
        return torch.full_like(scores, -torch.inf).scatter(1, chosen[:, None], 0.0)


def drawn(
    scores: Tensor, generators: Sequence[torch.Generator], warpers: LogitsProcessorList
) -> Tensor:
    """A token for each row of `scores` (rows, vocabulary), by that row's generator; shape (rows,).

    The warpers look at no token before: those of `warpers_of` do not.
    """
    nothing_before = torch.empty((len(scores), 0), dtype=torch.long, device=scores.device)
    warped: Tensor = warpers(nothing_before, scores)  # type: ignore[arg-type]
    shares = torch.softmax(warped.double(), dim=-1).cumsum(dim=-1)
    draws = [torch.rand(1, generator=generator, dtype=torch.float64) for generator in generators]
    # A share can end below 1 by rounding: the draw is of what there is.
    places = torch.stack(draws).to(shares.device) * shares[:, -1:]
    chosen = torch.searchsorted(shares, places, right=True).clamp(max=shares.shape[1] - 1)
    return chosen[:, 0]


def warpers_of(arguments: Mapping[str, Any], device: torch.device) -> LogitsProcessorList:
    """What shapes a distribution before the draw: the arguments in force, in transformers' order.

    Raises ValueError for a value out of range.
    """
    stated = {name: value for name, value in arguments.items() if value is not None}
    found: list[Any] = [TemperatureLogitsWarper(float(stated.get("temperature", 1.0)))]
    if "top_h" in stated:
        found.append(TopHLogitsWarper(top_h=stated["top_h"]))
    if (top_k := int(stated.get("top_k", TOP_K))) != 0:
        found.append(TopKLogitsWarper(top_k=top_k))
    if (top_p := stated.get("top_p", 1.0)) < 1.0:
        found.append(TopPLogitsWarper(top_p=top_p))
    if "min_p" in stated:
        found.append(MinPLogitsWarper(min_p=stated["min_p"]))
    if (mass := stated.get("typical_p", 1.0)) < 1.0:
        found.append(TypicalLogitsWarper(mass=mass))
    if 0.0 < (epsilon := stated.get("epsilon_cutoff", 0.0)) < 1.0:
        found.append(EpsilonLogitsWarper(epsilon=epsilon))
    if 0.0 < (eta := stated.get("eta_cutoff", 0.0)) < 1.0:
        found.append(EtaLogitsWarper(epsilon=eta, device=str(device)))
    return LogitsProcessorList(found)
