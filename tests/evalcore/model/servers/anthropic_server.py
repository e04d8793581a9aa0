"""A small server of Anthropic's documented interface, computed by a model of `transformers`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.evalcore.model.servers.small_server import NAME, Small

KEY = "sk-ant-of-the-tests"
FIELDS = {
    "model", "messages", "system", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences",
}  # fmt: skip
"""That are sent here; others are refused as unknown ones are there."""


@dataclass
class SmallAnthropic(Small):
    """Speaks version 2023-06-01, and is as strict as the documentation says."""

    counts: list[tuple[int, int]] = field(default_factory=list)
    """Tokens read and written, by request."""

    def application(self) -> Starlette:
        return Starlette(routes=[Route("/v1/messages", self._messages, methods=["POST"])])

    async def _messages(self, request: Request) -> JSONResponse:
        self.headers.append(dict(request.headers))
        if request.headers.get("x-api-key") != KEY:
            said = request.headers.get("x-api-key", "nothing")
            return _error(401, "authentication_error", f"invalid x-api-key {said}")
        body = await request.json()
        if problem := _problem(request, body):
            return _error(400, "invalid_request_error", problem)
        if body["model"] != NAME:
            return _error(404, "not_found_error", f"model: {body['model']}")
        self.asked.append(body)
        return JSONResponse(await asyncio.to_thread(self._message, body))

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        system = [{"role": "system", "content": body["system"]}] if "system" in body else []
        turns = [*system, *({**turn, "content": _text(turn)} for turn in body["messages"])]
        begun = turns[-1]["role"] == "assistant"
        text = self.tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=not begun, continue_final_message=begun
        )
        tokens = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        asked = {"max_tokens": body["max_tokens"], "stop": body.get("stop_sequences")}
        choice = self._choice(tokens, asked)
        written = len(self._written(tokens, asked)[0])
        reason = {"length": "max_tokens", "stop": "end_turn"}[choice["finish_reason"]]
        stop = choice.get("stop_reason")
        content = [{"type": "text", "text": choice["text"]}] if choice["text"] else []
        self.counts.append((len(tokens), written))
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": NAME,
            "content": content,
            "stop_reason": "stop_sequence" if stop else reason,
            "stop_sequence": stop,
            "usage": {
                "input_tokens": len(tokens) - 2,
                "cache_read_input_tokens": 2,
                "cache_creation_input_tokens": None,
                "output_tokens": written,
            },
        }


def _text(turn: dict[str, Any]) -> str:
    """Of one text, or of blocks of texts."""
    content = turn["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _problem(request: Request, body: dict[str, Any]) -> str | None:
    if request.headers.get("anthropic-version") != "2023-06-01":
        return "anthropic-version: header is required"
    if unknown := sorted(set(body) - FIELDS):
        return f"{unknown[0]}: Extra inputs are not permitted"
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    if not 0 <= body.get("temperature", 1.0) <= 1:
        return "temperature: range: 0..1"
    for stop in body.get("stop_sequences", ()):
        if not stop.strip():
            return "stop_sequences: each stop sequence must contain non-whitespace"
    turns = body["messages"]
    if turns[0]["role"] != "user" or {turn["role"] for turn in turns} > {"user", "assistant"}:
        return 'messages: first message must use the "user" role'
    if turns[-1]["role"] == "assistant" and _text(turns[-1]) != _text(turns[-1]).rstrip():
        return "messages: final assistant content cannot end with trailing whitespace"
    return None


def _error(status: int, kind: str, message: str) -> JSONResponse:
    said = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return JSONResponse(said, status_code=status)
