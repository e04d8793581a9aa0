"""A model behind Anthropic's interface of messages writes what it writes when it is run directly.

The service itself is never reached: a small server speaks its documented interface, and in
tests/backends vLLM's does.
"""

from __future__ import annotations

import time

import pytest
from starlette.applications import Starlette
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse
from starlette.routing import Route

from evalcore.errors import InfraError, ModelError
from evalcore.library import evaluate
from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.evalcore.model.servers.anthropic_server import KEY
from tests.evalcore.model.servers.conftest import direct_of
from tests.evalcore.model.servers.running import running
from tests.evalcore.model.servers.test_chat import TURNS, Talking, asked
from tests.evalcore.model.servers.test_completions import answers
from tests.evalcore.model.servers.test_probe import SCORES
from tests.evalcore.toys import write_toys


def chat(given, **how):
    return backend_of("anthropic-chat-completions").from_arguments(given, mode="strict", **how)


SYSTEM = (Turn("system", "Be short."), *TURNS)
BEGUN = (*TURNS, Turn("assistant", "It is"))


@pytest.mark.parametrize("turns", [TURNS, SYSTEM, BEGUN], ids=["plain", "system", "begun"])
@pytest.mark.parametrize("stops", [[], ["e"], ["\n", " ", "a", "o"]], ids=["no", "one", "many"])
def test_answers_are_those_of_the_model_itself(of_anthropic, folder, turns, stops):
    lm = chat(of_anthropic)
    (found,) = answers(lm, [asked(lm, turns, until=stops, tokens=12)])
    direct = direct_of(folder, add_bos_token="False")  # the template writes none
    prompt = Conversation(turns, turns[-1].role != "assistant", direct.chat_template())
    generation = {"until": stops, "max_gen_toks": 12}
    (expected,) = answers(direct, [Request("generate_until", prompt, generation=generation)])
    assert found.text == expected.text
    assert found.finish_reason == expected.finish_reason


def test_the_system_turn_stands_apart_and_no_stop_is_blank(anthropic, of_anthropic):
    lm = chat(of_anthropic)
    answers(lm, [asked(lm, SYSTEM, until=["\n\n", "\n", "END"], temperature=0.5)])
    body = anthropic.asked[-1]
    assert body["system"] == "Be short."
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["stop_sequences"] == ["END"]
    assert body["temperature"] == 0.5
    assert "seed" not in body


def test_it_conforms(of_anthropic):
    report = examine(Talking(chat(of_anthropic)))
    assert report.passed, str(report)


def test_loglikelihoods_are_refused_before_the_first_request():
    with pytest.raises(ModelError, match=r"choose tasks that generate \(the style `generate`\)"):
        refuse_before(backend_of("anthropic-chat").capabilities, [SCORES], Settings())


def test_bad_beginnings_are_told_in_a_sentence(of_anthropic, monkeypatch):
    def told(**others):
        with pytest.raises(ModelError) as error:
            chat({**of_anthropic, **others})
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "model: org/other" in told(model="org/other")
    assert "expected an address in full, such as https://api.anthropic.com" in told(
        base_url=of_anthropic["base_url"].replace("messages", "complete")
    )
    assert "api_key' is not taken: a key stands in the environment alone" in told(api_key=KEY)
    assert "tokenizer is not taken" in told(tokenizer="org/tiny")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong")
    message = told()
    assert "its key is refused: set the variable ANTHROPIC_API_KEY" in message
    assert "sk-ant-wrong" not in message
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert "needs a key: set the variable ANTHROPIC_API_KEY" in told()


def test_a_request_that_the_service_refuses_says_why(of_anthropic):
    lm = chat(of_anthropic)
    with pytest.raises(ModelError, match="temperature: range"):
        answers(lm, [asked(lm, temperature=1.5)])
    with pytest.raises(ModelError, match="cannot end with trailing whitespace"):
        answers(lm, [asked(lm, (*TURNS, Turn("assistant", "It is ")))])


