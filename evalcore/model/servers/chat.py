"""Models behind servers that take messages: `local-chat-completions`, `openai-chat-completions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from evalcore.errors import ModelError
from evalcore.model.base import (
    Answers,
    ChatTemplate,
    Conversation,
    EncodedRequest,
    Mode,
    ModelInfo,
    Request,
    Response,
    Turn,
)
from evalcore.model.capabilities import Capabilities
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.asked import Prompt, Prompted, Writing, check_kinds, with_limit
from evalcore.model.servers.client import Malformed
from evalcore.model.servers.identity import info_of, key_of, started
from evalcore.model.servers.secret import Secret
from evalcore.model.servers.served import Served, Service, choices_of
from evalcore.model.servers.writing import (
    OF_OPENAI,
    OF_SERVERS,
    ending_of,
    payload_of,
    response_by_text,
)

TEMPLATE = "{{ messages | tojson }}"
"""Stands in records and keys where the server's own template writes conversations."""

OF_SCORES = (
    "a server of messages says nothing of the tokens of a prompt; a server of completions does: "
    "--model local-completions"
)


class LocalChatCompletions:
    """A model behind a server of OpenAI's interface for conversations."""

    default_url = ""
    needs_key = False
    example = "http://localhost:8000/v1/chat/completions"
    """An address as it is stated."""
    variable = "OPENAI_API_KEY"
    key_header = "Authorization"
    limit = "max_tokens"
    """How the interface calls the number of tokens that may be written."""
    known = OF_SERVERS
    goes_on = False
    """Whether the interface says that an answer which is begun is gone on with."""

    capabilities = Capabilities(
        backend="local-chat-completions",
        loglikelihood=False,
        rolling=False,
        generate=True,
        tokens_in=False,
        tokens_out=False,
        prompt_logprobs=False,
        greedy=None,
        chat="messages",
        max_length_known=False,
        why_not=OF_SCORES,
    )

    reads_ahead = True

    def __init__(
        self, arguments: Arguments, *, mode: Mode = "compat", weights: bool = True
    ) -> None:
        """Meets the server, and has it write a word, before anything is asked of it.

        Without `weights` no server is asked anything. Raises ModelError for a server that is not
        what is stated, InfraError for one that is down.
        """
        self._arguments = arguments
        self._service, self._served = self._met(arguments, meets=weights)
        self._writing = Writing(
            eos=arguments.eos_string,
            think_end=arguments.think_end_token,
            known=self.known,
            mode=mode,
        )
        if weights:
            asked = Request("generate_until", _word(), generation={"max_gen_toks": 1})
            for _ in self.answer(self.encode([asked])):
                pass

    def _met(self, arguments: Arguments, *, meets: bool) -> tuple[Service, Served]:
        """The server, and what it says of itself where it is met."""
        secret = self._secret(needed=meets)
        url = arguments.base_url or self.default_url
        return started(arguments, url, secret, self.example, meets=meets)

    def _secret(self, *, needed: bool) -> Secret:
        backend = self.capabilities.backend
        needed = needed and self.needs_key
        return key_of(self.variable, backend, needed=needed, header=self.key_header)

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
        if batch_size not in (None, 1):
            raise ModelError(f"--batch_size: a request has one conversation, got {batch_size}")
        return cls(Arguments.of(arguments, messages=True), mode=mode, weights=weights)

    @property
    def info(self) -> ModelInfo:
        return info_of(self.capabilities.backend, self._arguments, self._served)

    @property
    def execution(self) -> dict[str, Any]:
        """What the answers say that they are of, and how many requests were sent again."""
        return {"generate_until": self._service.execution}

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        """Messages as they are. Raises ModelError for a name: the server has one template."""
        if name not in (None, "default"):
            raise ModelError(
                f"the server writes conversations by its own template, so {name!r} cannot be "
                "chosen: leave the name out"
            )
        return ChatTemplate(text=TEMPLATE, name=None, render=_as_text)

    def encode(self, requests: Sequence[Request], *, seed: int = 1234) -> list[EncodedRequest]:
        """Raises ModelError for prompts that are no conversation."""
        check_kinds(requests, self.capabilities.backend)
        seed = seed if self._arguments.seed is None else self._arguments.seed
        return [
            encoded
            for request in requests
            for encoded in self._writing.of(
                with_limit(request, self._arguments.max_gen_toks),
                self._messages(request),
                seed=seed,
            )
        ]

    def _messages(self, request: Request) -> Prompt:
        prompt = request.prompt
        if not isinstance(prompt, Conversation):
            raise ModelError(
                f"{self.capabilities.backend} is sent messages, and a prompt is one text: add "
                "--apply_chat_template"
            )
        if not prompt.answer_begins and not (self.goes_on or self._served.is_vllm):
            raise ModelError(
                "a task begins the model's answer, and nobody can tell whether this server goes "
                "on with it or begins another: choose another task, or a server of completions "
                "(--model local-completions)"
            )
        return prompt.messages

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        asked = [request for request in requests if isinstance(request, Prompted)]
        if not asked:
            return

        def read(place: int, answer: Mapping[str, Any]) -> Response:
            return self._response(asked[place], answer)

        yield from self._service.ask_all(map(self._body, asked), read)

    def _response(self, request: Prompted, answer: Mapping[str, Any]) -> Response:
        """Raises Malformed."""
        (choice,) = choices_of(answer, 1)
        message = choice.get("message")
        if not isinstance(message, dict):
            raise Malformed("it has no message")
        # vLLM's, DeepSeek's and SGLang's name for thoughts, and vLLM's newer one.
        thoughts = message.get("reasoning_content") or message.get("reasoning")
        ending = ending_of(choice)
        return response_by_text(request, message.get("content"), ending, thoughts=thoughts)

    def _body(self, request: Prompted) -> dict[str, Any]:
        payload = payload_of(request.plan, request.torch_seed, limit=self.limit)
        messages = request.prompt
        if isinstance(messages, list) and messages[-1]["role"] == "assistant":
            # vLLM's names; it alone is known to go on with what is begun.
            payload |= {"continue_final_message": True, "add_generation_prompt": False}
        return {"messages": messages, **payload}


class OpenAIChatCompletions(LocalChatCompletions):
    """The same at OpenAI's own address."""

    default_url = "https://api.openai.com/v1/chat/completions"
    needs_key = True
    limit = "max_completion_tokens"
    known = OF_OPENAI | {"reasoning_effort"}
    capabilities = replace(
        LocalChatCompletions.capabilities,
        backend="openai-chat-completions",
        why_not="it says nothing of the tokens of a prompt",
    )


def _as_text(messages: Sequence[Mapping[str, str]], answer_begins: bool) -> str:
    """For people, and for the samples: each turn under its role."""
    said = "\n".join(f"{message['role']}: {message['content']}" for message in messages)
    return f"{said}\nassistant: " if answer_begins else said


def _word() -> Conversation:
    template = ChatTemplate(text=TEMPLATE, name=None, render=_as_text)
    return Conversation((Turn("user", "Hello"),), answer_begins=True, template=template)
