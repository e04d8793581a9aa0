"""A model behind Anthropic's interface as vLLM's server speaks it, and the types of its client."""

from __future__ import annotations

import pytest
from anthropic.types import Message, MessageCreateParams
from pydantic import TypeAdapter

from evalcore.model.base import Conversation, Request, Turn
from tests.backends.servers.conftest import KEY
from tests.evalcore.model.servers.anthropic_server import SmallAnthropic
from tests.evalcore.model.servers.conftest import direct_of
from tests.evalcore.model.servers.fault_proxy import FaultProxy
from tests.evalcore.model.servers.running import running
from tests.evalcore.model.servers.test_anthropic import SYSTEM, chat
from tests.evalcore.model.servers.test_chat import TURNS, asked
from tests.evalcore.model.servers.test_completions import answers


@pytest.fixture
def given(served, monkeypatch):
    """It wants its key where OpenAI's interface has it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-nobody")
    with running(FaultProxy(served, key=KEY).application()) as address:
        yield {"model": "org/tiny", "base_url": f"{address}/v1/messages", "num_concurrent": "4"}


@pytest.mark.parametrize("turns", [TURNS, SYSTEM], ids=["plain", "system"])
@pytest.mark.parametrize("stops", [[], ["e"]], ids=["no stop", "a stop"])
def test_texts_are_those_of_the_model_itself(given, folder, turns, stops):
    direct = direct_of(folder, add_bos_token="False")  # the template writes none
    lm = chat(given)
    (found,) = answers(lm, [asked(lm, turns, until=stops, tokens=12)])
    prompt = Conversation(turns, True, direct.chat_template())
    generation = {"until": stops, "max_gen_toks": 12}
    (expected,) = answers(direct, [Request("generate_until", prompt, generation=generation)])
    assert found.text.replace("\ufffd", "") == expected.text.replace("\ufffd", "")
    assert found.finish_reason == expected.finish_reason
    used = lm.execution["generate_until"]["used"]
    assert used["tokens_written"] <= 13
    assert used["tokens_read"] > 0


def test_the_small_server_and_the_client_speak_as_the_official_types_say(folder, monkeypatch):
    small = SmallAnthropic(folder)
    begun = (*SYSTEM, Turn("assistant", "It is"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-tests")
    with running(small.application()) as address:
        lm = chat({"model": "org/tiny", "base_url": f"{address}/v1/messages"})
        answers(lm, [asked(lm, begun, until=["e"], temperature=0.5, top_p=0.9)])
    body = small.asked[-1]
    TypeAdapter(MessageCreateParams).validate_python(body)
    Message.model_validate(small._message(body), strict=True)
