"""Models behind TextSynth's interface, of the service or of its own server: `textsynth`.

Source: TextSynth's documentation of `completions` and `logprob`. Both are sent texts; which tokens
they are read as, the server keeps to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import (
    Answers,
    ChatTemplate,
    EncodedRequest,
    Mode,
    ModelInfo,
    Request,
    Response,
)
from evalcore.model.capabilities import Capabilities
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.asked import Prompted, Writing, with_limit
from evalcore.model.servers.client import Dialect, Malformed
from evalcore.model.servers.identity import info_of, key_of, service_at
from evalcore.model.servers.probe import ABSOLUTE, ASKED, RELATIVE, UNREADABLE
from evalcore.model.servers.scoring import number_of
from evalcore.model.servers.served import named
from evalcore.model.servers.writing import Ending, payload_of, response_by_text
from evalcore.model.tokens.encoder import without_trailing_space

ADDRESS = "https://api.textsynth.com/v1"
EXAMPLE = "http://localhost:8080/v1"

KNOWN = frozenset(
    ["temperature", "top_k", "top_p", "presence_penalty", "frequency_penalty", "repetition_penalty"]
)
"""Generation arguments that it takes."""


TRIED = ("The following are", "2 + 2 =", "It is")
"""Beginnings that it is asked to go on with until it writes a word that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(EncodedRequest):
    """A context, and the continuation that is scored after it."""

    context: str
    continuation: str


