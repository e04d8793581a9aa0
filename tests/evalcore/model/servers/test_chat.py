"""A model behind a server that takes messages writes, and is asked nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalcore.errors import InfraError, ModelError
from evalcore.formats.lmeval.results import results_json
from evalcore.library import evaluate
from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.evalcore.model.servers.conftest import direct_of
from tests.evalcore.model.servers.test_completions import answers
from tests.evalcore.model.servers.test_probe import SCORES
from tests.evalcore.toys import write_toys

TURNS = (
    Turn("user", "Which of these is made of wood?"),
    Turn("assistant", "a table"),
    Turn("user", "Which is wet?"),
)


@pytest.fixture
def given(address):
    return {
        "model": "org/tiny",
        "base_url": f"{address}/v1/chat/completions",
        "num_concurrent": "4",
        "max_retries": "1",
    }


def chat(given, name="local-chat-completions"):
    return backend_of(name).from_arguments(given, mode="strict")


def asked(lm, turns=TURNS, until=(), tokens=9, **others):
    prompt = Conversation(turns, turns[-1].role != "assistant", lm.chat_template())
    generation = {"until": list(until), "max_gen_toks": tokens, **others}
    return Request("generate_until", prompt, generation=generation)


class Talking:
    """Makes a conversation of each plain prompt, which such a server would be refused."""

    def __init__(self, lm):
        self.lm, self.capabilities, self.info = lm, lm.capabilities, lm.info
        self.answer, self.chat_template = lm.answer, lm.chat_template

    def encode(self, requests, *, seed=1234):
        template = self.lm.chat_template()
        talked = [
            replace(request, prompt=Conversation((Turn("user", request.context),), True, template))
            for request in requests
        ]
        return self.lm.encode(talked, seed=seed)


def test_messages_are_sent_as_messages_and_answered_as_the_template_says(small, given, folder):
    lm = chat(given)
    texts = [answer.text for answer in answers(lm, [asked(lm), asked(lm, until=["e"])])]
    assert small.asked[-1]["messages"] == [
        {"role": turn.role, "content": turn.content} for turn in TURNS
    ]
    direct = direct_of(folder, add_bos_token="False")  # the template writes none
    template = direct.chat_template()
    prompt = Conversation(TURNS, True, template)
    expected = answers(
        direct,
        [
            Request("generate_until", prompt, generation={"until": stops, "max_gen_toks": 9})
            for stops in ([], ["e"])
        ],
    )
    assert texts == [answer.text for answer in expected]


def test_it_conforms(given):
    report = examine(Talking(chat(given)))
    assert report.passed, str(report)
    for check in ("stop strings", "batch invariance", "determinism", "chat template"):
        assert report.of(check).verdict == "passed"


@pytest.mark.parametrize("name", ["local-chat-completions", "openai-chat-completions"])
def test_loglikelihoods_are_refused_before_the_first_request(name):
    with pytest.raises(ModelError, match=r"choose tasks that generate \(the style `generate`\)"):
        refuse_before(backend_of(name).capabilities, [SCORES], Settings())


def test_a_prompt_that_is_no_conversation_is_refused(given):
    with pytest.raises(ModelError, match="add --apply_chat_template"):
        chat(given).encode([Request("generate_until", "2 + 2 =")])


def test_an_answer_that_a_task_begins_needs_a_server_that_goes_on_with_it(given):
    lm = chat(given)
    with pytest.raises(ModelError, match="goes on with it or begins another"):
        lm.encode([asked(lm, (*TURNS, Turn("assistant", "It is")))])


def test_a_service_that_withholds_its_answer_has_said_nothing(proxied, given):
    proxy, address = proxied()
    lm = chat({**given, "base_url": f"{address}/v1/chat/completions"})

    def withheld(answer):
        (choice,) = answer["choices"]
        said = {**choice, "finish_reason": "content_filter", "message": {"content": None}}
        return {**answer, "choices": [said]}

    proxy.always = withheld
    (response,) = answers(lm, [asked(lm)])
    assert (response.text, response.finish_reason) == ("", "stop")


def test_thinking_is_cut_off_and_stops_within_it_are_none(small, given, proxied):
    proxy, address = proxied()
    base = {**given, "base_url": f"{address}/v1/chat/completions"}
    lm = chat({**base, "think_end_token": "</think>"})

    def thinks(answer):
        (choice,) = answer["choices"]
        said = {**choice, "message": {"content": "first\nsecond</think> It is a table.\nNo."}}
        return {**answer, "choices": [said]}

    proxy.always = thinks
    (response,) = answers(lm, [asked(lm, until=["\n"])])
    assert response.text == "It is a table."
    assert (response.thoughts, response.thinking) == ("first\nsecond", "ended")
    assert "stop" not in small.asked[-1]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thoughts_that_a_server_keeps_apart_are_kept_apart(small, given, proxied, name):
    proxy, address = proxied()
    lm = chat({**given, "base_url": f"{address}/v1/chat/completions"})
    said = {"content": "It is a table.", name: "Wood."}

    def thinks(answer):
        (choice,) = answer["choices"]
        return {**answer, "choices": [{**choice, "message": said}]}

    def thinks_too_long(answer):
        (choice,) = answer["choices"]
        cut = {**choice, "finish_reason": "length", "message": {**said, "content": None}}
        return {**answer, "choices": [cut]}

    proxy.always = thinks
    (response,) = answers(lm, [asked(lm)])
    assert (response.text, response.thoughts, response.thinking) == (
        "It is a table.", "Wood.", "ended",
    )  # fmt: skip
    proxy.always = thinks_too_long
    (response,) = answers(lm, [asked(lm, tokens=8)])
    assert (response.text, response.thoughts, response.thinking) == ("", "Wood.", "unended")


def test_bad_input_is_told_before_work_begins(small, given):
    def told(kind, name="local-chat-completions", **others):
        with pytest.raises(kind) as error:
            backend_of(name).from_arguments({**given, **others})
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "cannot be reached" in told(
        InfraError, base_url="http://127.0.0.1:9/v1/chat/completions"
    )
    assert "has no model 'other'" in told(ModelError, model="other")
    assert "tokenizer is not taken" in told(ModelError, tokenizer="org/tiny")
    assert "such as http://localhost:8000/v1/chat/completions" in told(
        ModelError, base_url=given["base_url"].replace("chat/", "")
    )
    assert "set the variable OPENAI_API_KEY" in told(ModelError, "openai-chat-completions")
    with pytest.raises(ModelError, match="a request has one conversation, got 4"):
        backend_of("local-chat-completions").from_arguments(given, batch_size=4)
    lm = chat(given)
    with pytest.raises(ModelError, match="'other' cannot be chosen"):
        lm.chat_template("other")


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
