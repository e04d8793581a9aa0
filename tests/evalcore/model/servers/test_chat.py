"""Models behind servers that take messages, asked by us and by the real litellm over OpenAI's
interface; and models behind Anthropic's interface or TextSynth's: they say what they say when they
are run directly.

The services themselves are never reached: small servers speak their documented interfaces, and in
tests/backends vLLM speaks Anthropic's."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse
from starlette.routing import Route

from evalcore.errors import InfraError, ModelError
from evalcore.formats.lmeval.results import results_json
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from evalcore.model.servers import litellm
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.evalcore.model.asking import refusal_of
from tests.evalcore.model.servers.asking import (
    BEGUN,
    LONG,
    SCORED,
    SCORES,
    SYSTEM,
    TURNS,
    WRITTEN,
    Talking,
    answers,
    apart,
    asked,
    assert_answered_as_directly,
    assert_same,
)
from tests.evalcore.model.servers.small_server import ANTHROPIC_KEY, Small, running
from tests.evalcore.toys import write_toys

KEY = "sk-of-the-tests"


@pytest.fixture
def given(address):
    return {
        "model": "org/tiny",
        "base_url": f"{address}/v1/chat/completions",
        "num_concurrent": "4",
        "max_retries": "2",
    }


@pytest.fixture
def of_litellm(given, small, address, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    small.habits.key = KEY
    return {**given, "model": "openai/org/tiny", "base_url": f"{address}/v1"}


def chat(given, name="local-chat-completions"):
    return backend_of(name).from_arguments(given, mode="strict")


def test_messages_are_answered_as_the_template_says(small, given, folder):
    for stops in ([], ["e"]):
        assert_answered_as_directly(chat(given), folder, TURNS, stops)
    assert small.asked[-1]["messages"] == [
        {"role": turn.role, "content": turn.content} for turn in TURNS
    ]
    report = examine(Talking(chat(given)))
    assert report.passed, str(report)
    for check in ("stop strings", "batch invariance", "determinism", "chat template"):
        assert report.of(check).verdict == "passed"


@pytest.mark.parametrize(
    "name",
    ["local-chat-completions", "openai-chat-completions", "anthropic-chat", "litellm-chat"],
)
def test_loglikelihoods_are_refused_before_the_first_request(name):
    with pytest.raises(ModelError, match=r"choose tasks that generate \(the style `generate`\)"):
        refuse_before(backend_of(name).capabilities, [SCORES], Settings())


def test_what_is_no_conversation_that_is_asked_for_an_answer_is_refused(given):
    lm = chat(given)
    with pytest.raises(ModelError, match="add --apply_chat_template"):
        lm.encode([Request("generate_until", "2 + 2 =")])
    with pytest.raises(ModelError, match="goes on with it or begins another"):
        lm.encode([asked(lm, BEGUN)])


@pytest.fixture
def saying(proxied, given):
    """A model behind a server that says something of its own choice."""

    def of(message, finish_reason="stop", **stated):
        proxy, address = proxied()
        lm = chat({**given, "base_url": f"{address}/v1/chat/completions", **stated})

        def said(answer):
            (choice,) = answer["choices"]
            own = {**choice, "finish_reason": finish_reason, "message": message}
            return {**answer, "choices": [own]}

        proxy.always = said
        return lm

    return of


def test_a_service_that_withholds_its_answer_has_said_nothing(saying):
    lm = saying({"content": None}, "content_filter")
    (response,) = answers(lm, [asked(lm)])
    assert (response.text, response.finish_reason) == ("", "stop")


def test_thinking_is_cut_off_and_stops_within_it_are_none(small, saying):
    told = {"content": "first\nsecond</think> It is a table.\nNo."}
    lm = saying(told, think_end_token="</think>")
    (response,) = answers(lm, [asked(lm, until=["\n"])])
    assert response.text == "It is a table."
    assert (response.thoughts, response.thinking) == ("first\nsecond", "ended")
    assert "stop" not in small.asked[-1]


def test_thoughts_that_a_server_keeps_apart_are_kept_apart(saying):
    for name in ("reasoning_content", "reasoning"):
        lm = saying({"content": "It is a table.", name: "Wood."})
        (response,) = answers(lm, [asked(lm)])
        assert (response.text, response.thoughts) == ("It is a table.", "Wood.")
        assert response.thinking == "ended"
    lm = saying({"content": None, "reasoning": "Wood."}, "length")
    (response,) = answers(lm, [asked(lm, tokens=8)])
    assert (response.text, response.thoughts, response.thinking) == ("", "Wood.", "unended")


def test_bad_input_is_told_before_work_begins(small, given):
    def told(kind=ModelError, name="local-chat-completions", **others):
        return refusal_of(lambda: chat({**given, **others}, name), kind)

    assert "cannot be reached" in told(
        InfraError, base_url="http://127.0.0.1:9/v1/chat/completions"
    )
    assert "has no model 'other'" in told(model="other")
    assert "tokenizer is not taken" in told(tokenizer="org/tiny")
    assert "such as http://localhost:8000/v1/chat/completions" in told(
        base_url=given["base_url"].replace("chat/", "")
    )
    assert "set the variable OPENAI_API_KEY" in told(name="openai-chat-completions")
    with pytest.raises(ModelError, match="a request has one conversation, got 4"):
        backend_of("local-chat-completions").from_arguments(given, batch_size=4)
    with pytest.raises(ModelError, match="'other' cannot be chosen"):
        chat(given).chat_template("other")


def test_a_task_is_evaluated_and_its_record_is_unpinned(small, given, tmp_path):
    write_toys(tmp_path)
    (evaluation,) = evaluate(
        "local-chat-completions",
        ["toy_written"],
        model_args=given,
        include_path=tmp_path,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
        mode="strict",
    )
    record = evaluation.record
    assert record.model["unpinned"] is True
    assert record.chat["multiturn"] is True
    assert record.model["service"]["interface"] == "local-chat-completions"
    config = results_json([record], {}, {}, None)["config"]
    assert config["model"] == "local-chat-completions"
    assert config["model_args"]["base_url"] == given["base_url"]
    assert "hf" not in str(config)
    assert record.execution["generate_until"]["answered_by"]["org/tiny small-1"] > 1
    assert [turn["role"] for turn in small.asked[-1]["messages"]] == ["user", "assistant", "user"]


def test_litellm_answers_as_the_model_itself_and_conforms(of_litellm, folder):
    lm = chat(of_litellm, "litellm")
    assert_answered_as_directly(lm, folder, TURNS, ["e"])
    report = examine(Talking(lm))
    assert report.passed, str(report)


def test_our_limits_and_counts_hold_for_litellm(of_litellm):
    lm = chat({**of_litellm, "max_requests": "4"}, "litellm")
    requests = lm.encode([asked(lm, TURNS[:1], tokens=n) for n in range(2, 8)])
    with pytest.raises(ModelError, match="max_requests 4 would be exceeded"):
        list(lm.answer(requests))
    assert lm.execution["generate_until"]["used"]["requests"] == 4
    assert lm.info.as_json()["unpinned"] is True
    assert lm.info.service["version"].startswith("litellm ")


def test_a_busy_service_is_asked_again_by_us_and_not_by_litellm(proxied, of_litellm):
    proxy, address = proxied()
    lm = chat({**of_litellm, "base_url": f"{address}/v1"}, "litellm")
    proxy.times.clear()
    proxy.faults = ["429", "500"]
    (found,) = answers(lm, [asked(lm)])
    assert found.text
    assert len(proxy.times) == 3
    assert lm.execution["generate_until"]["retried"] == 2
    proxy.faults = ["500"] * 3
    with pytest.raises(InfraError, match=r"litellm://openai/ answers 500.*\(3 times\)"):
        answers(lm, [asked(lm)])


def test_bad_beginnings_of_litellm_are_told_in_a_sentence(of_litellm, monkeypatch):
    def told(**others):
        said = refusal_of(lambda: chat({**of_litellm, **others}, "litellm"))
        assert KEY not in said
        return said

    assert "litellm knows no provider of 'nobody'" in told(model="nobody")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    message = told()
    assert "its key is refused: set the variable OPENAI_API_KEY" in message
    assert "sk-wrong" not in message
    monkeypatch.setattr(litellm, "find_spec", lambda name: None)
    assert "which is not installed: pip install 'plumbline[litellm]'" in told()


# Anthropic's interface.


def anthropic_chat(given):
    return chat(given, "anthropic-chat-completions")


@pytest.mark.parametrize(
    ("turns", "stops"),
    [(TURNS, []), (SYSTEM, ["e"]), (BEGUN, ["\n", " ", "a", "o"])],
    ids=["plain", "system and a stop", "begun and many stops"],
)
def test_answers_are_those_of_the_model_itself(of_anthropic, folder, turns, stops):
    assert_answered_as_directly(anthropic_chat(of_anthropic), folder, turns, stops)


def test_it_is_asked_in_its_words_and_conforms(anthropic, of_anthropic):
    lm = anthropic_chat(of_anthropic)
    answers(lm, [asked(lm, SYSTEM, until=["\n\n", "\n", "END"], temperature=0.5)])
    body = anthropic.asked[-1]
    assert body["system"] == "Be short."
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["stop_sequences"] == ["END"]
    assert body["temperature"] == 0.5
    assert "seed" not in body
    assert anthropic.headers[-1]["x-api-key"] == ANTHROPIC_KEY
    assert "authorization" not in anthropic.headers[-1]
    said = lm.info.as_json()
    assert said["unpinned"] is True
    assert said["service"]["interface"] == "anthropic-chat-completions"
    assert lm.execution["generate_until"]["answered_by"]["org/tiny"] > 1
    assert ANTHROPIC_KEY not in str(said)
    report = examine(Talking(lm))
    assert report.passed, str(report)
    with pytest.raises(ModelError, match="temperature: range"):
        answers(lm, [asked(lm, temperature=1.5)])


def test_bad_beginnings_are_told_in_a_sentence(of_anthropic, monkeypatch):
    def told(**others):
        return refusal_of(lambda: anthropic_chat({**of_anthropic, **others}))

    assert "model: org/other" in told(model="org/other")
    assert "expected an address in full, such as https://api.anthropic.com" in told(
        base_url=of_anthropic["base_url"].replace("messages", "complete")
    )
    assert "api_key' is not taken: a key stands in the environment alone" in told(
        api_key=ANTHROPIC_KEY
    )
    assert "tokenizer is not taken" in told(tokenizer="org/tiny")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong")
    message = told()
    assert "its key is refused: set the variable ANTHROPIC_API_KEY" in message
    assert "sk-ant-wrong" not in message
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert "needs a key: set the variable ANTHROPIC_API_KEY" in told()


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
        yield (
            one,
            anthropic_chat(
                {**of_anthropic, "base_url": f"{address}/v1/messages", "max_retries": "2"}
            ),
        )


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
    lm = anthropic_chat({**of_anthropic, "max_total_tokens": "600"})
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


@pytest.mark.peer
def test_texts_are_those_of_lm_eval_s_own_client(of_anthropic):
    from lm_eval.api.instance import Instance
    from lm_eval.models.anthropic_llms import AnthropicChat

    lm = anthropic_chat(of_anthropic)
    peer = AnthropicChat(**{**of_anthropic, "num_concurrent": 4})
    talks = [TURNS, SYSTEM, TURNS[:1]]
    ours = answers(lm, [asked(lm, turns, until=["e"]) for turns in talks])
    theirs = apart(
        peer.generate_until,
        [
            Instance(
                "generate_until",
                {},
                (
                    peer.apply_chat_template(
                        [{"role": turn.role, "content": turn.content} for turn in turns]
                    ),
                    {"until": ["e"], "max_gen_toks": 9},
                ),
                0,
            )
            for turns in talks
        ],
    )
    assert [answer.text for answer in ours] == theirs


# TextSynth's interface.

TEXTSYNTH_KEY = "textsynth-of-the-tests"
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

    async def _asked(self, request: Asked, fields: set[str]) -> dict[str, Any] | JSONResponse:
        if request.headers.get("authorization") != f"Bearer {TEXTSYNTH_KEY}":
            return JSONResponse({"status": 403, "error": "invalid API key"}, status_code=403)
        body = await request.json()
        self.asked.append(body)
        if unknown := sorted({*body} - fields):
            return JSONResponse({"status": 400, "error": f"unknown {unknown[0]}"}, status_code=400)
        return body

    async def _complete(self, request: Asked) -> JSONResponse:
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

    async def _logprob(self, request: Asked) -> JSONResponse:
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


@pytest.fixture
def server(folder, monkeypatch):
    monkeypatch.setenv("TEXTSYNTH_API_SECRET_KEY", TEXTSYNTH_KEY)
    return SmallTextSynth(folder)


@pytest.fixture
def of_textsynth(server):
    with running(server.application()) as address:
        yield {"engine": "tiny", "base_url": f"{address}/v1", "max_retries": "1"}


def textsynth(given):
    return chat(given, "textsynth")


def test_textsynths_numbers_and_texts_are_those_of_the_model_itself(of_textsynth, direct):
    lm = textsynth(of_textsynth)
    assert_same(answers(lm, [*SCORED, *WRITTEN]), answers(direct, [*SCORED, *WRITTEN]))
    report = examine(lm)
    assert report.passed, str(report)
    with pytest.raises(ModelError, match="cut a prompt that is too long for the model"):
        answers(lm, [Request("generate_until", LONG, generation={"max_gen_toks": 5})])


def test_the_likeliest_token_is_the_one_that_may_be_drawn(server, of_textsynth):
    lm = textsynth(of_textsynth)
    answers(lm, WRITTEN[:1])
    assert (server.asked[-1]["top_k"], server.asked[-1]["temperature"]) == (1, 1.0)
    drawn = {"until": [], "max_gen_toks": 3, "temperature": 0.7, "top_p": 0.9}
    answers(lm, [Request("generate_until", "2 + 2", generation=drawn, repeats=2)])
    first, second = server.asked[-2:]
    assert "top_k" not in first
    assert first["seed"] != second["seed"]


@pytest.mark.parametrize("fault", ["doubles", "shifted", "flags"])
def test_a_textsynth_whose_numbers_are_not_what_they_say_is_refused(server, of_textsynth, fault):
    if fault == "doubles":
        server.doubles = True
    else:
        setattr(server.habits, fault, fault == "shifted")
    with pytest.raises(ModelError, match="is not what it says"):
        textsynth(of_textsynth)


def test_whole_texts_and_conversations_are_refused_before_the_first_request():
    class Rolling(type(SCORES)):
        output_type = "loglikelihood_rolling"

    capabilities = backend_of("textsynth").capabilities
    with pytest.raises(ModelError, match="how likely a whole text is"):
        refuse_before(capabilities, [Rolling()], Settings())
    with pytest.raises(ModelError, match="takes no conversation"):
        refuse_before(capabilities, [SCORES], Settings(apply_chat_template=True))


def test_bad_beginnings_of_textsynth_are_told_in_a_sentence(of_textsynth, monkeypatch):
    def told(**others):
        return refusal_of(lambda: textsynth({**of_textsynth, **others}))

    assert "leave tokenizer_backend and max_length out" in told(max_length="128")
    assert "404" in told(engine="other")
    monkeypatch.setenv("TEXTSYNTH_API_SECRET_KEY", "wrong")
    assert "its key is refused: set the variable TEXTSYNTH_API_SECRET_KEY" in told()
    monkeypatch.delenv("TEXTSYNTH_API_SECRET_KEY")
    assert "needs a key: set the variable TEXTSYNTH_API_SECRET_KEY" in told()


def test_a_run_with_textsynth_is_unpinned_counted_and_resumed(of_textsynth, tmp_path):
    write_toys(tmp_path / "tasks")

    def run():
        how = {"include_path": tmp_path / "tasks", "use_cache": tmp_path / "kept"}
        (found,) = evaluate(textsynth(of_textsynth), ["toy_likely"], mode="strict", **how)
        return found.record

    first, second = run(), run()
    assert first.model["unpinned"] is True
    assert TEXTSYNTH_KEY not in str(first)
    assert first.execution["loglikelihood"]["used"]["tokens_read"] > 100
    assert second.requests["journalled"] == second.requests["total"]
    assert second.results == first.results
