"""A small server of TextSynth's documented interface, computed by a model of `transformers`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.evalcore.model.servers.small_server import Small

KEY = "textsynth-of-the-tests"
FIELDS = {
    "prompt", "max_tokens", "stop", "temperature", "top_k", "top_p", "seed", "presence_penalty",
    "frequency_penalty", "repetition_penalty",
}  # fmt: skip


@dataclass
class SmallTextSynth(Small):
    """One engine, `tiny`; the faults are the habits of the other."""

    window: int = 128
    doubles: bool = False
    """A fault: the log-probability of a continuation of several tokens is twice what it is."""

    def application(self) -> Starlette:
        base = "/v1/engines/tiny"
        routes = [
            Route(f"{base}/completions", self._complete, methods=["POST"]),
            Route(f"{base}/logprob", self._logprob, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def _asked(self, request: Request, fields: set[str]) -> dict[str, Any] | JSONResponse:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return JSONResponse({"status": 403, "error": "invalid API key"}, status_code=403)
        body = await request.json()
        self.asked.append(body)
        if unknown := sorted({*body} - fields):
            return JSONResponse({"status": 400, "error": f"unknown {unknown[0]}"}, status_code=400)
        return body

    async def _complete(self, request: Request) -> JSONResponse:
        body = await self._asked(request, FIELDS)
        if isinstance(body, JSONResponse):
            return body
        return await asyncio.to_thread(self._text, body)

    def _text(self, body: dict[str, Any]) -> JSONResponse:
        tokens = list(self.tokenizer(body["prompt"])["input_ids"])
        kept = tokens[-(self.window - body["max_tokens"]) :]
        asked = {"max_tokens": body["max_tokens"], "stop": body.get("stop")}
        choice = self._choice(kept, asked)
        written = len(self._written(kept, asked)[0])
        cut = {"truncated_prompt": True} if len(kept) < len(tokens) else {}
        return JSONResponse(
            {
                **{"text": choice["text"], "reached_end": True, **cut},
                **{"input_tokens": len(kept), "output_tokens": written},
            }
        )

    async def _logprob(self, request: Request) -> JSONResponse:
        body = await self._asked(request, {"context", "continuation"})
        if isinstance(body, JSONResponse):
            return body
        return await asyncio.to_thread(self._pair, body["context"], body["continuation"])

    def _pair(self, context: str, continuation: str) -> JSONResponse:
        before = list(self.tokenizer(context)["input_ids"])
        whole = list(self.tokenizer(context + continuation)["input_ids"])
        found = self._prompt(whole)[len(before) - 1 :]
        total = sum(own for own, _ in found)
        return JSONResponse(
            {
                "logprob": 2 * total if self.doubles and len(found) > 1 else total,
                "is_greedy": all(rank == 1 for _, rank in found),
                "num_tokens": len(found),
                "input_tokens": len(whole),
            }
        )
