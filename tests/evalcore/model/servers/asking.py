"""What models behind servers are asked, and what the same model says when it is run directly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.registry import backend_of
from tests.evalcore.model.asking import answers_of
from tests.evalcore.model.servers.conftest import direct_of

SCORED = [
    Request("loglikelihood", "Question: Which of these is made of wood?\nAnswer:", " a table"),
    Request("loglikelihood", "Question: Which of these is made of wood?\nAnswer:", " a river"),
    Request("loglikelihood", "", " a table"),
    Request("loglikelihood", "2 + 2 = ", "4", repeats=2),
    Request("loglikelihood", "été 🙂", " été"),
]
ROLLING = [Request("loglikelihood_rolling", "", "The following are questions.\n" * 12)]
WRITTEN = [
    Request("generate_until", "Question: Which", generation={"until": [], "max_gen_toks": 9}),
    Request("generate_until", "2 + 2 =", generation={"until": ["a", "e"], "max_gen_toks": 12}),
    Request("generate_until", "Answer:", generation={"until": "\n", "max_gen_toks": 5}),
]
LONG = "Which of these is made of wood? " * 20
CUT = [
    Request("loglikelihood", LONG, " a table"),
    Request("loglikelihood_rolling", "", LONG),
    Request("generate_until", LONG, generation={"until": [], "max_gen_toks": 7}),
]
"""Longer than the model."""

TURNS = (
    Turn("user", "Which of these is made of wood?"),
    Turn("assistant", "a table"),
    Turn("user", "Which is wet?"),
)
SYSTEM = (Turn("system", "Be short."), *TURNS)
BEGUN = (*TURNS, Turn("assistant", "It is"))


class _Scores:
    """A task as far as it is looked at before the first request."""

    name = "arc_easy"
    output_type = "multiple_choice"
    python_class = None
    doc_to_image = None
    doc_to_audio = None

    def leaves(self) -> list[Any]:
        return [self]


SCORES: Any = _Scores()

answers = answers_of


def model(given: Any, **how: Any) -> Any:
    return backend_of("local-completions").from_arguments(given, mode="strict", **how)


def assert_same(found: Iterable[Any], expected: Iterable[Any]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-4)
        assert ours.is_greedy == theirs.is_greedy
        assert ours.text == theirs.text
        assert ours.n_truncated == theirs.n_truncated


def asked(lm: Any, turns: Any = TURNS, until: Any = (), tokens: int = 9, **others: Any) -> Request:
    """A conversation that is to be gone on with."""
    prompt = Conversation(turns, turns[-1].role != "assistant", lm.chat_template())
    generation = {"until": list(until), "max_gen_toks": tokens, **others}
    return Request("generate_until", prompt, generation=generation)


def assert_answered_as_directly(lm: Any, folder: Any, turns: Any, stops: Any) -> None:
    """A conversation is answered as by the model itself with its own template."""
    (found,) = answers(lm, [asked(lm, turns, until=stops, tokens=12)])
    direct = direct_of(folder, add_bos_token="False")  # the template writes none
    (expected,) = answers(direct, [asked(direct, turns, until=stops, tokens=12)])
    assert found.text == expected.text
    assert found.finish_reason == expected.finish_reason


class Talking:
    """Makes a conversation of each plain prompt, which such a server would be refused."""

    def __init__(self, lm: Any) -> None:
        self.lm, self.capabilities, self.info = lm, lm.capabilities, lm.info
        self.answer, self.chat_template = lm.answer, lm.chat_template

    def encode(self, requests: Iterable[Request], *, seed: int = 1234) -> Any:
        template = self.lm.chat_template()
        talked = [
            replace(request, prompt=Conversation((Turn("user", request.context),), True, template))
            for request in requests
        ]
        return self.lm.encode(talked, seed=seed)


def apart(ask: Callable[[Any], Any], requests: Any) -> Any:
    """Asked in a thread of its own: lm-evaluation-harness starts a loop, and a test process in
    which a browser was driven has one running already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ask, requests).result()
