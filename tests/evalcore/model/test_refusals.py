"""What a backend cannot answer is refused before its first request, and before it is loaded."""

from __future__ import annotations

import dataclasses
import inspect
from typing import get_args

import pytest

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import Backend, Request
from evalcore.model.capabilities import Capabilities
from evalcore.model.fake import DummyLM, FakeLM
from evalcore.model.refusals import REFUSALS, Need, refuse
from evalcore.model.registry import MODELS, backend_of
from evalcore.refusals import KINDS
from evalcore.task.config import OUTPUT_TYPES
from tests.evalcore.peer.test_classes import CLASS, FILE
from tests.evalcore.toys import write_toys
from tests.evalcore.worlds import capitals

NOTHING = Capabilities(
    backend="a stone",
    loglikelihood=False,
    rolling=False,
    generate=False,
    tokens_in=False,
    tokens_out=False,
    prompt_logprobs=False,
    greedy=None,
    chat=None,
    max_length_known=False,
)


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    return write_toys(tmp_path_factory.mktemp("toys") / "toys")


class Mute(FakeLM):
    """Says nothing, and what it can be asked is given; nobody may ask it."""

    def __init__(self, **said):
        super().__init__(lambda *_: None)
        self.capabilities = dataclasses.replace(NOTHING, **said)

    def encode(self, requests, *, seed=1234):
        raise AssertionError("it was asked")


class Writes:
    def generate_until(self, requests):
        return ["" for _ in requests]

    def loglikelihood(self, requests):
        raise NotImplementedError


@pytest.mark.parametrize("need", REFUSALS)
def test_every_need_has_one_sentence_with_backend_and_way_out(need):
    with pytest.raises(ModelError) as refused:
        refuse(NOTHING, {need: ["arc", "mmlu", "race", "boolq"]})
    said = str(refused.value)
    assert "a stone" in said
    assert REFUSALS[need].way_out in said
    if "{who}" in REFUSALS[need].sentence:
        assert "arc, mmlu, race and 1 more need" in said
    assert "{" not in said


def test_the_table_has_every_need_and_every_kind_of_task_one():
    assert set(REFUSALS) == set(get_args(Need))
    assert set(KINDS) == set(OUTPUT_TYPES)
    assert set(KINDS.values()) <= set(REFUSALS)


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("toy_choice", "loglikelihood"),
        ("toy_likely", "loglikelihood"),
        ("toy_rolling", "loglikelihood_rolling"),
        ("toy_written", "generate_until"),
    ],
)
def test_a_task_that_a_backend_cannot_answer_is_refused_by_kind(toys, task, kind):
    with pytest.raises(ModelError, match=rf"a stone answers no {kind} request, which {task} needs"):
        evaluate(Mute(), [task], include_path=toys)


def test_all_that_lacks_is_said_at_once(toys):
    lacking = Mute(loglikelihood=True)
    with pytest.raises(ModelError) as refused:
        evaluate(
            lacking,
            ["toy_choice", "toy_written", "toy_rolling"],
            include_path=toys,
            apply_chat_template=True,
            forbid_truncation=True,
        )
    said = str(refused.value)
    assert "answers no loglikelihood request" not in said
    for need in ("no loglikelihood_rolling", "no generate_until", "no conversation", "how long"):
        assert need in said


def test_an_object_is_asked_only_what_it_has_methods_for(toys):
    with pytest.raises(ModelError, match="Writes answers no loglikelihood_rolling request"):
        evaluate(Writes(), ["toy_written", "toy_rolling"], include_path=toys)
    (finished,) = evaluate(Writes(), ["toy_written"], include_path=toys)
    assert finished.record.requests["total"] > 0


def test_what_a_task_that_is_a_class_asks_is_refused_when_it_is_known(tmp_path):
    (tmp_path / "code.py").write_text(CLASS.format(rows=capitals(5)))
    (tmp_path / "capitals.yaml").write_text(FILE)
    lacking = Mute(generate=True)
    with pytest.raises(ModelError, match="no loglikelihood request, which the task needs"):
        evaluate(lacking, ["capitals"], include_path=tmp_path)


def test_an_object_that_does_not_say_what_it_can_is_told_to(toys):
    class Unstated:
        info = encode = answer = None

    with pytest.raises(ModelError, match=r"Unstated does not say what it can.*Capabilities"):
        evaluate(Unstated(), ["toy_choice"], include_path=toys)


def test_the_command_refuses_before_it_loads_the_model(toys, monkeypatch, capsys):
    def never(*_, **__):
        raise AssertionError("it was loaded")

    monkeypatch.setattr(DummyLM, "capabilities", dataclasses.replace(NOTHING, backend="dummy"))
    monkeypatch.setattr(DummyLM, "from_arguments", never)
    command = ["run", "--model", "dummy", "--tasks", "toy_choice", "--include_path", str(toys)]
    assert main(command) == ModelError.exit_code
    assert "dummy answers no loglikelihood request" in capsys.readouterr().err


@pytest.mark.parametrize("name", MODELS)
def test_every_backend_is_made_in_the_same_way_and_states_what_it_can(name):
    backend = backend_of(name)
    assert isinstance(backend.capabilities, Capabilities)
    expected = inspect.signature(Backend.from_arguments).parameters
    found = inspect.signature(backend.from_arguments).parameters
    assert [(one.name, one.kind, one.default) for one in found.values()] == [
        (one.name, one.kind, one.default) for one in list(expected.values())[1:]
    ]


def test_the_kinds_that_a_fake_answers_are_those_it_states():
    model = FakeLM(lambda request, _: "" if request.kind == "generate_until" else (-1.0, True))
    (encoded,) = model.encode([Request("loglikelihood", "a", "b")])
    assert next(iter(model.answer([encoded])))[0][1].loglikelihood == -1.0
    refuse(model.capabilities, {"loglikelihood": ["any"], "conversations": []})
