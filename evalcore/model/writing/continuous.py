"""Texts that are written together: one that ends leaves, and one that waits takes its place.

The story: prompts are read in packs, each distinct prefix once (`prefilling.py`); what follows is
written a token at a time for all texts together (`decoding.py`); a text ends by the rules that hold
for every way of writing it (`ending.py`). Each text draws by a generator of its own, so that it
does not depend on what else is written, nor on when.

Source of the idea: iteration-level scheduling, Yu et al. 2022 (Orca). The continuous batching of
`transformers` (5.23) was tried first: it knows no stops and no seed of a text, and on a CPU it took
seven times as long as its own `generate`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Answers, Response
from evalcore.model.faults import set_aside
from evalcore.model.forward.memory import (
    LEAST_TOKENS,
    SHARE,
    end_where_divided,
    free_bytes,
    path_bytes_per_token,
    release,
    token_budget,
)
from evalcore.model.kept_checks import KeptChecks
from evalcore.model.waves import in_waves
from evalcore.model.writing.decoding import Decoder
from evalcore.model.writing.drawing import drawn, likeliest, warpers_of
from evalcore.model.writing.ending import StopRule, Text, ends_of, most_new_tokens, response_of
from evalcore.model.writing.generation import GenerationRequest, Generations, Plan
from evalcore.model.writing.prefilling import Prefill
from evalcore.model.writing.rehearsal import Rehearsal, borders_of, rehearse
from evalcore.model.writing.slots import Entry

log = logging.getLogger(__name__)

ROWS_CPU, ROWS = 64, 256
"""Texts that are written together on a CPU and on an accelerator.

