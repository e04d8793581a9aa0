"""Models that are no models: for trying out tasks, and for tests of everything but models."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self
from uuid import uuid4

from jinja2 import Template

from evalcore.model.base import Answers, ChatTemplate, EncodedRequest, Mode, Request
from evalcore.model.text_lm import OF_TEXTS, TextBackend, TextRequest, response_of

REQUESTS_PER_PACK = 64

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}"
    "{% if not loop.last or add_generation_prompt %}</{{ message.role }}>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


class FakeLM(TextBackend):
    """Answers by a function of the request and of which of its repeats it is.

    The function returns (loglikelihood, is greedy) for a loglikelihood, a loglikelihood for a
    rolling one, and a text for a generation.
    """

    reads_ahead = True
    capabilities = OF_TEXTS(
        backend="fake",
        loglikelihood=True,
        rolling=True,
        generate=True,
        chat="text",
        images=True,  # a function looks at them, or does not
        sounds=True,
        stops=False,  # what the function returns is the answer
        max_length_known=True,  # nothing is too long for a function
    )

    def __init__(
        self, answer: Callable[[Request, int], Any], *, identity: str = "", name: str = "fake"
    ) -> None:
        """Two of the same `identity` share their answers in a journal; by default none do.

        `name` stands where a model's repository would.
        """
        super().__init__(name, identity or str(uuid4()))
        self._answer = answer

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        asked = [
            (i, request) for i, request in enumerate(requests) if isinstance(request, TextRequest)
        ]
        for start in range(0, len(asked), REQUESTS_PER_PACK):
            yield [
                (index, response_of(request, self._answer(request.request, request.repeat)))
                for index, request in asked[start : start + REQUESTS_PER_PACK]
            ]

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        """Each turn between its role's tags, whatever the name."""
        return ChatTemplate(text=TEMPLATE, name=name, render=_render)


def _render(messages: Sequence[Mapping[str, str]], answer_begins: bool) -> str:
    written = Template(TEMPLATE).render(messages=messages, add_generation_prompt=answer_begins)
    return str(written)


class DummyLM(FakeLM):
    """Numbers between -1 and 0 drawn by the request alone, and "lol" for every text."""

    capabilities = replace(FakeLM.capabilities, backend="dummy")

    def __init__(self) -> None:
        super().__init__(_dummy_answer, identity="dummy", name="dummy")

    @classmethod
    def from_arguments(
        cls,
        arguments: Mapping[str, Any],  # noqa: ARG003
        *,
        batch_size: int | None = None,  # noqa: ARG003
        device: str | None = None,  # noqa: ARG003
        mode: Mode = "compat",  # noqa: ARG003
        weights: bool = True,  # noqa: ARG003
    ) -> Self:
        """It has no arguments; lm-evaluation-harness, too, takes any and uses none."""
        return cls()


def _dummy_answer(request: Request, _repeat: int) -> Any:
    if request.kind == "generate_until":
        return "lol"
    number = -random.Random(f"{request.context}\0{request.continuation}").random()  # noqa: S311
    return number if request.kind == "loglikelihood_rolling" else (number, False)
