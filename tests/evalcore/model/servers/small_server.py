"""A small server of OpenAI's interface, computed by a model of `transformers`.

What a server may do, and do wrong, is a switch of its own (`Habits`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

NAME = "org/tiny"

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
    at_work: int = 0
    most_at_work: int = 0

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
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await asyncio.sleep(0)
            return await asyncio.to_thread(self._completed, body)
        finally:
            self.at_work -= 1

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
