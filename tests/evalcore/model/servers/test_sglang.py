"""A model behind SGLang's /generate has the numbers and texts that it has when run directly.

SGLang itself does not run on these machines: a small server speaks what it documents.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse
from starlette.routing import Route

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Request
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from tests.evalcore.model.servers.asking import (
    CUT,
    ROLLING,
    SCORED,
    WRITTEN,
    answers,
    apart,
    assert_same,
)
from tests.evalcore.model.servers.conftest import as_at_first, stated
from tests.evalcore.model.servers.small_server import NAME, Small, running

FIELDS = {
    "text", "input_ids", "sampling_params", "return_logprob", "logprob_start_len",
    "top_logprobs_num",
}  # fmt: skip
SAMPLING = {
    "max_new_tokens", "temperature", "stop", "top_p", "top_k", "min_p", "min_new_tokens",
    "repetition_penalty", "frequency_penalty", "presence_penalty", "stop_token_ids", "ignore_eos",
}  # fmt: skip


@dataclass
class SmallSGLang(Small):
    """Speaks /generate; what a server may do wrong are the habits of the other."""

    shows_ids: bool = True
    """Whether the numbers of the tokens that were written are told (output_ids)."""
    starts_late: bool = False
    """A fault: the prompt's log-probabilities begin a token after the one that was stated."""

    def application(self) -> Starlette:
        routes = [
            Route("/v1/models", self._models),
            Route("/get_server_info", self._info),
            Route("/generate", self._generate, methods=["POST"]),
            Route("/tokenize", self._tokenize, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def _models(self, request: Asked) -> JSONResponse:
        entry = {"id": NAME, "owned_by": "sglang", "root": NAME, "max_model_len": 128}
        return JSONResponse({"object": "list", "data": [entry]})

    async def _info(self, request: Asked) -> JSONResponse:
        return JSONResponse({"version": "0.5.23", "model_path": NAME})

    async def _generate(self, request: Asked) -> JSONResponse:
        body = await request.json()
        self.asked.append(body)
        unknown = sorted({*body} - FIELDS | {*body["sampling_params"]} - SAMPLING)
        if unknown:
            message = {"message": f"Unexpected keyword argument '{unknown[0]}'"}
            return JSONResponse({"error": message}, status_code=400)
        return await asyncio.to_thread(self._generated, body)

    def _generated(self, body: dict[str, Any]) -> JSONResponse:
        given = body["text"] if "text" in body else body["input_ids"]
        one = isinstance(given, str) or isinstance(given[0], int)
        prompts = [given] if one else given
        start = body.get("logprob_start_len", -1)
        starts = start if isinstance(start, list) else [start] * len(prompts)
        answers = [
            self._one(self._tokens_of(prompt), begin, body)
            for prompt, begin in zip(prompts, starts, strict=True)
        ]
        return JSONResponse(answers[0] if one else answers)

    def _one(self, tokens: list[int], start: int, body: dict[str, Any]) -> dict[str, Any]:
        sampling = body["sampling_params"]
        asked = {"max_tokens": sampling["max_new_tokens"], "stop": sampling.get("stop")}
        written, first, _ = self._written(tokens, asked)
        text = self.tokenizer.decode(written, skip_special_tokens=True)
        reason: dict[str, Any] = {"type": "length", "length": len(written)}
        if written and written[-1] == self.tokenizer.eos_token_id:
            reason = {"type": "stop", "matched": written[-1]}
        for stop in asked["stop"] or ():
            if stop in text:
                text, reason = text.partition(stop)[0], {"type": "stop", "matched": stop}
        meta: dict[str, Any] = {
            "id": "1",
            "finish_reason": reason,
            "prompt_tokens": len(tokens),
            "completion_tokens": len(written),
            "cached_tokens": 0,
            "weight_version": "default",
        }
        if not self.habits.counts:
            del meta["prompt_tokens"]
        if body.get("return_logprob"):
            meta |= self._of_prompt(tokens, start)
            best = first.topk(body["top_logprobs_num"])
            tops = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            meta["output_top_logprobs"] = [[[value, token, None] for value, token in tops]]
            meta["output_token_logprobs"] = [[float(first[written[0]]), written[0], None]]
        found = {"text": text, "meta_info": meta}
        return {**found, "output_ids": written} if self.shows_ids else found

    def _of_prompt(self, tokens: list[int], start: int) -> dict[str, Any]:
        """From `start` on; of the first nothing is known but its number."""
        if start < 0 or self.habits.scores == "none":
            return {}
        start += self.starts_late
        own = [None, *(value for value, _ in self._prompt(tokens))]
        ranks = [None, *(rank for _, rank in self._prompt(tokens))]
        logprobs = [[own[place], tokens[place], None] for place in range(start, len(tokens))]
        tops = [
            [[value, token, None] if ranks[place] == 1 else [value + 1e-9, token + 1, None]]
            for place, (value, token, _) in enumerate(logprobs[1:], start=start + 1)
        ]
        logprobs[0][0] = None
        return {"input_token_logprobs": logprobs, "input_top_logprobs": [None, *tops]}


ASKED = [*SCORED, *ROLLING, *WRITTEN, *CUT]


@pytest.fixture(scope="module")
def served(folder):
    server = SmallSGLang(folder)
    with running(server.application()) as address:
        yield server, address


@pytest.fixture
def server(served):
    server = as_at_first(served[0])
    server.shows_ids, server.starts_late = True, False
    return server


@pytest.fixture
def arguments(server, served, folder):
    return stated("", folder, base_url=f"{served[1]}/generate")


def model(given, **how):
    return backend_of("sglang-generate").from_arguments(given, mode="strict", **how)


def test_numbers_and_texts_are_those_of_the_model_itself(arguments, direct):
    lm = model(arguments, batch_size=3)
    assert lm.capabilities.loglikelihood, lm.capabilities.why_not
    assert_same(answers(lm, ASKED), answers(direct, ASKED))
    assert lm.execution["loglikelihood"]["path"] == "input_token_logprobs"
    report = examine(lm, reference=direct.reference)
    assert report.passed, str(report)


def test_texts_alone_are_written_where_no_tokens_are_shown(server, arguments, direct):
    server.shows_ids = False
    lm = model(arguments)
    assert not lm.capabilities.tokens_out
    assert_same(answers(lm, [*SCORED, *WRITTEN]), answers(direct, [*SCORED, *WRITTEN]))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"shifted": True}, "as part of a prompt"),
        ({"tempered": True}, "so one of the two is not what it says"),
        ({"flags": True}, "is told as the likeliest in a prompt"),
        ({"scores": "none"}, "(input_token_logprobs): its answer is not what its interface says"),
        (
            {"starts_late": True},
            "it has input_token_logprobs of 13 tokens, and 14 were asked about",
        ),
    ],
    ids=["shifted by a place", "sharpened", "all greedy", "none", "starts late"],
)
def test_numbers_that_are_not_what_they_say_are_refused(server, arguments, fault, told):
    for name, habit in fault.items():
        setattr(server if hasattr(server, name) else server.habits, name, habit)
    can = model(arguments).capabilities
    assert (can.loglikelihood, can.rolling, can.generate) == (False, False, True)
    assert told in can.why_not


