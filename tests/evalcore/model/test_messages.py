"""A prompt stays messages until the backend makes a text of it, or sends them as they are."""

from __future__ import annotations

import dataclasses
import json

import pytest

from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import ChatTemplate, Conversation, Request, Turn
from evalcore.model.fake import FakeLM
from tests.evalcore.toys import ToyLM, write_toys


class ChatServer(FakeLM):
    """Is sent messages; texts stand for them in the record and in keys alone."""

    def __init__(self):
        super().__init__(self._reply, identity="server", name="server")
        self.capabilities = dataclasses.replace(
            self.capabilities, loglikelihood=False, rolling=False, chat="messages"
        )
        self.sent = []

    def _reply(self, request, _):
        assert isinstance(request.prompt, Conversation)
        self.sent.append((request.prompt.messages, request.prompt.answer_begins))
        return "It is 1."

    def chat_template(self, name=None):
        return ChatTemplate(text="", name="messages", render=lambda turns, _: json.dumps(turns))


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    return write_toys(tmp_path_factory.mktemp("toys") / "toys")


def written(toys, **settings):
    server = ChatServer()
    (finished,) = evaluate(
        server, ["toy_written"], include_path=toys, limit=2, bootstrap_iters=0,
        apply_chat_template=True, **settings,
    )  # fmt: skip
    return server.sent, finished


def test_a_chat_server_is_sent_the_messages(toys):
    sent, finished = written(toys, system_instruction="Be brief.")
    messages, answer_begins = sent[0]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"] == "Be brief."
    assert messages[-1]["content"] == "What is the capital of country 0? Number?"
    assert answer_begins
    assert finished.samples[0]["prompt"] == json.dumps(messages)
    assert finished.record.chat["name"] == "messages"


def test_examples_may_be_one_question(toys):
    sent, _ = written(toys, fewshot_as_multiturn=False)
    (message,) = sent[0][0]
    assert message["role"] == "user"
    assert message["content"].count("Number?") == 2


def test_a_text_is_made_once_of_a_conversation_that_several_choices_follow(toys):
    made = []

    class Counts(ToyLM):
        def chat_template(self, name=None):
            template = super().chat_template(name)

            def render(turns, answer_begins):
                made.append(turns)
                return template.render(turns, answer_begins)

            return dataclasses.replace(template, render=render)

    evaluate(Counts(), ["toy_choice"], include_path=toys, limit=5, apply_chat_template=True)
    assert len(made) == 5


def test_a_conversation_is_asked_as_its_text_is():
    def render(turns, answer_begins):
        return "".join(turn["content"] for turn in turns) + "!" * answer_begins

    template = ChatTemplate(text="T", name=None, render=render)
    said = Conversation((Turn("user", "a "), Turn("assistant", "b")), False, template)
    kept, plain = Request("loglikelihood", said, " c"), Request("loglikelihood", "a b", " c")
    assert kept.context == "a b"
    assert kept.arguments == plain.arguments
    model = FakeLM(lambda *_: (-1.0, False))
    assert model.encode([kept])[0].key == model.encode([plain])[0].key
    assert said == Conversation(said.turns, False, ChatTemplate(text="", name="x", render=render))


def test_a_template_that_refuses_ends_the_run_before_an_answer(toys):
    class Refuses(ToyLM):
        def chat_template(self, name=None):
            def render(turns, answer_begins):
                raise ModelError("its chat template refuses a conversation: no")

            return ChatTemplate(text="T", name=None, render=render)

        def answer(self, requests):
            raise AssertionError("it was asked")

    with pytest.raises(ModelError, match="refuses a conversation: no"):
        evaluate(Refuses(), ["toy_choice"], include_path=toys, apply_chat_template=True)
