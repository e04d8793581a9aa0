"""Models behind Anthropic's interface of messages: `anthropic-chat-completions`.

Source: Anthropic's documentation of the Messages API, version 2023-06-01.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalcore.model.base import Response
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.asked import Prompted
from evalcore.model.servers.chat import LocalChatCompletions
from evalcore.model.servers.client import Malformed
from evalcore.model.servers.identity import service_at
from evalcore.model.servers.served import Served, Service, named
from evalcore.model.servers.writing import Ending, payload_of, response_by_text

VERSION = {"anthropic-version": "2023-06-01"}

ENDINGS: Mapping[Any, Ending] = {
    "end_turn": "eos",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
"""What ended a text, by its `stop_reason`; any other is a stop."""


class AnthropicChat(LocalChatCompletions):
    """A model that is sent messages, with the system turn apart from them."""

    default_url = "https://api.anthropic.com/v1/messages"
    example = default_url
    needs_key = True
    variable = "ANTHROPIC_API_KEY"
    key_header = "x-api-key"
    known = frozenset(["temperature", "top_p", "top_k"])
    goes_on = True
    capabilities = replace(
        LocalChatCompletions.capabilities,
        backend="anthropic-chat-completions",
        why_not="it says nothing of the tokens of a prompt",
    )

    def _met(self, arguments: Arguments, *, meets: bool) -> tuple[Service, Served]:
        """Its list of models has no other names of theirs, and says nothing that is wanted."""
        stated = replace(arguments, header={**VERSION, **arguments.header})
        url = arguments.base_url or self.default_url
        service = service_at(stated, url, self._secret(needed=meets), self.example)
        return service, named(service, asked=meets)

    def _body(self, request: Prompted) -> dict[str, Any]:
        payload = payload_of(request.plan, request.torch_seed)
        payload.pop("seed", None)
        # Stops of nothing but whitespace are refused; a text that runs past one is cut here.
        stops = [stop for stop in payload.pop("stop", ()) if stop.strip()]
        messages = [turn for turn in request.prompt if isinstance(turn, dict)]
        system = "\n\n".join(turn["content"] for turn in messages if turn["role"] == "system")
        return {
            **({"system": system} if system else {}),
            "messages": [turn for turn in messages if turn["role"] != "system"],
            **payload,
            **({"stop_sequences": stops} if stops else {}),
        }

    def _response(self, request: Prompted, answer: Mapping[str, Any]) -> Response:
        """What it thought is in blocks of their own, which are no answer."""
        blocks = answer.get("content")
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise Malformed("it has no content")
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        if not all(isinstance(text, str) for text in texts):
            raise Malformed("its content has a text that is none")
        ending = ENDINGS.get(answer.get("stop_reason"), "stop")
        return response_by_text(request, "".join(map(str, texts)), ending)
