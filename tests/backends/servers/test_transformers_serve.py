"""The server of transformers: conversations and texts are written, prompts are not scored."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError
from evalcore.model.base import Conversation, Request
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.evalcore.model.servers.conftest import direct_of
from tests.evalcore.model.servers.test_chat import TURNS, asked, chat
from tests.evalcore.model.servers.test_completions import answers, model
from tests.evalcore.model.servers.test_probe import SCORES


def test_conversations_are_answered_as_by_the_model_itself(transformers_serve, folder):
    given = {"model": str(folder), "base_url": f"{transformers_serve}/v1/chat/completions"}
    lm = chat(given)
    direct = direct_of(folder, add_bos_token="False")  # the template writes none
    for stops in ([], ["e"]):
        (found,) = answers(lm, [asked(lm, until=stops, tokens=12)])
        prompt = Conversation(TURNS, True, direct.chat_template())
        generation = {"until": stops, "max_gen_toks": 12}
        (expected,) = answers(direct, [Request("generate_until", prompt, generation=generation)])
        assert found.text == expected.text
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
