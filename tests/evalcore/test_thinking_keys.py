"""What a model is told of thinking is in the key of a run and of a request, where it matters."""

from __future__ import annotations

import pytest

from evalcore.keys import run_key, run_key_of
from evalcore.library import evaluate
from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.reading import reader_of
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.servers.chat import LocalChatCompletions
from evalcore.model.servers.completions import LocalCompletions
from evalcore.model.vllm.arguments import VllmArguments
from evalcore.task.library.load import TaskLibrary
from tests import tiny
from tests.evalcore.toys import write_toys

THINKS = tiny.CHAT + "{% if enable_thinking %}<think>{% endif %}{{ style | default('') }}"
NOWHERE = "http://localhost:1/v1"
END = {"think_end_token": "</think>"}
TOLD = {
    "not to think": {"enable_thinking": False},
    "a style": {"chat_template_args": {"style": "!"}},
    "the end": END,
    "to think": {**END, "enable_thinking": True},
    "a budget": {**END, "thinking_budget": 20},
    "to think within a budget": {**END, "enable_thinking": True, "thinking_budget": 20},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("tiny"), chat_template=THINKS)


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    return write_toys(tmp_path_factory.mktemp("toys"))


def run(folder, toys, task, **arguments):
    (done,) = evaluate(
        "hf", task, model_args={"pretrained": str(folder), "dtype": "float32", **arguments},
        include_path=toys, limit=1, device="cpu", apply_chat_template=True, bootstrap_iters=0,
    )  # fmt: skip
    assert run_key_of(done.record) == done.record.run_key
    answers = [response["key"] for sample in done.samples for response in sample["responses"]]
    return done.record.run_key, answers[0]


def test_two_runs_share_a_key_only_where_thinking_is_the_same(folder, toys):
    keys = {name: run(folder, toys, "toy_written", **told) for name, told in TOLD.items()}
    keys["nothing"] = run(folder, toys, "toy_written")
    assert len({of_run for of_run, _ in keys.values()}) == len(keys)
    # To this template not to think is what it takes for granted: the prompt, and so the answer, is
    # the same.
    assert keys["nothing"][1] == keys["not to think"][1]
    assert len({of_request for _, of_request in keys.values()}) == len(keys) - 1


def test_strict_has_another_key_than_when_stops_were_found_in_the_thoughts(toys, monkeypatch):
    spec = TaskLibrary([toys]).one("toy_written")

    def key(mode):
        return run_key(spec, shots=0, mode=mode, cuts_thoughts=True)

    now = {mode: key(mode) for mode in ("compat", "strict")}
    monkeypatch.setattr("evalcore.keys._CUT_IN", dict.fromkeys(now, "cut"))
    assert key("compat") == now["compat"]
    assert key("strict") != now["strict"]


def test_a_likelihood_depends_on_what_the_template_is_told_alone(folder, toys):
    nothing = run(folder, toys, "toy_choice")
    not_to_think = run(folder, toys, "toy_choice", **TOLD["not to think"])
    style = run(folder, toys, "toy_choice", **TOLD["a style"])
    assert len({nothing[0], not_to_think[0], style[0]}) == 3
    assert nothing[1] == not_to_think[1] != style[1]
    for name in ("the end", "a budget"):
        assert run(folder, toys, "toy_choice", **TOLD[name]) == nothing


@pytest.mark.parametrize("told", [told for name, told in TOLD.items() if "budget" not in name])
def test_a_server_and_vllm_are_asked_as_hf_is(folder, told):
    arguments = {name: str(value) for name, value in told.items()}
    given = {"pretrained": str(folder), **arguments}
    hf = HuggingFaceLM.from_arguments(given, device="cpu", mode="strict", weights=False)
    vllm = reader_of(VllmArguments.of(given).reading, mode="strict")
    server = LocalCompletions.from_arguments(
        {
            "model": str(folder),
            "base_url": f"{NOWHERE}/completions",
            "max_length": "400",
            **arguments,
        },
        mode="strict",
        weights=False,
    )
    turns = (Turn("user", "Which?"),)
    asked_of = []
    for model in (hf, vllm, server):
        template = model.chat_template()
        assert template.arguments == hf.chat_template().arguments
        prompt = Conversation(turns, answer_begins=True, template=template)
        (asked,) = model.encode([Request("generate_until", prompt, generation={"until": ["a"]})])
        asked_of.append((asked.tokens, asked.plan))
    assert asked_of[0] == asked_of[1] == asked_of[2]


def test_what_a_chat_server_is_told_of_thinking_is_in_the_key_of_a_request():
    """By the argument of a generation that stands in the key of the run, too."""
    model = LocalChatCompletions.from_arguments(
        {"model": "a", "base_url": f"{NOWHERE}/chat/completions"}, weights=False
    )
    prompt = Conversation(
        (Turn("user", "Which?"),), answer_begins=True, template=model.chat_template()
    )
    keys = {
        model.encode([Request("generate_until", prompt, generation=told)])[0].key
        for told in (
            {},
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"chat_template_kwargs": {"enable_thinking": True}},
            {"reasoning_effort": "low"},
            {"thinking_token_budget": 100},
        )
    }
    assert len(keys) == 5


def test_arguments_that_say_nothing_are_in_no_record(folder):
    assert set(Arguments(pretrained=str(folder)).as_json()) == {"pretrained"}
