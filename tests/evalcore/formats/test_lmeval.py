"""Our files in lm-evaluation-harness's form, against those that it writes itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalcore.formats.lmeval.results import results_json
from evalcore.formats.lmeval.samples import sample_lines, task_hashes, task_lines
from tests import warm
from tests.evalcore.toys import RULE, evaluated, write_toys

THEIRS = f"""
import json, sys
import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker, utils
from lm_eval.tasks import TaskManager

SALT = ""
{RULE}

class Toy(LM):
    tokenizer_name = "toy"

    def loglikelihood(self, requests, **_):
        return [likely(*request.args) for request in requests]

    def loglikelihood_rolling(self, requests, **_):
        return [rolled(*request.args) for request in requests]

    def generate_until(self, requests, **_):
        asked = {{}}
        for request in requests:
            context = request.args[0]
            asked[context] = asked.get(context, -1) + 1
            yield written(context, asked[context])

    def apply_chat_template(self, messages, add_generation_prompt=True):
        return chat(messages, add_generation_prompt)

    def chat_template(self, name=False):
        return "TEMPLATE"

# Seconds, in which it asks half a dozen programs what the machine is.
utils.get_pretty_env_info = str
tasks, names, folder, settings = sys.argv[1:]
tracker = EvaluationTracker(output_path=folder)
results = lm_eval.simple_evaluate(
    Toy(), tasks=names.split(","), evaluation_tracker=tracker, bootstrap_iters=1000,
    task_manager=TaskManager(include_path=tasks, include_defaults=False), **json.loads(settings)
)
samples = results.pop("samples")
tracker.save_results_aggregated(results, samples)
for name in results["configs"]:
    tracker.save_results_samples(name, samples[name])
"""

SITUATIONS = {
    "plain": ("toy_group,toy_plain", {}),
    "chat": (
        "toy_written,toy_choice,toy_likely",
        {
            "apply_chat_template": True,
            "fewshot_as_multiturn": True,
            "system_instruction": "Be good.",
            "limit": 5,
            "num_fewshot": 1,
        },
    ),
    "rows": (
        "toy_written,toy_choice",
        {
            "samples": {"toy_written": [1, 4, 7], "toy_choice": [2, 3]},
            "gen_kwargs": {"temperature": 0.1, "max_gen_toks": 3},
        },
    ),
    "predictions": ("toy_written,toy_choice,toy_rolling", {"predict_only": True, "limit": 3}),
}


@pytest.fixture(scope="module", params=SITUATIONS)
def both(request, tmp_path_factory):
    """Their results file and samples by task, and ours."""
    folder = tmp_path_factory.mktemp("formats")
    tasks = write_toys(folder)
    names, settings = SITUATIONS[request.param]
    outcome = warm.run(
        ["-c", THEIRS, tasks, names, folder / "theirs", json.dumps(settings)], timeout=300
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    evaluations = evaluated(tasks, names, **settings)
    samples = {
        leaf: [sample for sample in evaluation.samples if sample["task"] == leaf]
        for evaluation in evaluations
        for leaf in evaluation.record.configs
    }
    hashes = task_hashes(sample for of_leaf in samples.values() for sample in of_leaf)
    ours = results_json([evaluation.record for evaluation in evaluations], {}, hashes)
    lines = {leaf: list(map(json.loads, task_lines(sample))) for leaf, sample in samples.items()}
    return theirs_in(folder / "theirs"), (json.loads(json.dumps(ours)), lines)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def theirs_in(folder: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    (path,) = folder.rglob("results_*.json")
    results = json.loads(path.read_text())
    lines = {}
    for leaf in results["configs"]:
        (file,) = folder.rglob(f"samples_{leaf}_2*.jsonl")
        lines[leaf] = [json.loads(line) for line in file.read_text().splitlines()]
    return results, lines


@pytest.mark.peer
def test_every_number_stands_under_the_same_key(both):
    (theirs, _), (ours, _) = both
    for part in ("results", "groups"):
        assert ours.get(part, {}).keys() == theirs.get(part, {}).keys()
        for name, stated in theirs.get(part, {}).items():
            assert ours[part][name].keys() == stated.keys()
            for key, value in stated.items():
                close = pytest.approx(value, rel=1e-9, abs=1e-9) if is_number(value) else value
                assert ours[part][name][key] == close, (name, key)
    assert list(ours["results"]) == list(theirs["results"])


@pytest.mark.peer
def test_the_results_file_says_the_same_of_the_run(both):
    (theirs, _), (ours, _) = both
    for key in ("group_subtasks", "versions", "n-shot", "n-samples", "task_hashes"):
        assert ours[key] == theirs[key], key
    for key in ("chat_template", "chat_template_sha", "system_instruction_sha"):
        assert ours[key] == theirs[key], key
    assert theirs.keys() <= ours.keys()
    assert theirs["config"].keys() <= ours["config"].keys()
    for name, stated in theirs["higher_is_better"].items():
        if stated.keys() != {"bypass"}:  # nothing was scored
            assert ours["higher_is_better"][name] == stated


@pytest.mark.peer
def test_configurations_have_the_same_keys_and_values(both):
    (theirs, _), (ours, _) = both
    for name, stated in theirs["configs"].items():
        for key, value in stated.items():
            if key == "metadata":  # theirs holds a path of the machine
                value = {k: v for k, v in value.items() if k != "config_source"}
                assert ours["configs"][name].get(key, {}) == value
            elif key != "process_results" and value != [{"metric": "bypass"}]:
                # (Those two they change where nothing is scored.)
                assert ours["configs"][name][key] == value, (name, key)


@pytest.mark.peer
def test_every_line_of_the_samples_is_theirs(both):
    (_, theirs), (_, ours) = both
    assert ours == theirs


def test_the_stream_has_every_document_under_every_filter(tmp_path):
    (one,) = evaluated(write_toys(tmp_path), "toy_written", limit=3)
    lines = [json.loads(line) for line in sample_lines(iter(one.samples))]
    assert [(line["doc_id"], line["filter"]) for line in lines] == [
        (row, name) for row in range(3) for name in ("strict", "flexible")
    ]
    assert {line["task"] for line in lines} == {"toy_written"}
