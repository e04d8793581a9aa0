"""A small server of SGLang's documented /generate, computed by a model of `transformers`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.evalcore.model.servers.small_server import NAME, Small

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

    async def _models(self, request: Request) -> JSONResponse:
        entry = {"id": NAME, "owned_by": "sglang", "root": NAME, "max_model_len": 128}
        return JSONResponse({"object": "list", "data": [entry]})

    async def _info(self, request: Request) -> JSONResponse:
        return JSONResponse({"version": "0.5.23", "model_path": NAME})

    async def _generate(self, request: Request) -> JSONResponse:
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
