"""The engine as a library: `evalcore.evaluate` and `evalcore.simple_evaluate`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import evalcore
from evalcore.errors import ModelError, TaskError
from evalcore.formats.lmeval.samples import task_lines
from evalcore.record import read_samples
from tests import tiny
from tests.evalcore.toys import ToyLM, evaluated, write_toy, write_toys


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> Path:
    return write_toys(tmp_path_factory.mktemp("library"))


class ThreeMethods:
    """An object with lm-evaluation-harness's methods, which knows nothing of us."""

    def __init__(self) -> None:
        self.rule = ToyLM()._rule
        self.asked: dict[str, int] = {}

    def loglikelihood(self, requests):
        return [self.rule["likely"](*request.args) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [self.rule["rolled"](*request.args) for request in requests]

    def generate_until(self, requests):
        answers = []
        for request in requests:
            context = request.args[0]
            self.asked[context] = self.asked.get(context, -1) + 1
            answers.append(self.rule["written"](context, self.asked[context]))
        return answers


def test_importing_the_package_loads_nothing_heavy():
    program = """
import evalcore, sys
assert not {"torch", "transformers", "datasets", "numpy", "pyarrow"} & set(sys.modules)
assert callable(evalcore.evaluate) and callable(evalcore.simple_evaluate)
assert not {"torch", "transformers", "datasets"} & set(sys.modules)
"""
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr


def test_a_record_says_how_its_own_requests_were_computed(tasks, tmp_path):
    """The model remembers how it computed other kinds of requests for the task before."""
    choice, written = evalcore.evaluate(
        "hf", ["toy_choice", "toy_written"], model_args={"pretrained": str(tiny.make(tmp_path))},
        include_path=tasks, limit=2, bootstrap_iters=0,
    )  # fmt: skip
    assert list(choice.record.execution) == ["loglikelihood"]
    assert list(written.record.execution) == ["generate_until"]


def test_an_object_with_three_methods_gives_the_same_numbers(tasks):
    names = ["toy_choice", "toy_rolling", "toy_written"]
    foreign = evalcore.evaluate(ThreeMethods(), names, include_path=tasks, bootstrap_iters=100)
    own = evalcore.evaluate(ToyLM(), names, include_path=tasks, bootstrap_iters=100)
    for one, other in zip(foreign, own, strict=True):
        assert one.record.results == other.record.results
    assert foreign[0].record.model["repository"] == "ThreeMethods"


def test_simple_evaluate_gives_their_dictionary(tasks):
    results = evalcore.simple_evaluate(
        ToyLM(), tasks=["toy_group"], include_path=tasks, limit=4, bootstrap_iters=100
    )
    (one,) = evaluated(tasks, "toy_group", limit=4, bootstrap_iters=100)
    rows = {(row.task, row.metric, row.filter): row for row in one.record.results}
    assert results["results"]["toy_choice"]["acc,none"] == rows["toy_choice", "acc", "none"].value
    assert results["results"]["toy_group"]["sample_len"] == 12
    assert results["config"]["limit"] == 4
    logged = results["samples"]["toy_written"]
    assert [(line["doc_id"], line["filter"]) for line in logged[:5]] == [
        (0, "strict"), (1, "strict"), (2, "strict"), (3, "strict"), (0, "flexible"),
    ]  # fmt: skip
    first = results["samples"]["toy_choice"][0]
    assert isinstance(first["resps"][0][0][0], float)
    assert first["target"] == 0
    samples = [sample for sample in one.samples if sample["task"] == "toy_choice"]
    line = json.loads(next(task_lines(samples)))
    assert first["doc_hash"] == line["doc_hash"]
    assert first["prompt_hash"] == line["prompt_hash"]


@pytest.mark.peer
def test_simple_evaluate_takes_their_arguments():
    import lm_eval

    theirs = inspect.signature(lm_eval.simple_evaluate).parameters
    ours = inspect.signature(evalcore.simple_evaluate).parameters
    from evalcore.library import _WITHOUT_EFFECT

    assert set(theirs) - set(ours) == {*_WITHOUT_EFFECT, "task_manager"}
    for name in set(theirs) & set(ours):
        assert ours[name].default == theirs[name].default or name == "model_args", name


def test_what_is_no_argument_and_no_model_is_named(tasks):
    kept = {"include_path": tasks, "limit": 2, "tasks": ["toy_likely"], "bootstrap_iters": 0}
    evalcore.simple_evaluate(ToyLM(), verbosity="INFO", cache_requests=True, **kept)
    with pytest.raises(TypeError, match="num_fewshots"):
        evalcore.simple_evaluate(ToyLM(), num_fewshots=5, **kept)
    with pytest.raises(TaskError, match="at least one"):
        evalcore.simple_evaluate(ToyLM(), tasks=[], include_path=tasks)
    with pytest.raises(ModelError, match="got dict"):
        evalcore.evaluate({}, "toy_choice", include_path=tasks)


def test_a_task_without_a_number_raises_once_the_others_are_done(tmp_path):
    tasks = write_toys(tmp_path)
    (tasks / "code.py").write_text("def fails(doc, results):\n    raise SystemExit(3)\n")
    write_toy(tasks, "toy_broken", "toy_likely", process_results="!function code.fails")
    names = ["toy_broken", "toy_choice"]
    for evaluate in (evalcore.evaluate, evalcore.simple_evaluate):
        with pytest.raises(TaskError, match=r"toy_broken has no number: .*SystemExit: 3") as failed:
            evaluate(ToyLM(), tasks=names, include_path=tasks, bootstrap_iters=0)
        broken, whole = failed.value.finished
        assert [broken.record.task, whole.record.task] == names
        assert len(broken.samples) == 12
        assert whole.record.results


def test_a_journal_answers_for_the_model_it_knows(tasks, tmp_path):
    first = ToyLM()
    evalcore.evaluate(first, "toy_choice", include_path=tasks, use_cache=tmp_path)
    again = ToyLM()
    again._answer = None  # it cannot be asked
    (one,) = evalcore.evaluate(again, "toy_choice", include_path=tasks, use_cache=tmp_path)
    assert one.record.requests["journalled"] == one.record.requests["total"]


def test_a_task_may_be_stated_in_a_mapping(tasks):
    """As a file states it, whole; or a known one with other keys."""
    own = yaml.safe_load((tasks / "toy_choice.yaml").read_text())
    mine = {**own, "task": "mine", "doc_to_text": "{{question}}"}
    for stated in (mine, [mine]):
        (one,) = evalcore.evaluate(ToyLM(), stated, include_path=tasks, bootstrap_iters=0)
        assert (one.record.task, one.record.configs["mine"]["doc_to_text"]) == (
            "mine", "{{question}}",
        )  # fmt: skip
    group = {"group": "both", "task": ["toy_likely", {"task": "toy_rolling"}]}
    found = evalcore.simple_evaluate(
        ToyLM(), tasks=[{"task": "toy_choice", "num_fewshot": 2}, mine, group],
        include_path=tasks, bootstrap_iters=0,
    )  # fmt: skip
    assert found["n-shot"]["toy_choice"] == 2
    assert {"toy_choice", "mine", "toy_likely", "toy_rolling"} <= found["results"].keys()
    for wrong, said in (
        ({"task": "toy_choise"}, r"tasks\[0\]: there is no task, .*'toy_choise'.*toy_choice"),
        ({"dataset_path": "json"}, r"tasks\[0\]: expected a name, or a mapping with"),
        ({**mine, "doc_to_txt": "x"}, r"tasks\[0\]: .*doc_to_txt"),
        (7, r"tasks\[0\]: expected a name, or a mapping"),
    ):
        with pytest.raises(TaskError, match=said):
            evalcore.simple_evaluate(ToyLM(), tasks=[wrong], include_path=tasks)


HALF = "\ud83d"
"""Half of an emoji: JSON can hold it, UTF-8 cannot."""


def test_half_a_character_in_an_answer_loses_no_answer(tmp_path):
    """A server cuts a text within an emoji, or its task's code does."""
    tasks = write_toys(tmp_path)
    (tasks / "code.py").write_text(
        "def halves(doc, results):\n    return {'kept': 1.0, '\\ud83d': 0.5}\n"
        "def half(resps, docs):\n    return [[answer[0] + '\\ud83d'] for answer in resps]\n"
    )
    write_toy(
        tasks, "toy_filtered", "toy_written", repeats=1,
        filter_list=[{"name": "half", "filter": [
            {"function": "custom", "filter_fn": "!function code.half"}, {"function": "take_first"},
        ]}],
    )  # fmt: skip
    model = ThreeMethods()
    model.rule["written"] = lambda context, repeat: f"It is 3 {HALF} or {HALF}\ude00, {HALF}"
    for task in ("toy_written", "toy_filtered"):
        (one,) = evalcore.evaluate(
            model, task, include_path=tasks, limit=3, bootstrap_iters=0, use_cache=tmp_path / task
        )
        record, samples = one.write(tmp_path, task)
        assert record.exists()
        texts = {row["responses"][0]["text"] for row in read_samples(samples)}
        assert texts == {"It is 3 \ufffd or \N{GRINNING FACE}, \ufffd"}
        assert next(read_samples(samples))["filtered"]


def test_a_model_in_training_is_evaluated_and_left_as_it_was(tasks, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tiny.make(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder).train()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = ["toy_choice", "toy_rolling"]
    inside = evalcore.evaluate(model, names, tokenizer=tokenizer, include_path=tasks)
    assert model.training
    by_name = evalcore.evaluate("hf", names, model_args=f"pretrained={folder}", include_path=tasks)
    for one, other in zip(inside, by_name, strict=True):
        for row, twin in zip(one.record.results, other.record.results, strict=True):
            assert row.value == pytest.approx(twin.value, rel=1e-6)


def test_a_live_model_may_be_an_argument_and_its_tokenizer_a_path(tasks, tmp_path):
    """As lm-evaluation-harness's class for `hf` takes both."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tiny.make(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model.config.name_or_path = "nowhere/to-be-found"

    def numbers(model, stated=None, **beside):
        found = evalcore.simple_evaluate(
            model, stated, tasks=["toy_choice"], include_path=tasks, bootstrap_iters=0, **beside
        )
        json.dumps(found)
        return found["results"], found["samples"]

    expected = numbers(model, tokenizer=tokenizer)
    for stated, beside in (
        ({"pretrained": model, "tokenizer": tokenizer}, {}),
        ({"pretrained": model, "tokenizer": str(folder)}, {}),
        ({"pretrained": model}, {"tokenizer": folder}),
    ):
        assert numbers("hf", stated, **beside) == expected
    assert numbers(model, tokenizer=str(folder)) == expected
    assert numbers(model, {"tokenizer": tokenizer}) == expected
    short = {"pretrained": model, "tokenizer": tokenizer, "max_length": 16}
    assert numbers("hf", short) != expected
    with pytest.raises(ModelError, match="dtype: says how a model is loaded, and this one is"):
        numbers("hf", {**short, "dtype": "bfloat16"})


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_the_default_type_of_numbers_in_the_program_decides_nothing(tasks, tmp_path, dtype):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tiny.make(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def numbers():
        found = evalcore.evaluate(
            model, ["toy_choice", "toy_rolling", "toy_written"], tokenizer=tokenizer,
            include_path=tasks, bootstrap_iters=0,
        )  # fmt: skip
        return [[dataclasses.asdict(row) for row in one.record.results] for one in found]

    expected = numbers()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        assert numbers() == expected
    finally:
        torch.set_default_dtype(torch.float32)
