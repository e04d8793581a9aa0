"""Texts that vLLM writes, ended by our own rule: a token at a time we look for stops as we do with
any other model, and vLLM is told that a text is over. Its own tokenizer and stops take no part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Answers, Response
from evalcore.model.vllm.engine import UNDER_WAY, Engine, Prompt
from evalcore.model.writing.defaults import NEUTRAL
from evalcore.model.writing.drawing import TOP_K
from evalcore.model.writing.ending import (
    StopRule,
    Text,
    ends_of,
    most_new_tokens,
    response_of,
)
from evalcore.model.writing.generation import GenerationRequest, Plan

ARGUMENTS = frozenset(
    ["temperature", "top_k", "top_p", "min_p", "repetition_penalty", "eos_token_id", "do_sample"]
)
"""What vLLM can be told that means the same there as in transformers."""

LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.01, 2.0
"""Beyond these vLLM takes another one than it is given, or none."""

TEXTS_PER_PACK = 16
"""Texts that are given away together: what a crash can lose."""


class VllmWriter:
    """Writes what is asked for, each distinct request once."""

    at_once = UNDER_WAY
    """Requests that vLLM has before it has answered."""

    def __init__(
        self, engine: Engine, tokenizer: Any, configured: Any, defaults: Mapping[str, Any]
    ) -> None:
        """`configured` has the model's `generation_config`, of which `defaults` are what decides a
        text."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._configured = configured
        self._defaults = defaults
        self._has_written = False

    @property
    def execution(self) -> dict[str, Any]:
        """How texts are written; empty before the first."""
        if not self._has_written:
            return {}
        reason = "vLLM writes, and stops are looked for after each token"
        return {"path": "plain", "step": "together", "reason": reason, "refused": ""}

    def answers(self, requests: Mapping[int, GenerationRequest]) -> Answers:
        """Responses by the index of their request; raises TaskError, or ModelError of the model's
        own configuration, for arguments that vLLM does not have."""
        if not requests:
            return
        self._has_written = True
        members: dict[str, list[int]] = defaultdict(list)
        for index, request in requests.items():
            members[request.key].append(index)
        distinct = [requests[indexes[0]] for indexes in members.values()]
        # What begins alike is near in time.
        distinct.sort(key=lambda request: (request.wave, request.tokens))
        pack: list[tuple[int, Response]] = []
        n_texts = 0
        for response in self._written(distinct):
            pack += [(index, response) for index in members[response.key]]
            n_texts += 1
            if n_texts == TEXTS_PER_PACK:
                yield pack
                pack, n_texts = [], 0
        if pack:
            yield pack

    def _written(self, requests: Sequence[GenerationRequest]) -> Iterator[Response]:
        """As they end."""
        rules: dict[str, StopRule] = {}
        texts: list[Text] = []
        params = []
        for request in requests:
            plan = request.plan
            rule = rules.setdefault(repr(plan), StopRule(self._tokenizer, plan))
            most = most_new_tokens(plan, len(request.tokens), self._configured)
            ends = ends_of(plan, self._configured, self._tokenizer)
            texts.append(Text(rule, ends, most))
            params.append(self._params(request, most, ends))
        asked = (
            (number, self._prompt(request), params[number])
            for number, request in enumerate(requests)
        )
        steps = self._engine.steps(asked, at_once=self.at_once)
        step = next(steps, None)
        while step is not None:
            number, output = step
            text, request = texts[number], requests[number]
            self._check(request, output)
            # It may have written on before it is told that a text is over.
            is_over = any(text.take(token) for token in output.outputs[0].token_ids)
            if is_over or output.finished:
                yield self._response(request, text)
            try:
                step = steps.send(is_over)
            except StopIteration:
                return

    def _prompt(self, request: GenerationRequest) -> Prompt:
        """Made when vLLM is given it."""
        return request.tokens

    def _check(self, request: GenerationRequest, output: Any) -> None:
        """Raises ModelError where vLLM was not asked what we read."""

    def _response(self, request: GenerationRequest, text: Text) -> Response:
        return response_of(
            request,
            text.tokens,
            stopped_after=text.stopped_after,
            ends=ends_of(request.plan, self._configured, self._tokenizer),
            tokenizer=self._tokenizer,
            path="plain",
        )

    def _params(self, request: GenerationRequest, most: int, ends: frozenset[int]) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            max_tokens=most,
            stop_token_ids=sorted(ends),
            ignore_eos=True,  # those are all, the tokenizer's own among them
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            skip_clone=True,
            **self._drawing(request.plan),
            **({"seed": request.torch_seed} if request.plan.sampled else {}),
        )

    def _drawing(self, plan: Plan) -> dict[str, Any]:
        """What of the arguments in force vLLM is told; where nobody says, what transformers has."""
        stated = {name: value for name, value in dict(plan.options).items() if value is not None}
        own = {name: value for name, value in self._defaults.items() if value is not None}
        _check_known(own)
        in_force = {**own, **stated}
        shaped: dict[str, Any] = {"repetition_penalty": in_force.get("repetition_penalty", 1.0)}
        if not plan.sampled:
            return {**shaped, "temperature": 0.0}
        temperature = float(in_force.get("temperature", 1.0))
        if not LEAST_TEMPERATURE <= temperature <= MOST_TEMPERATURE:
            raise TaskError(
                f"generation argument temperature: expected {LEAST_TEMPERATURE:g} to "
                f"{MOST_TEMPERATURE:g}, which vLLM can draw at, got {temperature:g}"
            )
        return {
            **shaped,
            "temperature": temperature,
            "top_k": int(in_force.get("top_k", TOP_K)),
            "top_p": float(in_force.get("top_p", 1.0)),
            "min_p": float(in_force.get("min_p", 0.0)),
        }


def _check_known(own: Mapping[str, Any]) -> None:
    """Raises ModelError for what a model's generation_config.json asks for and vLLM does not
    have."""
    for name, value in own.items():
        known = name in ARGUMENTS or name == "max_new_tokens"
        if not known and not (name in NEUTRAL and value == NEUTRAL[name]):
            raise ModelError(
                f"generation_config.json: vLLM has no {name}, which is {value!r} there: evaluate "
                "with --model hf"
            )