A token gets cheaper still with more of them (with 256 by a seventh, of a model of 30 M on a CPU),
but what is under way when a process dies is lost.
"""

SLOT_BYTES_CPU = 1 << 30
"""Keys and values on a CPU are kept within this, for more texts than fill it gain little."""

CONTINUOUS = "texts written continuously"
"""The check, as it is kept."""

SECONDS_PER_PACK = 0.5
"""Texts that ended are handed out this often: what a crash can lose besides those under way."""


@dataclass(eq=False, slots=True)
class Writing:
    """A text under way."""

    request: GenerationRequest
    rule: PlanRule
    text: Text
    generator: torch.Generator | None

    @property
    def reach(self) -> int:
        """Tokens of prompt and text at most."""
        return len(self.request.tokens) + self.text.room


class PlanRule:
    """What all texts of one plan have in common."""

    def __init__(self, plan: Plan, model: Any, tokenizer: Any, defaults: Mapping[str, Any]) -> None:
        """Raises TaskError for arguments that cannot be used."""
        self.stops = StopRule(tokenizer, plan)
        self.ends = ends_of(plan, model, tokenizer)
        self.warpers: LogitsProcessorList | None = None
        if plan.sampled:
            stated = dict(plan.options)
            try:
                self.warpers = warpers_of({**defaults, **stated}, model.device)
            except (ValueError, TypeError) as problem:
                raise TaskError(
                    f"generation arguments {stated} cannot be used: {problem}"
                ) from problem


class ContinuousWriter:
    """Writes texts whose plans look at nothing but the model's own distribution."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        defaults: Mapping[str, Any],
        kept: KeptChecks | None = None,
    ) -> None:
        """`defaults`: the model's own generation arguments, where a plan states none; `kept`: what
        was found of the model before."""
        self._model = model
        self._tokenizer = tokenizer
        self._defaults = defaults
        self._kept = kept or KeptChecks()
        self._rehearsal: Rehearsal | None = None
        self._borders_left = -1
        self._through_head = False
        self._refused: str | None = None
        self._budget: int | None = None
        self._rows = ROWS_CPU if model.device.type == "cpu" else ROWS
        self._halvings = 0

    @property
    def execution(self) -> dict[str, Any]:
        """How the last texts were written; empty before the first."""
        if self._refused is not None:
            why = f"not continuously: {self._refused}"
            return {"path": "plain", "step": "in batches", "reason": why, "refused": why}
        if self._rehearsal is None:
            return {}
        return {
            "path": "packed",
            "step": "continuous",
            "reason": str(self._rehearsal),
            "refused": "",
            "tokens_per_pass": self._budget,
            "texts_at_once": self._rows,
            "halvings": self._halvings,
        }

    def answers(self, requests: Generations) -> Answers:
        """Responses by the index of their request, as texts end.

        Ends before all are answered where this way turns out not to be right for the model.
        """
        waiting = dict(requests)
        while waiting and self._refused is None:
            problem = None
            try:
                for pack in self._responses(waiting):
                    yield pack
                    for index, _ in pack:
                        del waiting[index]
            except torch.OutOfMemoryError as error:
                end_where_divided(error)
                problem = str(error)
            if problem is not None:  # and nothing of the pass that failed is held any more
                self._halve(problem)

    def _responses(self, waiting: Generations) -> Answers:
        """Requests that must have the same answer are one text."""
        members: dict[str, list[int]] = {}
        for index, request in waiting.items():
            members.setdefault(request.key, []).append(index)
        distinct = [waiting[indexes[0]] for indexes in members.values()]
        longest = max(len(request.tokens) for request in distinct)
        if self._budget is None:
            self._budget = token_budget(self._model, longest=longest)
        try:
            writings = self._prepared(distinct)
            if not self._is_right(writings):
                return
            for pack in self._written(writings):
                yield [
                    (index, self._response(writing))
                    for writing in pack
                    for index in members[writing.request.key]
                ]
        except (torch.OutOfMemoryError, ModelError, TaskError):
            raise
        except Exception as error:  # another way may bear what this one does not
            self._refuse(f"it failed in use: {set_aside('to write continuously', error)}")

    def _prepared(self, requests: Sequence[GenerationRequest]) -> list[Writing]:
        rules: dict[str, PlanRule] = {}
        writings = []
        for request in requests:
            plan = request.plan
            if (name := repr(plan)) not in rules:
                rules[name] = PlanRule(plan, self._model, self._tokenizer, self._defaults)
            rule = rules[name]
            most = most_new_tokens(plan, len(request.tokens), self._model)
            seeded = torch.Generator().manual_seed(request.torch_seed) if plan.sampled else None
            writings.append(Writing(request, rule, Text(rule.stops, rule.ends, most), seeded))
        return writings

    def _is_right(self, writings: Sequence[Writing]) -> bool:
        """Whether a real prompt comes out as it should, tried again once texts get longer than
        another length at which the model may change its ways."""
        reach = max(writing.reach for writing in writings)
        left = sum(border < reach for border in borders_of(self._model))
        if left > self._borders_left and (kept := self._kept.found(CONTINUOUS)):
            self._borders_left = kept["borders_left"]
            self._through_head = kept["through_head"]
            self._rehearsal = Rehearsal(**kept["rehearsal"], found_on=kept["checked_on"])
        if left > self._borders_left:
            self._borders_left = left
            longest = max((writing.request.tokens for writing in writings), key=len)
            n_planned = sum(writing.reach for writing in writings)
            problems: dict[str, None] = {}
            for through_head in (False, True):
                found = rehearse(
                    self._model,
                    longest,
                    through_head=through_head,
                    reach=reach,
                    n_planned=n_planned,
                )
                self._rehearsal, self._through_head = found, through_head
                if found.problem is None:
                    self._keep(found)
                    log.info("texts are written continuously: %s", self.execution["reason"])
                    return True
                problems[found.problem] = None
            self._refuse("; ".join(problems))
        return self._refused is None

    def _keep(self, found: Rehearsal) -> None:
        rehearsal = {name: value for name, value in asdict(found).items() if name != "found_on"}
        self._kept.keep(
            CONTINUOUS,
            {
                "borders_left": self._borders_left,
                "through_head": self._through_head,
                "rehearsal": rehearsal,
            },
        )

    def _written(self, writings: Sequence[Writing]) -> Iterator[list[Writing]]:
        """Texts as they end; those of half a second at a time."""
        decoder = Decoder(
            self._model,
            most_rows=self._rows,
            most_tokens=self._slot_tokens(),
            reach=max(writing.reach for writing in writings),
        )
        reading = self._read_in_waves(writings)
        waiting: deque[Entry] = deque()
        given_up: list[int] = []
        ended: list[Writing] = []
        handed_out = time.monotonic()
        while True:
            # A prompt that was read waits for a slot; the next pack is read when none does.
            while not waiting and decoder.n_texts < self._rows:
                if (read := next(reading, None)) is None:
                    # Read again in company, so that they share what they begin with.
                    if not given_up or len(given_up) < decoder.n_texts:
                        break
                    reading, given_up = self._read(writings, given_up), []
                    continue
                starts, logits = read
                begun = [writings[start.seat.index] for start in starts]
                tokens = choose(begun, logits)
                for start, writing, token in zip(starts, begun, tokens, strict=True):
                    if writing.text.take(token):
                        ended.append(writing)
                    else:
                        waiting.append(start)
                decoder.admit(waiting)
            decoder.admit(waiting)
            given_up += [seat.index for seat in decoder.make_room()]
            if not decoder.n_texts:
                break
            under_way = [writings[seat.index] for seat in decoder.seats]
            logits = decoder.step([writing.text.tokens[-1] for writing in under_way])
            tokens = choose(under_way, logits)
            leaving = [
                place
                for place, (writing, token) in enumerate(zip(under_way, tokens, strict=True))
                if writing.text.take(token)
            ]
            if leaving:
                ended += [under_way[place] for place in leaving]
                decoder.leave(leaving)
            if ended and time.monotonic() - handed_out >= SECONDS_PER_PACK:
                yield ended
                ended, handed_out = [], time.monotonic()
        if ended:
            yield ended

    def _read_in_waves(self, writings: Sequence[Writing]) -> Iterator[tuple[list[Entry], Tensor]]:
        """One stream: the texts of a wave are still written while prompts of the next are read."""
        for wave in in_waves(writing.request for writing in writings):
            yield from self._read(writings, wave)

    def _read(
        self, writings: Sequence[Writing], places: Sequence[int]
    ) -> Iterator[tuple[list[Entry], Tensor]]:
        """Prompts with what is written of their texts so far, and the logits of what comes next."""
        assert self._budget is not None  # noqa: S101  # it is set before anything is written
        texts = [writings[place] for place in places]
        prefill = Prefill(
            self._model,
            [(*writing.request.tokens, *writing.text.tokens) for writing in texts],
            budget=self._budget,
            to_come=[writing.text.room - 1 for writing in texts],
            through_head=self._through_head,
        )
        for starts, logits in prefill.starts():
            for start in starts:
                start.seat.written = len(texts[start.seat.index].text.tokens)
                start.seat.index = places[start.seat.index]
            yield starts, logits

    def _slot_tokens(self) -> int:
        room = int(SHARE * free_bytes(self._model.device))
        if self._model.device.type == "cpu":
            room = min(room, SLOT_BYTES_CPU)
        return max(1, (room >> self._halvings) // path_bytes_per_token(self._model))

    def _response(self, writing: Writing) -> Response:
        return response_of(
            writing.request,
            writing.text.tokens,
            stopped_after=writing.text.stopped_after,
            ends=writing.rule.ends,
            tokenizer=self._tokenizer,
            path="packed",
        )

    def _refuse(self, problem: str) -> None:
        self._refused = problem
        self._kept.forget(CONTINUOUS)
        log.warning("texts are not written continuously, but in batches: %s", problem)

    def _halve(self, problem: str) -> None:
        """Fewer tokens in a pass and fewer texts at once; where that cannot help, plain batches."""
        assert self._budget is not None  # noqa: S101  # a pass was tried with it
        release(self._model.device)
        if self._budget <= LEAST_TOKENS and self._rows == 1:
            self._refuse(f"out of memory with one text at a time: {problem}")
            return
        self._budget = max(LEAST_TOKENS, self._budget // 2)
        self._rows = max(1, self._rows // 2)
        self._halvings += 1
        log.warning(
            "out of memory: %d tokens in a pass and %d texts at once from now on",
            self._budget,
            self._rows,
        )


@torch.inference_mode()
def choose(writings: Sequence[Writing], logits: Tensor) -> list[int]:
    """The next token of each text, from its logits (texts, vocabulary). Raises ModelError for what
    is not a number."""
    drawing: dict[int, list[int]] = {}
    for place, writing in enumerate(writings):
        if writing.generator is not None:
            drawing.setdefault(id(writing.rule), []).append(place)
    chosen = likeliest(logits.float())
    for places in drawing.values():
        texts = [writings[place] for place in places]
        generators = [text.generator for text in texts if text.generator is not None]
        warpers = texts[0].rule.warpers or LogitsProcessorList()
        of_plan = torch.tensor(places, device=logits.device)
        chosen[of_plan] = drawn(logits[of_plan].float(), generators, warpers)
    return chosen.tolist()
