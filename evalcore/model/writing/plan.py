"""Generated texts of a causal language model of `transformers`.

Written continuously (`continuous.py`) where nothing but the model's own distribution decides the
next token; in batches by `generate` of `transformers` where beams, penalties or other arguments
look at the text before, and for models that cannot be written otherwise.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal

import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Answers, Response
from evalcore.model.forward.company import why_alone
from evalcore.model.forward.memory import end_where_divided
from evalcore.model.forward.plain import Row, Rows, batches_of
from evalcore.model.forward.selfcheck import IN_COMPANY, Trial, tried_in_both
from evalcore.model.kept_checks import KeptChecks
from evalcore.model.loglikelihood.ladder import PathName
from evalcore.model.writing.continuous import ContinuousWriter
from evalcore.model.writing.defaults import NEUTRAL, defaults_of
from evalcore.model.writing.drawing import OnlyNumbers, SeededDraw, StopAt, warpers_of
from evalcore.model.writing.ending import ends_of, response_of
from evalcore.model.writing.generation import SAMPLING, GenerationRequest, Generations, Plan
from evalcore.model.writing.own import acts_on_steps, has_own_layers, own_generate
from evalcore.model.writing.steps import otherwise_by_steps
from evalcore.model.writing.thinking import written_within_budget

TOKENS_PER_BATCH = 16384
"""Padded tokens of the prompts of one batch; its states are what fills the memory."""

ROWS_PER_BATCH = 64
"""Texts that are written together unless the caller says otherwise: what a crash can lose."""

Company = Literal["any", "of one length", "none"]

COMPANY = "rows that share a batch"
"""The check, as it is kept."""

BLIND_TO_PADDING = SAMPLING | {"do_sample", "num_beams", "eos_token_id", "max_new_tokens"}
"""Arguments that do not look at the prompt: others (a repetition penalty) would see the padding."""


class Writer:
    """Generates in batches; what a row gets does not depend on the batch."""

    blind = BLIND_TO_PADDING

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        batch_size: int | None,
        path: Literal["auto"] | PathName = "auto",
        kept: KeptChecks | None = None,
    ) -> None:
        """`batch_size` caps the rows of a batch. `path` is for tests and benchmarks: "plain" is in
        batches only, and "packed" raises ModelError where texts cannot be written continuously.
        `kept`: what was found of the model before."""
        self._model = model
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._path = path
        self._kept = kept or KeptChecks()
        self._rounds = why_alone(model)
        self._alone = self._rounds
        """Why each text is written by itself; None where several are together."""
        self._by_generate: str | None = None
        """Why texts are written by the model's own `generate` alone."""
        self._company: Company | None = None

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The model's own generation arguments, which hold where a task states none; raises as
        `defaults_of`."""
        return defaults_of(self._model.generation_config)

    @cached_property
    def _continuous(self) -> ContinuousWriter:
        return ContinuousWriter(
            self._model, self._tokenizer, defaults=self.defaults, kept=self._kept
        )

    @property
    def execution(self) -> dict[str, Any]:
        """How the last texts were written that no argument bound to batches; empty before."""
        why = self._alone or self._by_generate
        if why:
            step = "one by one" if self._alone else "in batches"
            refused = "" if self._rounds else f"not continuously: {why}"
            return {"path": "plain", "step": step, "reason": why, "refused": refused}
        return self._continuous.execution

    def answers(self, requests: Generations) -> Answers:
        """Responses by the index of their request: continuously what can be, the rest in batches.

        Raises ModelError for a prompt that does not fit the memory, TaskError for arguments that
        cannot be used.
        """
        waiting = dict(requests)
        if requests:
            self._look_at_own_code(max((row.tokens for row in requests.values()), key=len))
        why = self._alone or self._by_generate
        if why and self._path == "packed":
            raise ModelError(f"it cannot write continuously: {why}")
        if self._path != "plain" and not why:
            # Those whose next token is chosen from the model's own distribution alone.
            free = {
                index: request
                for index, request in requests.items()
                if self._blind(request.plan) and self._beams(request.plan) == 1
            }
            for pack in self._continuous.answers(free):
                for index, _ in pack:
                    del waiting[index]
                yield pack
            refused = self._continuous.execution.get("path") == "plain"
            if refused and self._path == "packed":
                raise ModelError(f"it cannot write continuously: {self.execution['reason']}")
        if waiting:
            yield from self._in_batches(waiting)

    def _look_at_own_code(self, longest: Sequence[int]) -> None:
        """A text is what the model's own `generate` gives: where code of its own may decide it, or
        acts on its passes, nothing else writes it."""
        self._alone = self._rounds or own_generate(self._model)
        self._by_generate = None
        if self._alone is None:
            self._by_generate = acts_on_steps(self._model)
        if not self._alone and not self._by_generate and has_own_layers(self._model):
            self._alone = otherwise_by_steps(self._model, longest, self._pad)

    def _in_batches(self, requests: Generations) -> Answers:
        """Longest prompts first."""
        company = self._company_of(requests)
        waiting = [
            batch
            for plan, rows in self._alike(requests, company)
            for batch in batches_of(
                rows, budget=TOKENS_PER_BATCH, most_rows=self._rows_at_once(plan, company)
            )
        ][::-1]
        while waiting:
            batch = waiting.pop()
            try:
                responses = self._write([requests[row.requests[0]] for row in batch])
            except torch.OutOfMemoryError as problem:
                end_where_divided(problem)
                if len(batch) == 1:
                    raise ModelError(f"out of memory on {self._model.device}: {problem}") from None
                waiting += [batch[len(batch) // 2 :], batch[: len(batch) // 2]]
                continue
            yield [
                (index, response)
                for row, response in zip(batch, responses, strict=True)
                for index in row.requests
            ]

    def _alike(self, requests: Generations, company: Company) -> Iterator[tuple[Plan, list[Row]]]:
        """Rows that may share a batch: one plan, and one length where padding would be seen."""
        members: dict[str, list[int]] = defaultdict(list)
        for index, request in requests.items():
            members[request.key].append(index)
        groups: dict[tuple[int, str, int], list[Row]] = defaultdict(list)
        for indexes in members.values():
            request = requests[indexes[0]]
            padded = company == "any" and self._blind(request.plan)
            # A limit on prompt and answer together is another number for each length.
            length = 0 if padded and not request.plan.max_length else len(request.tokens)
            row = Row(request.tokens, tuple(indexes))
            groups[request.wave, repr(request.plan), length].append(row)
        for _, rows in sorted(groups.items(), key=lambda group: group[0][0]):
            plan = requests[rows[0].requests[0]].plan
            yield plan, sorted(rows, key=lambda row: -len(row.tokens))

    def _rows_at_once(self, plan: Plan, company: Company) -> int:
        alone = self._beams(plan) > 1 or (plan.sampled and not self._blind(plan))
        return 1 if alone or company == "none" else self._batch_size or ROWS_PER_BATCH

    def _blind(self, plan: Plan) -> bool:
        """Whether nothing but the model itself looks at the tokens before."""
        in_force = {**self.defaults, **dict(plan.options)}
        return all(
            name in self.blind or (name in NEUTRAL and value == NEUTRAL[name])
            for name, value in in_force.items()
            if value is not None
        )

    def _company_of(self, requests: Generations) -> Company:
        """Which rows may share a batch: those that the model reads there as it does alone.

        States may run over the padding, positions count it, rows influence each other.
        """
        if self._alone:
            return "none"
        if len(requests) == 1:
            return "any"
        if self._company is None and (kept := self._kept.found(COMPANY)):
            self._company = kept["company"]
        if self._company is None:
            shortest, *others = sorted({request.tokens for request in requests.values()}, key=len)
            pair = [shortest, others[0] if others else shortest[::-1]]
            padding = 0 if len(pair[1]) > len(shortest) else 3
            if self._reads_as_alone(pair, len(pair[1]) + padding):
                self._company = "any"
            else:
                alike = [row[-len(shortest) :] for row in pair]
                told = self._reads_as_alone(alike, len(shortest))
                self._company = "of one length" if told else "none"
            self._kept.keep(COMPANY, {"company": self._company})
        return self._company

    def _reads_as_alone(self, rows: Rows, width: int) -> bool:
        """Whether the model says the same after each of these rows and after all in one batch, in
        float32 first, where rounding hides nothing."""

        def trial(_: int) -> Trial:
            alone = torch.cat([self._first_logits([row], len(row)) for row in rows])
            together = self._first_logits(rows, width)
            apart = alone.float().log_softmax(dim=-1) - together.float().log_softmax(dim=-1)
            moved = float(apart.abs().max())
            is_right = moved <= IN_COMPANY.of(self._model)
            return Trial(problem=None if is_right else "rows change each other", largest=moved)

        return tried_in_both(self._model, trial).problem is None

    @torch.inference_mode()
    def _first_logits(self, rows: Rows, width: int) -> torch.Tensor:
        ids, mask = self._padded(rows, width)
        written = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=1,
            do_sample=False,
            pad_token_id=self._pad,
            return_dict_in_generate=True,
            output_logits=True,
        )
        return written.logits[0]  # type: ignore[no-any-return]

    @property
    def _pad(self) -> int:
        """Any token will do that the model has: the mask hides it. A tokenizer may have been given
        a pad token for which the model has no row."""
        rows = len(self._model.get_input_embeddings().weight)
        for name in ("pad_token_id", "unk_token_id", "eos_token_id"):
            token = getattr(self._tokenizer, name, None)
            if token is not None and int(token) < rows:
                return int(token)
        return 0

    def _inputs(self, requests: Sequence[GenerationRequest], width: int) -> dict[str, Any]:
        """What the model is given of requests in one batch."""
        ids, mask = self._padded([request.tokens for request in requests], width)
        return {"input_ids": ids, "attention_mask": mask}

    def _padded(self, rows: Rows, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows padded on the left to `width`, and the mask that hides the padding."""
        ids = [[self._pad] * (width - len(row)) + list(row) for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        device = self._model.device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)

    @torch.inference_mode()
    def _write(self, requests: Sequence[GenerationRequest]) -> list[Response]:
        """Texts for requests of one plan."""
        plan = requests[0].plan
        if plan.thinking_budget is not None:
            return self._write_within_budget(requests)
        width = max(len(request.tokens) for request in requests)
        beams, unsearched = self._beams(plan), [*map(self._unsearched, requests)]
        stop = StopAt(
            self._tokenizer, plan, width=self._given(width), beams=beams, unsearched=unsearched
        )
        written = self._generated(requests, stop)
        return [
            response_of(
                request,
                row[self._given(width) :][: self._most(request)],
                stopped_after=within(stop.ended.get(place), self._most(request)),
                ends=ends_of(plan, self._model, self._tokenizer),
                tokenizer=self._tokenizer,
                path="plain",
                stops_unseen=beams > 1 or unsearched[place] > 0,
            )
            for place, (request, row) in enumerate(zip(requests, written.tolist(), strict=True))
        ]

    def _write_within_budget(self, requests: Sequence[GenerationRequest]) -> list[Response]:
        """Texts whose thinking is ended; raises TaskError for beams, which change places."""
        plan = requests[0].plan
        if self._beams(plan) > 1:
            raise TaskError(
                f"generation argument num_beams: {self._beams(plan)} beams have no "
                "thinking_budget, which ends one text's thoughts: leave one of them out"
            )
        ends = ends_of(plan, self._model, self._tokenizer)
        return written_within_budget(
            requests, self._tokenizer, ends, partial(self._generated, requests)
        )

    def _generated(
        self,
        requests: Sequence[GenerationRequest],
        stop: StoppingCriteria,
        *processors: LogitsProcessor,
    ) -> torch.Tensor:
        """What `generate` gives for a batch; `processors` have the last word on what is next."""
        plan = requests[0].plan
        width = max(len(request.tokens) for request in requests)
        drawing = self._drawing(plan, requests)
        processors = (OnlyNumbers(), *drawing.pop("logits_processor", ()), *processors)
        try:
            with warnings.catch_warnings(), torch.random.fork_rng(enabled=plan.sampled):
                warnings.simplefilter("ignore")  # of a model's arguments that a plan overrules
                written: torch.Tensor = self._model.generate(
                    **self._inputs(requests, width),
                    pad_token_id=self._pad,
                    stopping_criteria=StoppingCriteriaList([stop]),
                    **self._length(requests),
                    logits_processor=LogitsProcessorList(processors),
                    **drawing,
                )
        except IndexError as problem:
            raise ModelError(
                f"it has no positions for a prompt of {width} tokens with "
                f"{self._length(requests)}: {problem}"
            ) from problem
        except (ValueError, TypeError, NotImplementedError) as problem:
            if own := own_generate(self._model):
                raise ModelError(
                    f"{own}, which fails where it is called as transformers' is: "
                    f"{type(problem).__name__}: {problem}"
                ) from problem
            stated = dict(plan.options)
            if not stated:
                raise ModelError(
                    f"it cannot write, with {self.defaults or 'nothing'} in its "
                    f"generation_config.json: {type(problem).__name__}: {problem}"
                ) from problem
            raise TaskError(f"generation arguments {stated} cannot be used: {problem}") from problem
        return written

    def _given(self, width: int) -> int:
        """Positions of what `generate` gives back that are the prompt's."""
        return width

    def _unsearched(self, request: GenerationRequest) -> int:  # noqa: ARG002
        """Tokens of an answer in which no stop is looked for while it is written."""
        return 0

    def _most(self, request: GenerationRequest) -> int | None:  # noqa: ARG002
        """Tokens of an answer, where the rows of a batch have limits of their own."""
        return None

    def _length(self, requests: Sequence[GenerationRequest]) -> dict[str, int]:
        """In compat a number of new tokens in the model's own configuration beats the task's."""
        plan, width = requests[0].plan, max(len(request.tokens) for request in requests)
        if plan.thinking_budget is not None:
            return {"max_new_tokens": plan.most_tokens}
        total = plan.max_length or width + plan.max_new_tokens
        if plan.mode == "compat":
            return {"max_length": total}
        return {"max_new_tokens": max(1, total - width)}

    def _drawing(self, plan: Plan, requests: Sequence[GenerationRequest]) -> dict[str, Any]:
        options = dict(plan.options)
        if not plan.sampled:
            return {"do_sample": False, **options}
        if self._beams(plan) > 1 or not self._blind(plan):
            torch.manual_seed(requests[0].torch_seed)
            return {"do_sample": True, **options}
        in_force = {**self.defaults, **options}
        seeds = [request.torch_seed for request in requests]
        draw = SeededDraw(seeds, warpers_of(in_force, self._model.device))
        others = {name: value for name, value in options.items() if name not in SAMPLING}
        return {"do_sample": False, "logits_processor": LogitsProcessorList([draw]), **others}

    def _beams(self, plan: Plan) -> int:
        stated = dict(plan.options)
        beams = {**self.defaults, **stated}.get("num_beams") or 1
        if isinstance(beams, int) and beams > 0:
            return beams
        error, where = (
            (TaskError, "generation argument")
            if "num_beams" in stated
            else (ModelError, "generation_config.json:")
        )
        raise error(f"{where} num_beams: expected a count, got {beams!r}")


def within(stopped_after: int | None, most: int | None) -> int | None:
    """None for a stop that came after the end of the answer, in a batch whose rows end apart."""
    is_beyond = stopped_after is not None and most is not None and stopped_after > most
    return None if is_beyond else stopped_after
