"""Models behind the servers of vLLM and of transformers say what they say when run directly."""

from __future__ import annotations

import pytest
from anthropic.types import Message, MessageCreateParams
from pydantic import TypeAdapter

from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import Request, Turn
from evalcore.model.conformance import examine
from evalcore.model.servers import probe
from evalcore.model.servers.scoring import ECHO, ECHO_AND_ONE, PROMPT_LOGPROBS
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.backends.servers.conftest import KEY
from tests.evalcore.model.servers import small_server
from tests.evalcore.model.servers.asking import (
    BEGUN,
    ROLLING,
    SCORED,
    SCORES,
    SYSTEM,
    TURNS,
    WRITTEN,
    Talking,
    answers,
    asked,
    assert_same,
    model,
)
from tests.evalcore.model.servers.conftest import direct_of, stated
from tests.evalcore.model.servers.small_server import FaultProxy, SmallAnthropic, running
from tests.evalcore.model.servers.test_chat import anthropic_chat, chat
from tests.evalcore.toys import write_toys

ASKED = [*SCORED, *ROLLING, *WRITTEN]


@pytest.mark.parametrize("batch_size", [None, 4])
def test_it_conforms(arguments, direct, batch_size):
    lm = model(arguments, batch_size=batch_size)
    assert lm.capabilities.loglikelihood, lm.capabilities.why_not
    report = examine(lm, reference=direct.reference)
    assert report.passed, str(report)
    assert {finding.verdict for finding in report.findings} == {"passed"}


@pytest.mark.parametrize("manner", [PROMPT_LOGPROBS, ECHO, ECHO_AND_ONE])
def test_numbers_and_texts_are_those_of_the_model_itself(arguments, direct, manner, monkeypatch):
    monkeypatch.setattr(probe, "MANNERS", [manner])
    lm = model(arguments)
    assert lm.capabilities.loglikelihood, lm.capabilities.why_not
    assert_same(answers(lm, ASKED), answers(direct, ASKED))


def test_texts_are_read_as_our_tokenizer_reads_them(arguments, direct):
    lm = model({**arguments, "tokenized_requests": "False"})
    asked = [*SCORED, Request("loglikelihood_rolling", "", "The following are"), *WRITTEN]
    assert_same(answers(lm, asked), answers(direct, asked))
    with pytest.raises(ModelError, match="state add_bos_token=True"):
        model({**arguments, "tokenized_requests": "False", "add_bos_token": "False"})


def test_what_goes_wrong_on_the_way_changes_nothing(served, folder, direct):
    proxy = FaultProxy(served)
    with running(proxy.application()) as address:
        lm = model(stated(address, folder), batch_size=3)
        proxy.faults = ["429", "500", "cut", "half", small_server.reordered]
        proxy.always = small_server.reordered
        assert_same(answers(lm, ASKED), answers(direct, ASKED))
        assert not proxy.faults


def test_bad_beginnings_are_told_in_a_sentence(arguments, monkeypatch):
    def told(**others):
        with pytest.raises(ModelError) as error:
            model({**arguments, **others})
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "has no model 'org/tny'" in told(model="org/tny")
    assert "expected at most 128" in told(max_length="129")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    assert "its key is refused" in told()


def test_the_record_says_who_answered_and_a_second_run_asks_nothing(arguments, tmp_path):
    write_toys(tmp_path / "tasks")

    def run():
        lm = model(arguments)
        how = {"include_path": tmp_path / "tasks", "use_cache": tmp_path / "kept"}
        found = evaluate(lm, ["toy_likely", "toy_rolling"], mode="strict", **how)
        return [evaluation.record for evaluation in found]

    first, second = run(), run()
    said = first[0].model
    assert said["unpinned"] is True
    assert (said["service"]["owned_by"], said["service"]["version"]) == ("vllm", "0.32.0")
    (answered,) = first[0].execution["loglikelihood"]["answered_by"]
    assert answered.startswith("org/tiny vllm-")
    assert [record.requests["journalled"] for record in first] == [0, 0]
    assert [r.requests["journalled"] for r in second] == [r.requests["total"] for r in second]
    assert [r.results for r in second] == [r.results for r in first]