class Before:
    """Stands before the server, and gives each of its own answers once."""

    def __init__(self, server):
        self.server, self.own = server, []

    def application(self):
        return Starlette(routes=[Route("/v1/messages", self._answer, methods=["POST"])])

    async def _answer(self, request: Asked):
        if not self.own:
            return await self.server._messages(request)
        status, body, headers = self.own.pop(0)
        return JSONResponse(body, status, headers)

    def fails(self, status, kind, **headers):
        error = {"type": kind, "message": "try later", "details": {"error_code": kind}}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.own.append((status, {"type": "error", "error": error}, named))

    def says(self, content, stop_reason):
        self.own.append((200, {"content": content, "stop_reason": stop_reason}, {}))


@pytest.fixture
def before(anthropic, of_anthropic):
    """What stands before the server, and a model behind it that has said its first word."""
    one = Before(anthropic)
    with running(one.application()) as address:
        yield one, chat({**of_anthropic, "base_url": f"{address}/v1/messages", "max_retries": "2"})


def test_a_busy_service_is_asked_again_and_not_before_it_says(before):
    one, lm = before
    one.fails(429, "rate_limit_error", retry_after="1")
    one.fails(529, "overloaded_error")
    began = time.monotonic()
    (found,) = answers(lm, [asked(lm)])
    assert found.text
    assert time.monotonic() - began >= 1
    assert lm.execution["generate_until"]["retried"] == 2


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "enforced_spend_limit_reached"), (402, "billing_error")]
)
def test_a_spent_account_is_not_asked_again(before, status, kind):
    one, lm = before
    one.fails(status, kind)
    with pytest.raises(InfraError, match="the account behind ANTHROPIC_API_KEY has no credit"):
        answers(lm, [asked(lm)])
    assert lm.execution["generate_until"]["retried"] == 0


def test_what_it_thought_and_what_it_withholds_is_no_answer(before):
    one, lm = before
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}

    def answered(content, stop_reason):
        one.says(content, stop_reason)
        (found,) = answers(lm, [asked(lm)])
        return found.text, found.finish_reason

    texts = [thought, {"type": "text", "text": "a "}, {"type": "text", "text": "table"}]
    assert answered(texts, "end_turn") == ("a table", "eos")
    assert answered([], "refusal") == ("", "stop")
    assert answered([thought], "max_tokens") == ("", "length")
    one.says("a table", "end_turn")  # of another form: asked again
    assert answers(lm, [asked(lm)])[0].text
    assert lm.execution["generate_until"]["retried"] == 1


def test_its_counts_are_the_run_s(anthropic, of_anthropic):
    lm = chat({**of_anthropic, "max_total_tokens": "600"})
    before = dict(lm.execution["generate_until"]["used"])
    free = answers(lm, [asked(lm, tokens=12)])[0].text
    stop = next(sign for sign in free if sign.strip() and sign.isascii())
    answers(lm, [asked(lm, tokens=12, until=[stop])])
    after = lm.execution["generate_until"]["used"]
    (first_read, first_written), (read, written) = anthropic.counts[-2:]
    assert written < 12
    assert after["tokens_read"] - before["tokens_read"] == first_read + read
    assert after["tokens_written"] - before["tokens_written"] == first_written + written
    with pytest.raises(ModelError, match="max_total_tokens 600 would be exceeded"):
        answers(lm, [asked(lm, tokens=580)])


def test_a_task_is_evaluated_and_its_record_is_unpinned(anthropic, of_anthropic, tmp_path):
    write_toys(tmp_path)
    (evaluation,) = evaluate(
        "anthropic-chat-completions",
        ["toy_written"],
        model_args=of_anthropic,
        include_path=tmp_path,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
        mode="strict",
    )
    record = evaluation.record
    assert record.model["unpinned"] is True
    assert record.model["service"]["interface"] == "anthropic-chat-completions"
    assert record.execution["generate_until"]["answered_by"]["org/tiny"] > 1
    assert KEY not in str(record)
    assert anthropic.headers[-1]["x-api-key"] == KEY
    assert "authorization" not in anthropic.headers[-1]
