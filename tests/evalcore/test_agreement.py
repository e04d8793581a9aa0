"""Two runs of one model: answers within rounding agree, anything more does not; and they have one
key only where the model was told the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.agreement import BOUNDS, NotTheSame, agreement_of
from evalcore.cli import main
from evalcore.formats.run_files import Run, read_runs
from evalcore.keys import run_key_of
from evalcore.library import evaluate
from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.fake import FakeLM
from evalcore.model.servers.chat import LocalChatCompletions
from tests import tiny
from tests.evalcore.toys import ToyLM, write_run, write_toys

TASKS = "toy_choice,toy_written"
Change = Callable[[Request, Any], Any]


class OtherBackend(ToyLM):
    """The toy model, whose answers another backend rounds otherwise."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        own = self._by_rule
        FakeLM.__init__(
            self, lambda request, repeat: change(request, own(request, repeat)), identity="toy"
        )


def moved_by(nats: float) -> Change:
    def change(request: Request, answer: Any) -> Any:
        if request.kind != "loglikelihood":
            return answer
        return answer[0] + (nats if len(request.continuation) % 2 else -nats), answer[1]

    return change


def written_otherwise(request: Request, answer: Any) -> Any:
    return f"{answer}!" if request.kind == "generate_until" else answer


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """The folder of a run of the toys by the toy model, whose answers are changed so."""
    toys = write_toys(tmp_path_factory.mktemp("toys"))

    def run_of(change: Change, **how: Any) -> Path:
        how = {"include_path": toys, "bootstrap_iters": 10, **how}
        folder = tmp_path_factory.mktemp("run")
        write_run(folder, evaluate(OtherBackend(change), TASKS.split(","), **how))
        return folder

    return run_of


@pytest.fixture(scope="module")
def unchanged(run_of) -> Path:
    return run_of(moved_by(0.0))


@pytest.fixture(scope="module")
def choices(unchanged) -> Run:
    """What the unchanged run wrote of `toy_choice`."""
    return next(run for run in read_runs([unchanged]) if run.record.task == "toy_choice")


def agree(capsys, a: Path, b: Path) -> tuple[int, dict[str, Any]]:
    status = main(["agree", str(a), str(b), "--json"])
    return status, {row["task"]: row for row in json.loads(capsys.readouterr().out)}


def test_rounding_agrees_and_more_than_that_or_another_text_is_told(unchanged, run_of, capsys):
    status, rows = agree(capsys, unchanged, run_of(moved_by(2e-4)))
    assert status == 0
    choice = rows["toy_choice"]
    assert choice["within"]
    assert choice["largest"] == pytest.approx(2e-4)
    assert (choice["documents"], choice["beyond"], choice["scored_otherwise"]) == (12, 0, 0)
    assert choice["responses"] > choice["documents"]
    assert rows["toy_written"]["responses"] >= rows["toy_written"]["documents"]

    moved = run_of(moved_by(0.5))
    status, rows = agree(capsys, unchanged, moved)
    assert status == 1
    assert rows["toy_choice"]["beyond"] == rows["toy_choice"]["responses"]
    assert not rows["toy_choice"]["within"]
    assert rows["toy_written"]["within"]
    assert main(["agree", str(unchanged), str(moved)]) == 1
    assert "loglikelihoods are too far apart" in capsys.readouterr().out

    _, rows = agree(capsys, unchanged, run_of(written_otherwise))
    assert rows["toy_written"]["texts"] == rows["toy_written"]["responses"]
    assert rows["toy_choice"]["texts"] == 0

    other = run_of(moved_by(0.0), num_fewshot=1)
    assert main(["agree", str(unchanged), str(other)]) == 2
    assert "another way of asking" in capsys.readouterr().err


@given(st.floats(-0.9, 0.9), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_every_response_within_its_bound_agrees_and_any_beyond_does_not(choices, share, at):
    fixed, relative = BOUNDS
    moved = json.loads(json.dumps(choices.samples))
    responses = [response for sample in moved for response in sample["responses"]]
    response = responses[at % len(responses)]
    own = response["loglikelihood"]
    bound = fixed + relative * abs(own)
    for times, beyond in ((share, 0), (1.1 if share > 0 else -1.1, 1)):
        response["loglikelihood"] = own + times * bound
        found = agreement_of(choices.record, choices.samples, choices.record, moved)
        assert found.beyond == beyond
        assert found.within == (beyond == 0)


def changed(run: Run, change: Callable[[list[Any]], object], **pins: Any) -> Any:
    """What is found where the other run has these samples, and both these pins."""
    record = replace(run.record, model={**run.record.model, **pins})
    samples = json.loads(json.dumps(run.samples))
    change(samples)
    return agreement_of(record, run.samples, record, samples)


@pytest.mark.parametrize(
    ("dtype", "nats", "within"),
    [("float32", 0.05, False), ("bfloat16", 0.05, True), ("bfloat16", 2.0, False)],
)
def test_half_precision_has_wider_bounds(choices, dtype, nats, within):
    def move(samples):
        samples[0]["responses"][0]["loglikelihood"] += nats

    assert changed(choices, move, dtype=dtype).within == within


def test_scores_that_move_where_no_likelihood_did_are_bounded(choices):
    def turn(samples):
        samples[0]["correct"] = 1 - samples[0]["correct"]

    found = changed(choices, turn)
    assert (found.beyond, found.scored_otherwise) == (0, 1)
    assert found.problems == ["1 of 12 documents score otherwise"]

    (own, *others) = choices.record.results
    mine = replace(choices.record, primary_metric=own.metric)
    assert own.stderr
    for errors, within in ((0.2, True), (0.3, False), (-0.3, False)):
        row = replace(own, value=own.value + errors * own.stderr)
        other = replace(mine, results=[row, *others])
        assert agreement_of(mine, choices.samples, other, choices.samples).within == within


@pytest.mark.parametrize(
    ("pin", "reason"),
    [
        ("commit", "another commit"),
        ("dtype", "another precision"),
        ("adapter", "another adapter"),
        ("quantisation", "another quantisation"),
        ("tokenizer_digest", "another tokenizer"),
    ],
)
def test_runs_of_two_models_are_refused(choices, pin, reason):
    other = replace(choices.record, model={**choices.record.model, pin: "other"})
    with pytest.raises(NotTheSame, match=reason):
        agreement_of(choices.record, choices.samples, other, choices.samples)


def test_answers_to_other_tokens_and_a_file_that_ends_early_are_not_compared(choices):
    def feed(samples):
        samples[3]["responses"][1]["key"] = "0" * 64

    with pytest.raises(NotTheSame, match="document 3: the two were fed other tokens"):
        changed(choices, feed)
    with pytest.raises(NotTheSame, match="ends before the other"):
        changed(choices, lambda samples: samples.pop())


# What a model is told of thinking is in the key of a run and of a request, where it matters


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


def test_a_likelihood_depends_on_what_the_template_is_told_alone(folder, toys):
    nothing = run(folder, toys, "toy_choice")
    not_to_think = run(folder, toys, "toy_choice", **TOLD["not to think"])
    style = run(folder, toys, "toy_choice", **TOLD["a style"])
    assert len({nothing[0], not_to_think[0], style[0]}) == 3
    assert nothing[1] == not_to_think[1] != style[1]
    for name in ("the end", "a budget"):
        assert run(folder, toys, "toy_choice", **TOLD[name]) == nothing


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