@pytest.fixture
def chat_arguments(served):
    return {
        "model": "org/tiny",
        "base_url": f"{served}/v1/chat/completions",
        "num_concurrent": "4",
        "max_retries": "1",
    }


def test_its_conversations_conform(chat_arguments):
    report = examine(Talking(chat(chat_arguments)))
    assert report.passed, str(report)
    assert report.of("stop strings").verdict == "passed"


def assert_said_as_directly(lm, folder, turns, stops=()):
    """But for half a sign at the end, which a server may leave out."""
    direct = direct_of(folder, add_bos_token="False")  # the template writes none
    (found,), (expected,) = (
        answers(one, [asked(one, turns, until=stops, tokens=12)]) for one in (lm, direct)
    )
    assert found.text.replace("\ufffd", "") == expected.text.replace("\ufffd", "")
    return found, expected


@pytest.mark.parametrize("turns", [TURNS, BEGUN], ids=["answer", "begun"])
def test_conversations_are_those_of_the_model_itself(chat_arguments, folder, turns):
    found, _ = assert_said_as_directly(chat(chat_arguments), folder, turns)
    assert found.text.strip("\ufffd")


@pytest.fixture
def messages_arguments(served, monkeypatch):
    """It wants its key where OpenAI's interface has it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-nobody")
    with running(FaultProxy(served, key=KEY).application()) as address:
        yield {"model": "org/tiny", "base_url": f"{address}/v1/messages", "num_concurrent": "4"}


@pytest.mark.parametrize("turns", [TURNS, SYSTEM], ids=["plain", "system"])
@pytest.mark.parametrize("stops", [[], ["e"]], ids=["no stop", "a stop"])
def test_anthropics_interface_gives_the_texts_of_the_model_itself(
    messages_arguments, folder, turns, stops
):
    lm = anthropic_chat(messages_arguments)
    found, expected = assert_said_as_directly(lm, folder, turns, stops)
    assert found.finish_reason == expected.finish_reason
    used = lm.execution["generate_until"]["used"]
    assert used["tokens_written"] <= 13
    assert used["tokens_read"] > 0


def test_the_small_server_and_the_client_speak_as_the_official_types_say(folder, monkeypatch):
    small = SmallAnthropic(folder)
    begun = (*SYSTEM, Turn("assistant", "It is"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-tests")
    with running(small.application()) as address:
        lm = anthropic_chat({"model": "org/tiny", "base_url": f"{address}/v1/messages"})
        answers(lm, [asked(lm, begun, until=["e"], temperature=0.5, top_p=0.9)])
    body = small.asked[-1]
    TypeAdapter(MessageCreateParams).validate_python(body)
    Message.model_validate(small._message(body), strict=True)


def test_conversations_are_answered_as_by_the_model_itself(transformers_serve, folder):
    given = {"model": str(folder), "base_url": f"{transformers_serve}/v1/chat/completions"}
    lm = chat(given)
    for stops in ([], ["e"]):
        assert_said_as_directly(lm, folder, TURNS, stops)
    with pytest.raises(ModelError, match="choose tasks that generate"):
        refuse_before(lm.capabilities, [SCORES], Settings())


def test_prompts_are_not_scored(transformers_serve, folder):
    given = {
        "model": str(folder),
        "base_url": f"{transformers_serve}/v1/completions",
        "max_length": "128",
        "tokenized_requests": "False",
        "add_bos_token": "True",
        "max_retries": "1",
    }
    lm = model(given)
    assert not lm.capabilities.loglikelihood
    assert "it does not say how likely the tokens of a prompt are" in lm.capabilities.why_not
    with pytest.raises(ModelError, match="state tokenized_requests=False"):
        model({**given, "tokenized_requests": "True"})
