"""Small servers of OpenAI's and of Anthropic's documented interfaces, computed by a model of
`transformers`; and a proxy that does to their answers what networks and services do.

What a server may do, and do wrong, is a switch of its own (`Habits`).
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests import tiny

NAME, POSITIONS = "org/tiny", 128


def made(folder: Path, *, adds_bos: bool = True) -> Path:
    """A model that real servers take: heads of 32 numbers, as vLLM's kernels for the CPU want."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tiny.make(folder, adds_bos=adds_bos, positions=POSITIONS, chat_template=tiny.CHAT)
    stated = AutoConfig.from_pretrained(folder).to_dict()
    sizes = {"hidden_size": 128, "head_dim": 32, "num_attention_heads": 4}
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(AutoConfig.for_model(**{**stated, **sizes}))
    model.save_pretrained(folder)
    return folder


@contextmanager
def running(application: Any) -> Iterator[str]:
    """The address at which it answers."""
    config = uvicorn.Config(
        application, host="127.0.0.1", port=0, log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


OF_OPENAI = {
    "model", "prompt", "max_tokens", "temperature", "echo", "logprobs", "stop", "seed", "top_p",
}  # fmt: skip
"""What the documented interface of completions takes, as far as it is sent here."""


@dataclass
class Habits:
    """What a server does."""

    scores: str = "prompt_logprobs"
    """prompt_logprobs, echo or none."""
    tokenizes: bool = True
    """Whether it has /tokenize."""
    counts: bool = True
    """Whether it says how many tokens it read."""
    takes_tokens: bool = True
    shows_tokens: bool = True
    window: int | None = 128
    key: str = ""
    least_tokens: int = 0
    """That must be written."""
    knows_only_the_interface: bool = False
    """Whether it refuses what OpenAI's documentation does not have."""
    # Faults.
    adds_bos_to_tokens: bool = False
    shifted: bool = False
    """Log-probabilities are of the place before."""
    tempered: bool = False
    """Log-probabilities of a prompt are of a distribution that was sharpened."""
    flags: bool | None = None
    """What every token is said to be, whether it is the likeliest or not."""
    other_tokenizer: bool = False


@dataclass
class Small:
    """The model behind it."""

    folder: Path
    habits: Habits = field(default_factory=Habits)
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests for completions and conversations, as they came."""
    headers: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(self.folder)
        self.model = AutoModelForCausalLM.from_pretrained(self.folder).eval()

    def application(self) -> Starlette:
        routes = [
            Route("/v1/models", self._models),
            Route("/v1/completions", self._completions, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/tokenize", self._tokenize, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    def _denied(self, request: Request) -> JSONResponse | None:
        self.headers.append(dict(request.headers))
        key = self.habits.key
        if not key or request.headers.get("authorization") == f"Bearer {key}":
            return None
        said = request.headers.get("authorization", "nothing")
        return _error(401, f"Incorrect API key provided: {said}")

    async def _models(self, request: Request) -> JSONResponse:
        if denied := self._denied(request):
            return denied
        entry: dict[str, Any] = {"id": NAME, "object": "model", "owned_by": "tests"}
        if self.habits.window:
            entry["max_model_len"] = self.habits.window
        return JSONResponse({"object": "list", "data": [entry]})

    async def _tokenize(self, request: Request) -> JSONResponse:
        if not self.habits.tokenizes:
            return _error(404, "Not Found")
        body = await request.json()
        tokens = self.tokenizer(body["prompt"], add_special_tokens=False)["input_ids"]
        return JSONResponse({"tokens": self._read(tokens)})

    def _read(self, tokens: list[int]) -> list[int]:
        return [*tokens, *tokens[-1:]] if self.habits.other_tokenizer else tokens

    async def _completions(self, request: Request) -> JSONResponse:
        if denied := self._denied(request):
            return denied
        body = await request.json()
        self.asked.append(body)
        return await asyncio.to_thread(self._completed, body)

    def _completed(self, body: dict[str, Any]) -> JSONResponse:
        habits = self.habits
        if body.get("model") != NAME:
            return _error(404, f"The model {body.get('model')!r} does not exist")
        if habits.knows_only_the_interface and (more := sorted(set(body) - OF_OPENAI)):
            return _error(400, f"Unrecognized request argument supplied: {more[0]}")
        if body["max_tokens"] < habits.least_tokens:
            return _error(400, "max_tokens must be at least 1")
        given = body["prompt"]
        prompts = [given] if isinstance(given, str) or isinstance(given[0], int) else given
        if not habits.takes_tokens and not isinstance(prompts[0], str):
            return _error(422, "prompt: expected a string")
        read = [self._tokens_of(prompt) for prompt in prompts]
        for tokens in read:
            if habits.window and len(tokens) + max(body["max_tokens"], 1) > habits.window:
                return _error(400, f"the maximum context length is {habits.window} tokens")
        answer: dict[str, Any] = {
            "model": NAME,
            "system_fingerprint": "small-1",
            "choices": [
                {"index": place, **self._choice(tokens, body)} for place, tokens in enumerate(read)
            ],
        }
        if habits.counts:
            answer["usage"] = {
                "prompt_tokens": sum(map(len, read)),
                "completion_tokens": len(read) * body["max_tokens"],
            }
        return JSONResponse(answer)

    def _tokens_of(self, prompt: str | list[int]) -> list[int]:
        if isinstance(prompt, str):
            return self._read(list(self.tokenizer(prompt)["input_ids"]))
        return [0, *prompt] if self.habits.adds_bos_to_tokens else prompt

    def _logprobs(self, tokens: list[int]) -> Any:
        import torch

        with torch.inference_mode():
            logits = self.model(torch.tensor([tokens])).logits[0].double()
        return logits.log_softmax(-1)

    def _choice(self, tokens: list[int], body: dict[str, Any]) -> dict[str, Any]:
        written, first, ending = self._written(tokens, body)
        text = self.tokenizer.decode(written, skip_special_tokens=True)
        found: dict[str, Any] = {"finish_reason": ending}
        for stop in body.get("stop") or ():
            if stop in text:
                text, found["finish_reason"] = text.partition(stop)[0], "stop"
                found["stop_reason"] = stop
        if self.habits.shows_tokens and body.get("return_token_ids"):
            found["token_ids"] = written
        echoes = bool(body.get("echo")) and self.habits.scores == "echo"
        if body.get("prompt_logprobs") is not None and self.habits.scores == "prompt_logprobs":
            found["prompt_logprobs"] = self._by_number(tokens)
        if echoes:
            found["logprobs"] = self._by_place(tokens)
            text = self.tokenizer.decode(tokens) + text
        elif body.get("logprobs") and written:
            best = first.topk(body["logprobs"])
            names = [self._name(token, body) for token in best.indices.tolist()]
            tops = dict(zip(names, best.values.tolist(), strict=True))
            found["logprobs"] = {"top_logprobs": [tops], "token_logprobs": [0.0]}
        return {**found, "text": text}

    def _name(self, token: int, body: dict[str, Any]) -> str:
        if self.habits.shows_tokens and body.get("return_tokens_as_token_ids"):
            return f"token_id:{token}"
        return str(self.tokenizer.decode([token]))

    def _written(self, tokens: list[int], body: dict[str, Any]) -> tuple[list[int], Any, str]:
        row, first = list(tokens), None
        for _ in range(body["max_tokens"]):
            last = self._logprobs(row)[-1]
            first = last if first is None else first
            row.append(int(last.argmax()))
            text = self.tokenizer.decode(row[len(tokens) :])
            if row[-1] == self.tokenizer.eos_token_id:
                return row[len(tokens) :], first, "stop"
            if any(stop in text for stop in body.get("stop") or ()):
                break
        return row[len(tokens) :], first, "length"

    def _prompt(self, tokens: list[int]) -> list[tuple[float, int]]:
        """Log-probability and rank of each token but the first."""
        logprobs = self._logprobs(tokens)
        if self.habits.tempered:
            logprobs = (2 * logprobs).log_softmax(-1)
        shift = -1 if self.habits.shifted else 0
        found = []
        for place in range(1, len(tokens)):
            row = logprobs[max(0, place - 1 + shift)]
            own = row[tokens[place]]
            found.append((float(own), 1 + int((row > own).sum())))
        if self.habits.flags is not None:
            found = [(own, 1 if self.habits.flags else 2) for own, _ in found]
        return found

    def _by_number(self, tokens: list[int]) -> list[Any]:
        return [
            None,
            *(
                {str(token): {"logprob": own, "rank": rank}}
                for token, (own, rank) in zip(tokens[1:], self._prompt(tokens), strict=True)
            ),
        ]

    def _by_place(self, tokens: list[int]) -> dict[str, Any]:
        found = self._prompt(tokens)
        tops = [{"own": own, **({"top": own + 1e-9} if rank > 1 else {})} for own, rank in found]
        return {
            "tokens": [self.tokenizer.decode([token]) for token in tokens],
            "token_logprobs": [None, *(own for own, _ in found)],
            "top_logprobs": [None, *tops],
        }

    async def _chat(self, request: Request) -> JSONResponse:
        if denied := self._denied(request):
            return denied
        body = await request.json()
        self.asked.append(body)
        text = self.tokenizer.apply_chat_template(
            body["messages"],
            tokenize=False,
            add_generation_prompt=body.get("add_generation_prompt", True),
            continue_final_message=body.get("continue_final_message", False),
        )
        tokens = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        limit = body.get("max_tokens") or body["max_completion_tokens"]
        asked = {"max_tokens": limit, "stop": body.get("stop")}
        choice = await asyncio.to_thread(self._choice, tokens, asked)
        said = {"role": "assistant", "content": choice.pop("text")}
        return JSONResponse(
            {
                "model": NAME,
                "system_fingerprint": "small-1",
                "choices": [{"index": 0, "message": said, **choice}],
                "usage": {"prompt_tokens": len(tokens), "completion_tokens": limit},
            }
        )


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "code": status}}, status_code=status)


ANTHROPIC_KEY = "sk-ant-of-the-tests"
OF_ANTHROPIC = {
    "model", "messages", "system", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences",
}  # fmt: skip
"""The fields that are sent here; others are refused as unknown ones are there."""


@dataclass
class SmallAnthropic(Small):
    """Speaks version 2023-06-01, and is as strict as the documentation says."""

    counts: list[tuple[int, int]] = field(default_factory=list)
    """Tokens read and written, by request."""

    def application(self) -> Starlette:
        return Starlette(routes=[Route("/v1/messages", self._messages, methods=["POST"])])

    async def _messages(self, request: Request) -> JSONResponse:
        self.headers.append(dict(request.headers))
        if request.headers.get("x-api-key") != ANTHROPIC_KEY:
            said = request.headers.get("x-api-key", "nothing")
            return _anthropic_error(401, "authentication_error", f"invalid x-api-key {said}")
        body = await request.json()
        if problem := _problem(request, body):
            return _anthropic_error(400, "invalid_request_error", problem)
        if body["model"] != NAME:
            return _anthropic_error(404, "not_found_error", f"model: {body['model']}")
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
    if unknown := sorted(set(body) - OF_ANTHROPIC):
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


def _anthropic_error(status: int, kind: str, message: str) -> JSONResponse:
    said = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return JSONResponse(said, status_code=status)


# The proxy.

Fault = str | Callable[[dict[str, Any]], Any]
"""The name of a fault, or a function that changes an answer."""

SLOW = 600.0
"""Seconds until a slow server answers: longer than anybody waits."""


@dataclass
class FaultProxy:
    """Passes requests on; those for completions meet the faults in turn, and then none."""

    upstream: str
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None
    """What every request meets that no other fault waits for."""
    retry_after: str = "0"
    key: str = ""
    """Sent on in the place of whatever came."""
    times: list[float] = field(default_factory=list)
    """When requests for completions came, by the loop's clock."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Their bodies."""
    answered: int = 0
    """How many it has passed an answer on to."""
    at_work: int = 0
    most_at_work: int = 0

    def application(self) -> Starlette:
        route = Route("/{path:path}", self._pass, methods=["GET", "POST"])
        return Starlette(routes=[route])

    async def _pass(self, request: Request) -> Response:
        fault: Fault | None = None
        if request.url.path.endswith("completions"):
            self.times.append(asyncio.get_running_loop().time())
            self.asked.append(await request.json())
            fault = self.faults.pop(0) if self.faults else self.always
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            answer = await self._answer(request, fault)
            self.answered += 1
            return answer
        finally:
            self.at_work -= 1

    async def _answer(self, request: Request, fault: Fault | None) -> Response:
        match fault:
            case "429":
                headers = {"Retry-After": self.retry_after}
                return JSONResponse({"error": "slow down"}, status_code=429, headers=headers)
            case "500" | "503":
                return JSONResponse({"error": {"message": "broken"}}, status_code=int(fault))
            case "slow":
                await asyncio.sleep(SLOW)
            case "html":
                return Response("<html>gateway</html>", media_type="text/html")
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in ("authorization", "content-type")
        }
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        async with httpx2.AsyncClient(timeout=300) as http:
            found = await http.request(
                request.method,
                f"{self.upstream}{request.url.path}",
                content=await request.body(),
                headers=headers,
            )
        if fault == "cut":
            whole = {"content-length": str(len(found.content)), "content-type": "application/json"}
            return StreamingResponse(_half(found.content), headers=whole)
        if fault == "half":
            return Response(found.content[: len(found.content) // 2], media_type="application/json")
        content = found.content
        if callable(fault):
            content = json.dumps(fault(found.json())).encode()
        return Response(content, status_code=found.status_code, media_type="application/json")


async def _half(content: bytes) -> AsyncIterator[bytes]:
    yield content[: len(content) // 2]


def reordered(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "choices": answer["choices"][::-1]}


def without_a_choice(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "choices": answer["choices"][:-1]}


def of_another_prompt(answer: dict[str, Any]) -> dict[str, Any]:
    """The choices bear each other's numbers."""
    places = [choice["index"] for choice in answer["choices"]][::-1]
    choices = [
        {**choice, "index": place} for choice, place in zip(answer["choices"], places, strict=True)
    ]
    return {**answer, "choices": choices}
