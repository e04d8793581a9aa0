"""Models that litellm asks: the real library before the small server of OpenAI's interface."""

from __future__ import annotations

import pytest

from evalcore.errors import InfraError, ModelError
from evalcore.model.base import Conversation, Request
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from evalcore.model.servers import litellm
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.evalcore.model.servers.conftest import direct_of
from tests.evalcore.model.servers.test_chat import TURNS, Talking, asked
from tests.evalcore.model.servers.test_completions import answers
from tests.evalcore.model.servers.test_probe import SCORES

KEY = "sk-of-the-tests"


@pytest.fixture
def given(address, small, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    small.habits.key = KEY
    return {
        "model": "openai/org/tiny",
        "base_url": f"{address}/v1",
        "num_concurrent": "4",
        "max_retries": "2",
    }


def chat(given, **how):
    return backend_of("litellm").from_arguments(given, mode="strict", **how)


@pytest.mark.parametrize("stops", [[], ["e"]], ids=["no stop", "a stop"])
def test_answers_are_those_of_the_model_itself(given, folder, stops):
    lm = chat(given)
    (found,) = answers(lm, [asked(lm, until=stops, tokens=12)])
    direct = direct_of(folder, add_bos_token="False")  # the template writes none
    prompt = Conversation(TURNS, True, direct.chat_template())
    generation = {"until": stops, "max_gen_toks": 12}
    (expected,) = answers(direct, [Request("generate_until", prompt, generation=generation)])
    assert found.text == expected.text


def test_it_conforms(given):
    report = examine(Talking(chat(given)))
    assert report.passed, str(report)


def test_our_limits_and_counts_hold(small, given):
    lm = chat({**given, "max_requests": "4"})
    small.most_at_work = 0
    requests = lm.encode([asked(lm, TURNS[:1], tokens=n) for n in range(2, 8)])
    with pytest.raises(ModelError, match="max_requests 4 would be exceeded"):
        list(lm.answer(requests))
    assert lm.execution["generate_until"]["used"]["requests"] == 4
    assert lm.info.as_json()["unpinned"] is True
    assert lm.info.service["version"].startswith("litellm ")


def test_a_busy_service_is_asked_again_by_us_and_by_nobody_else(proxied, given):
    proxy, address = proxied()
    lm = chat({**given, "base_url": f"{address}/v1"})
    proxy.times.clear()
    proxy.faults = ["429", "500"]
    (found,) = answers(lm, [asked(lm)])
    assert found.text
    assert len(proxy.times) == 3
    assert lm.execution["generate_until"]["retried"] == 2
    proxy.faults = ["500"] * 3
    with pytest.raises(InfraError, match=r"litellm://openai/ answers 500.*\(3 times\)"):
        answers(lm, [asked(lm)])


def test_loglikelihoods_are_refused_before_the_first_request():
    with pytest.raises(ModelError, match=r"choose tasks that generate \(the style `generate`\)"):
        refuse_before(backend_of("litellm-chat").capabilities, [SCORES], Settings())


def test_bad_beginnings_are_told_in_a_sentence(given, monkeypatch):
    def told(**others):
        with pytest.raises(ModelError) as error:
            chat({**given, **others})
        assert "\n" not in str(error.value)
        assert KEY not in str(error.value)
        return str(error.value)

    assert "litellm knows no provider of 'nobody'" in told(model="nobody")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    message = told()
    assert "its key is refused: set the variable OPENAI_API_KEY" in message
    assert "sk-wrong" not in message
    monkeypatch.setattr(litellm, "find_spec", lambda name: None)
    assert "which is not installed: pip install 'plumbline[litellm]'" in told()