def test_it_is_asked_in_its_words(server, arguments):
    """What stands before a continuation may be reused."""
    lm = model(arguments)
    generation = {"until": ["\n"], "max_gen_toks": 3, "temperature": 0.7, "min_p": 0.1}
    answers(lm, [Request("generate_until", "2 + 2", generation=generation)])
    sampling = server.asked[-1]["sampling_params"]
    (encoded,) = lm.encode(SCORED[:1])
    answers(lm, SCORED[:1])
    body = server.asked[-1]
    assert body["logprob_start_len"] == encoded.n_context_tokens - 1 > 0
    assert body["input_ids"] == [*encoded.tokens, encoded.targets[-1]]
    assert sampling == {
        **{"max_new_tokens": 3, "temperature": 0.7, "min_p": 0.1},
        "stop": ["\n", "</s>"],
    }
    with pytest.raises(TaskError, match="'top_a' is unknown"):
        lm.encode([Request("generate_until", "2", generation={"top_a": 1})])


def test_the_record_says_who_answered_and_the_budget_counts(arguments):
    lm = model({**arguments, "max_total_tokens": "3000"})
    said = lm.info.as_json()
    assert said["unpinned"] is True
    assert said["service"]["version"] == "0.5.23"
    assert said["service"]["owned_by"] == "sglang"
    before = lm.execution["generate_until"]["used"]["tokens_written"]
    answers(lm, WRITTEN[:1])
    used = lm.execution["generate_until"]["used"]
    assert used["tokens_written"] - before == 9
    assert lm.execution["generate_until"]["answered_by"]["weights default"] > 1


def test_bad_beginnings_are_told_in_a_sentence(arguments):
    with pytest.raises(ModelError, match="such as http://localhost:30000/generate, got"):
        model({**arguments, "base_url": arguments["base_url"].replace("generate", "v1")})
    with pytest.raises(ModelError, match="has no model 'org/tny'"):
        model({**arguments, "model": "org/tny"})
    with pytest.raises(ModelError, match="expected at most 128"):
        model({**arguments, "max_length": "129"})


@pytest.mark.peer
def test_numbers_and_texts_are_those_of_lm_eval_s_own_client(folder):
    """But for their flags, which they have the other way round: a continuation is greedy to them
    where none of its tokens is the likeliest."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.sglang_generate_API import SGLANGGENERATEAPI

    def instances(requests):
        return [Instance(one.kind, {}, one.arguments, 0) for one in requests]

    with running(SmallSGLang(folder).application()) as address:
        given = {
            **{"model": "org/tiny", "base_url": f"{address}/generate", "tokenizer": str(folder)},
            **{"max_length": 128, "num_concurrent": 4},
        }
        ours = backend_of("sglang-generate").from_arguments(given, mode="compat")
        theirs = SGLANGGENERATEAPI(**given)
        scored = [request for request in (*SCORED, CUT[0]) if request.repeats == 1]
        found = answers(ours, scored)
        expected = apart(theirs.loglikelihood, instances(scored))
        assert [one.loglikelihood for one in found] == pytest.approx([one for one, _ in expected])
        found = answers(ours, [CUT[1]])
        assert found[0].loglikelihood == pytest.approx(
            apart(theirs.loglikelihood_rolling, instances([CUT[1]]))[0]
        )
        written = [*WRITTEN, CUT[2]]
        texts = [one.text for one in answers(ours, written)]
        assert texts == apart(theirs.generate_until, instances(written))
