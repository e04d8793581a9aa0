"""Each check of parity turns red on an error that is planted: agreement is not for want of eyes.

The toy task has text that is not ASCII and examples; lm-evaluation-harness is asked once, in a
process of its own, and ours in this one, with one thing wrong at a time.
"""

from __future__ import annotations

import copy
import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalcore.model.base import Conversation, Request
from evalcore.score.metrics.registry import METRICS
from evalcore.task.asking import fewshot
from evalcore.task.library.load import TaskLibrary
from tests.hub import ROOT
from tests.parity.both import FAMILIES, Pair, run_both
from tests.parity.compare import Kind, compare
from tests.parity.likelihoods import compare_likelihoods
from tests.parity.orders import SYSTEM, Order, Setting
from tests.parity.our_side import RecordedLM, run
from tests.parity.table import Table

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

TASK = "parity_made_here"
SETTING = Setting(
    name="three-shot",
    num_fewshot=3,
    system_instruction=SYSTEM,
    apply_chat_template=True,
    fewshot_as_multiturn=True,
)


class Recording:
    """The table of a run of lm-evaluation-harness, and what it made of it."""

    def __init__(self, folder: Path, home: Path) -> None:
        order = Order(
            names=(TASK,), settings=(SETTING,), folders=(str(FAMILIES),), lm_evals_own=False
        )
        pairs = run_both("http://127.0.0.1:9", home, folder, {"planted": [order]})
        self.pair: Pair = pairs[0]
        self.table = Table.read(folder / "0-0" / "table.json")

    def found_by(self, table: Table | None = None) -> set[Kind]:
        """The checks that find something wrong with what we make of this table now.

        What was never recorded is made up, so that a wrong prompt is not the end of it.
        """
        model = RecordedLM(Table())
        answers = copy.deepcopy(table or self.table)

        def answer(request: Request, repeat: int) -> Any:
            return answers.record(request.kind, request.arguments, repeat, "")

        model._answer = answer
        ours = run(TaskLibrary([FAMILIES]), model, TASK, SETTING)
        return {difference.kind for difference in compare(ours, self.pair.theirs).differences}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return Recording(tmp_path_factory.mktemp("planted"), tmp_path_factory.mktemp("hf_home"))


def test_with_nothing_planted_nothing_is_found(recording: Recording) -> None:
    assert recording.pair.compared is not None
    assert recording.pair.compared.differences == []
    assert recording.found_by() == set()


def test_a_swapped_example_is_found(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = fewshot.CompatSampler.draw

    def swapped(self: Any, question: Any) -> list[int]:
        rows = drawn(self, question)
        is_hit = question.doc["text"].startswith("Word 7 ")
        return [rows[1], rows[0], *rows[2:]] if is_hit else rows

    assert recording.found_by() == set()
    monkeypatch.setattr(fewshot.CompatSampler, "draw", swapped)
    assert recording.found_by() >= {"text", "hash"}


def test_one_space_more_in_a_prompt_is_found(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    text_of = Conversation.text.func
    monkeypatch.setattr(Conversation, "text", property(lambda self: text_of(self) + " "))
    assert recording.found_by() >= {"text", "hash"}


def test_a_shifted_response_is_found(recording: Recording) -> None:
    shifted = copy.deepcopy(recording.table)
    key = sorted(shifted.responses)[0]
    value, flag = shifted.responses[key]
    shifted.responses[key] = [value + 1e-9, flag]
    assert "response" in recording.found_by(shifted)


def test_acc_norm_by_bytes_is_found_on_text_that_is_not_ascii(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_bytes = METRICS["acc_bytes"]
    monkeypatch.setitem(METRICS, "acc_norm", by_bytes)
    assert recording.found_by() == {"score", "aggregate"}


def test_a_standard_error_over_n_is_found(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalcore.score.numbers import aggregate

    right = aggregate.compat_stderr

    def over_n(name: str, items: Any, iters: int) -> float | None:
        value = right(name, items, iters)
        return value if value is None else value * ((len(items) - 1) / len(items)) ** 0.5

    monkeypatch.setattr(aggregate, "compat_stderr", over_n)
    assert recording.found_by() == {"aggregate"}


def test_one_shifted_logit_of_a_model_is_found(tmp_path: Path) -> None:
    """One row of the output matrix is a thousandth off: one token's logit, nothing else."""
    import torch
    from safetensors.torch import load_file, save_file

    from tests.parity.test_model import our_answers, our_model, their_answers, their_model

    right = ROOT / "demo" / "content" / "models" / "plumbline-demo" / "novice-llama"
    wrong = shutil.copytree(right, tmp_path / "wrong")
    asked = [("The river", " is"), ("7 + 4 =", " 11"), ("Which of these", " is made of wood?")]
    requests = [Request("loglikelihood", *pair) for pair in asked]
    theirs = their_answers(their_model(right), "loglikelihood", asked)

    def found(folder: Path) -> tuple[list[Any], list[str]]:
        answers = our_answers(our_model(folder), requests)
        report = compare_likelihoods(
            {
                n: _line([answer.loglikelihood, answer.is_greedy])
                for n, answer in enumerate(answers)
            },
            {n: _line(logged) for n, logged in enumerate(theirs)},
        )
        return answers, report.beyond

    answers, beyond = found(right)
    assert beyond == []
    weights = load_file(wrong / "model.safetensors")
    name = "lm_head.weight" if "lm_head.weight" in weights else "model.embed_tokens.weight"
    with torch.no_grad():
        weights[name][answers[0].token_ids[0]] *= 1.01
    save_file(weights, wrong / "model.safetensors", metadata={"format": "pt"})
    assert found(wrong)[1] != []


def _line(answer: Any) -> Mapping[str, Any]:
    value, flag = answer
    return {
        "resps": [[[str(value), str(flag)]]],
        "arguments": {"gen_args_0": {"arg_0": "", "arg_1": ""}},
    }