def _sent(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without the model, which is in the address; a pair without what it is counted by."""
    own = ("model", "prompt", "max_tokens") if "continuation" in body else ("model",)
    return {name: value for name, value in body.items() if name not in own}


def _said(answer: Any) -> Any:
    """With the counts where OpenAI's interface has them."""
    if not isinstance(answer, Mapping):
        raise Malformed("it is no JSON object")
    usage = {
        "prompt_tokens": answer.get("input_tokens"),
        "completion_tokens": answer.get("output_tokens", 0 if "logprob" in answer else None),
    }
    return {**answer, "usage": usage}


class TextSynth:
    """A model that is sent texts, writes them on, and says how likely one is after another."""

    capabilities = Capabilities(
        backend="textsynth",
        loglikelihood=True,
        rolling=False,
        generate=True,
        tokens_in=False,
        tokens_out=False,
        prompt_logprobs=False,
        greedy=None,
        chat=None,
        max_length_known=False,
    )
    reads_ahead = True

    def __init__(
        self, arguments: Arguments, *, mode: Mode = "compat", weights: bool = True
    ) -> None:
        """Has it score and write a few words (`_try`) before anything is asked of it; without
        `weights` it is asked nothing. Raises ModelError and InfraError by whose fault it is."""
        secret = key_of("TEXTSYNTH_API_SECRET_KEY", "textsynth", needed=weights)
        base = (arguments.base_url or ADDRESS).rstrip("/")
        self._arguments = arguments
        self._mode = mode
        at = f"{base}/engines/{arguments.model}"
        self._writes = service_at(
            arguments, f"{at}/completions", secret, EXAMPLE, Dialect(_sent, _said)
        )
        self._scores = replace(self._writes, url=f"{at}/logprob")
        self._served = named(self._writes, asked=weights)
        if weights:
            self._try()

    @classmethod
    def from_arguments(
        cls,
        arguments: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        device: str | None = None,  # noqa: ARG003  # the server's own matter
        mode: Mode = "compat",
        weights: bool = True,
    ) -> Self:
        """`engine` is lm-evaluation-harness's name of `model`."""
        if batch_size not in (None, 1):
            raise ModelError(f"--batch_size: a request has one prompt, got {batch_size}")
        given = {"model" if name == "engine" else name: arguments[name] for name in arguments}
        stated = Arguments.of({"tokenizer_backend": "None", **given})
        if stated.reads_tokens or stated.max_length is not None:
            raise ModelError(
                "--model_args: textsynth is sent texts, which it reads by a tokenizer of its own: "
                "leave tokenizer_backend and max_length out"
            )
        return cls(stated, mode=mode, weights=weights)

    @property
    def info(self) -> ModelInfo:
        return info_of("textsynth", self._arguments, self._served)

    @property
    def execution(self) -> dict[str, Any]:
        how = self._writes.execution
        return {"loglikelihood": {**how, "path": "logprob"}, "generate_until": how}

    def chat_template(self, name: str | None = None) -> ChatTemplate:  # noqa: ARG002
        raise ModelError("textsynth is sent texts: leave apply_chat_template out")

    def encode(self, requests: Sequence[Request], *, seed: int = 1234) -> list[EncodedRequest]:
        """Raises ModelError for whole texts, whose windows only tokens tell."""
        seed = seed if self._arguments.seed is None else self._arguments.seed
        arguments = self._arguments
        writing = Writing(
            eos=arguments.eos_string, think_end=arguments.think_end_token, known=KNOWN,
            mode=self._mode,
        )  # fmt: skip
        encoded: list[EncodedRequest] = []
        for request in requests:
            if request.kind == "loglikelihood_rolling":
                raise ModelError("textsynth says nothing of whole texts: choose other tasks")
            if request.kind == "loglikelihood":
                encoded += [_pair(request)] * request.repeats
            else:
                stated = with_limit(request, arguments.max_gen_toks)
                encoded += writing.of(stated, request.context, seed=seed)
        return encoded

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        pairs = [(n, one) for n, one in enumerate(requests) if isinstance(one, Pair)]
        texts = [(n, one) for n, one in enumerate(requests) if isinstance(one, Prompted)]

        def scored(place: int, answer: Mapping[str, Any]) -> tuple[int, Response]:
            return pairs[place][0], _scored(pairs[place][1], answer)

        def written(place: int, answer: Mapping[str, Any]) -> tuple[int, Response]:
            return texts[place][0], _written(texts[place][1], answer)

        if pairs:
            for pack in self._scores.ask_all((_asked(one) for _, one in pairs), scored):
                yield [answered for _, answered in pack]
        if texts:
            for pack in self._writes.ask_all((_body(one) for _, one in texts), written):
                yield [answered for _, answered in pack]

    def _try(self) -> None:
        """Raises ModelError where its numbers do not add up, or it denies what it writes."""
        parts = [
            Request("loglikelihood", ASKED, " a table"),
            Request("loglikelihood", ASKED, " a"),
            Request("loglikelihood", f"{ASKED} a", " table"),
        ]
        whole, first, second = (one.loglikelihood for one in self._answers(parts))
        if abs(whole - first - second) > ABSOLUTE + RELATIVE * abs(whole):
            raise ModelError(
                f"textsynth gives ' a table' the log-probability {whole:.4g}, and its two words "
                f"{first + second:.4g} one after the other, so one of the two is not what it says: "
                "choose another server, or another backend, such as --model hf"
            )
        for prompt in (ASKED, *TRIED):
            word = Request("generate_until", prompt, generation={"until": [], "max_gen_toks": 1})
            said = self._answers([word])[0].text or ""
            if said.strip() and UNREADABLE not in said:
                self._compare(prompt, said)
                return

    def _compare(self, prompt: str, said: str) -> None:
        (again,) = self._answers([Request("loglikelihood", prompt, said)])
        if not again.is_greedy:
            raise ModelError(
                f"textsynth writes {said!r}, and says that it would not (is_greedy), so one of the "
                "two is not what it says: choose another server, or another backend, such as "
                "--model hf"
            )

    def _answers(self, requests: Sequence[Request]) -> list[Response]:
        encoded = self.encode(requests)
        found = dict(pair for pack in self.answer(encoded) for pair in pack)
        return [found[place] for place in range(len(encoded))]


def _pair(request: Request) -> Pair:
    context, continuation = without_trailing_space(request)
    asked = {"kind": request.kind, "context": context or "", "continuation": continuation}
    return Pair(key=digest_of(asked), context=context or "", continuation=continuation)


def _asked(request: Pair) -> dict[str, Any]:
    """Also as the budget counts it."""
    whole = request.context + request.continuation
    pair = {"context": request.context, "continuation": request.continuation}
    return {"prompt": whole, "max_tokens": 0, **pair}


def _body(request: Prompted) -> dict[str, Any]:
    """The likeliest tokens are those of the one that may be drawn."""
    payload = payload_of(request.plan, request.torch_seed)
    if not request.plan.sampled:
        payload |= {"top_k": 1, "temperature": 1.0}
    return {"prompt": request.prompt, **payload}


def _scored(request: Pair, answer: Mapping[str, Any]) -> Response:
    if not isinstance(answer.get("is_greedy"), bool):
        raise Malformed("it does not say is_greedy")
    return Response(
        key=request.key,
        kind="loglikelihood",
        loglikelihood=number_of(answer.get("logprob")),
        is_greedy=answer["is_greedy"],
        token_ids=(),
        token_logprobs=(),
        n_context_tokens=0,
        n_truncated=0,
    )


def _written(request: Prompted, answer: Mapping[str, Any]) -> Response:
    if answer.get("truncated_prompt"):
        raise ModelError(
            "textsynth cut a prompt that is too long for the model, and nobody can tell where: "
            "take fewer examples"
        )
    if not isinstance(answer.get("text"), str):
        raise Malformed("it has no text")
    full = answer.get("output_tokens") == request.plan.max_new_tokens
    ending: Ending = "length" if answer.get("finish_reason") == "length" or full else "stop"
    return response_by_text(request, answer["text"], ending)
