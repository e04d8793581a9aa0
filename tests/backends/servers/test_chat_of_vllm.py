"""A model behind vLLM's server that is sent messages writes what it writes run directly."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError
from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.conformance import examine
from tests.evalcore.model.servers.conftest import direct_of
from tests.evalcore.model.servers.test_chat import TURNS, Talking, asked, chat
from tests.evalcore.model.servers.test_completions import answers


@pytest.fixture
def given(served):
    return {
        "model": "org/tiny",
        "base_url": f"{served}/v1/chat/completions",
        "num_concurrent": "4",
        "max_retries": "1",
    }


def test_it_conforms(given):
    report = examine(Talking(chat(given)))
    assert report.passed, str(report)
    assert report.of("stop strings").verdict == "passed"


BEGUN = (*TURNS, Turn("assistant", "It is"))


@pytest.mark.parametrize("turns", [TURNS, BEGUN], ids=["answer", "begun"])
def test_texts_are_those_of_the_model_itself(given, folder, turns):
    direct = direct_of(folder, add_bos_token="False")  # the template writes none
    lm = chat(given)
    (found,) = answers(lm, [asked(lm, turns, tokens=12)])
    prompt = Conversation(turns, turns[-1].role != "assistant", direct.chat_template())
    generation = {"until": [], "max_gen_toks": 12}
    (expected,) = answers(direct, [Request("generate_until", prompt, generation=generation)])
    assert found.text.replace("\ufffd", "") == expected.text.replace("\ufffd", "")
    assert found.text.strip("\ufffd")


def test_a_wrong_key_is_told_before_work_begins(given, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with pytest.raises(ModelError, match="its key is refused"):
        chat(given)
