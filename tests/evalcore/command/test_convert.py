"""Results in other forms are read back and verified like the run itself; lm-evaluation-harness's is
that which it writes itself; and runs are compared where they were asked the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow.parquet as pq
import pytest

from evalcore.cli import main
from evalcore.compare import compare
from evalcore.formats.lmeval.results import results_json
from evalcore.formats.lmeval.samples import sample_lines, task_hashes, task_lines
from evalcore.formats.run_files import Run, read_runs
from evalcore.library import evaluate
from evalcore.stats import mcnemar, paired_difference
from tests import tiny, warm
from tests.evalcore.toys import RULE, evaluated, evaluated_strictly, write_run, write_toys
from tests.services import missing

LOSSLESS = ("record", "parquet", "every-eval-ever")


@pytest.fixture(scope="module")
def run(runs) -> Path:
    """A folder with the records of a group and of tasks of every kind."""
    return runs / "a"


def converted(run: Path, form: str, folder: Path) -> Path:
    assert main(["convert", str(run), "--to", form, "-o", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def forms(run, tmp_path_factory) -> dict[str, Path]:
    """The run in every form."""
    folder = tmp_path_factory.mktemp("forms")
    return {form: converted(run, form, folder / form) for form in (*LOSSLESS, "lm-eval")}


def content(runs: Iterator[Run]) -> list[tuple[object, ...]]:
    """Everything but the names of files."""
    return sorted(
        (one.record.task, one.record.run_key, str(one.record.results), str(list(one.samples)))
        for one in runs
    )


@pytest.mark.parametrize("form", LOSSLESS)
def test_what_we_write_in_another_form_comes_back_whole(run, forms, form, tmp_path):
    back = converted(forms[form], "record", tmp_path)
    assert content(read_runs([back])) == content(read_runs([run]))


def test_every_form_can_be_verified(forms, capsys):
    for folder in forms.values():
        assert main(["verify", str(folder)]) == 0
        said = capsys.readouterr().out
        assert "DIFFERS" not in said
        assert "toy_group" in said


def test_lm_evaluation_harness_s_files_come_back_as_they_were(forms, tmp_path):
    first = forms["lm-eval"]
    records = converted(first, "record", tmp_path / "records")
    second = converted(records, "lm-eval", tmp_path / "second")
    for path in first.rglob("samples_*.jsonl"):
        task = path.name.split("_2")[0]
        (other,) = second.rglob(f"{task}_2*.jsonl")
        assert other.read_text() == path.read_text()
    (one,), (two,) = first.rglob("results_*.json"), second.rglob("results_*.json")
    for key in ("results", "groups", "group_subtasks", "n-shot", "n-samples", "task_hashes"):
        assert json.loads(two.read_text())[key] == json.loads(one.read_text())[key], key


def test_exports_in_every_eval_ever_s_form_are_valid_by_its_schemas(forms, test_data):
    schemas = test_data.parent / "eee"
    if not schemas.is_dir():
        missing(f"NO SCHEMAS: {schemas} is no folder")
    aggregate, instance = (
        jsonschema.Draft7Validator(json.loads((schemas / name).read_text()))
        for name in ("eval.schema.json", "inst.schema.json")
    )
    folder = forms["every-eval-ever"]
    files = sorted(folder.rglob("*.json"))
    assert len(files) == 2
    for path in files:
        written = json.loads(path.read_text())
        aggregate.validate(written)
        lines = folder / written["detailed_evaluation_results"]["file_path"]
        assert lines == path.with_name(f"{path.stem}_samples.jsonl")
        numbers = {result["evaluation_result_id"] for result in written["evaluation_results"]}
        for line in map(json.loads, lines.read_text().splitlines()):
            instance.validate(line)
            assert line["evaluation_id"] == written["evaluation_id"]
            assert line.get("error") or line["evaluation_result_id"] in numbers


def test_uncertainty_goes_along_and_the_flat_table_has_every_number(run, forms):
    known = {
        (row.task, row.metric, row.filter): row
        for known in read_runs([run])
        for row in known.record.results
    }
    for path in forms["every-eval-ever"].rglob("*.json"):
        for result in json.loads(path.read_text())["evaluation_results"]:
            task, _, metric, filter = result["evaluation_result_id"].rsplit("/", 3)
            row, said = known[task, metric, filter], result["score_details"]
            assert said["score"] == row.value
            assert said["uncertainty"]["num_samples"] == row.n
            if row.stderr is not None:
                assert said["uncertainty"]["standard_error"]["value"] == row.stderr
                assert said["uncertainty"]["confidence_interval"]["lower"] == row.low

    rows = pq.read_table(forms["parquet"] / "results.parquet").to_pylist()
    numbers = [row for known in read_runs([run]) for row in known.record.results]
    assert [row["value"] for row in rows] == [row.value for row in numbers]
    assert {row["model"] for row in rows} == {"fake"}


def test_a_foreign_aggregate_is_read_as_far_as_it_goes(tmp_path):
    """A file of Every Eval Ever that somebody else wrote has no record of ours in it."""
    path = tmp_path / "5f0.json"
    stated = {
        "schema_version": "0.3.0",
        "evaluation_id": "bench/org/model/1",
        "retrieved_timestamp": "1",
        "source_metadata": {},
        "eval_library": {"name": "other", "version": "2"},
        "model_info": {"name": "model", "id": "org/model", "additional_details": {}},
        "evaluation_results": [
            {
                "evaluation_name": "bench",
                "source_data": {"dataset_name": "bench", "source_type": "other"},
                "metric_config": {"lower_is_better": True, "metric_id": "wer"},
                "score_details": {
                    "score": 0.25,
                    "uncertainty": {"standard_error": {"value": 0.01}, "num_samples": 80},
                },
            }
        ],
    }
    path.write_text(json.dumps(stated))
    (run,) = read_runs([path])
    (row,) = run.record.results
    assert (row.metric, row.value, row.stderr, row.n) == ("wer", 0.25, 0.01, 80)
    assert not row.higher_is_better
    assert run.record.model["repository"] == "org/model"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{}", "no record of ours"),
        ("a.json", "{", "cannot be read"),
        ("a.json", '{"run_key": "x", "schema_version": 9}', "schema_version is 9"),
        ("a.parquet", "x", "cannot be read"),
    ],
)
def test_a_file_that_is_no_run_is_named(tmp_path, capsys, name, text, said):
    (tmp_path / name).write_text(text)
    assert main(["convert", str(tmp_path / name), "--to", "record", "-o", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


# Our files in lm-evaluation-harness's form, against those that it writes itself


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
    Toy(), tasks=names.split(","), evaluation_tracker=tracker, bootstrap_iters=100,
    task_manager=TaskManager(include_path=tasks, include_defaults=False), **json.loads(settings)
)
samples = results.pop("samples")
tracker.save_results_aggregated(results, samples)
for name in results["configs"]:
    tracker.save_results_samples(name, samples[name])
"""

SITUATIONS = {
    "plain": ("toy_group,toy_plain", {}),
    "rows": (
        "toy_written,toy_choice",
        {
            "samples": {"toy_written": [1, 4, 7], "toy_choice": [2, 3]},
            "gen_kwargs": {"temperature": 0.1, "max_gen_toks": 3},
            "apply_chat_template": True,
            "fewshot_as_multiturn": True,
            "system_instruction": "Be good.",
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
    evaluations = evaluated(tasks, names, bootstrap_iters=100, **settings)
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
def test_every_number_and_line_of_samples_is_theirs(both):
    (theirs, their_lines), (ours, our_lines) = both
    for part in ("results", "groups"):
        assert ours.get(part, {}).keys() == theirs.get(part, {}).keys()
        for name, stated in theirs.get(part, {}).items():
            assert ours[part][name].keys() == stated.keys()
            for key, value in stated.items():
                close = pytest.approx(value, rel=1e-9, abs=1e-9) if is_number(value) else value
                assert ours[part][name][key] == close, (name, key)
    assert list(ours["results"]) == list(theirs["results"])
    assert our_lines == their_lines


@pytest.mark.peer
def test_the_results_file_says_the_same_of_the_run_and_its_tasks(both):
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
    for name, stated in theirs["configs"].items():
        for key, value in stated.items():
            if key == "metadata":  # theirs holds a path of the machine
                value = {k: v for k, v in value.items() if k != "config_source"}
                assert ours["configs"][name].get(key, {}) == value
            elif key != "process_results" and value != [{"metric": "bypass"}]:
                # (Those two they change where nothing is scored.)
                assert ours["configs"][name][key] == value, (name, key)


def test_the_stream_has_every_document_under_every_filter(tmp_path):
    (one,) = evaluated(write_toys(tmp_path), "toy_written", limit=3)
    lines = [json.loads(line) for line in sample_lines(iter(one.samples))]
    assert [(line["doc_id"], line["filter"]) for line in lines] == [
        (row, name) for row in range(3) for name in ("strict", "flexible")
    ]
    assert {line["task"] for line in lines} == {"toy_written"}


# `evalcore compare`: paired differences, and refusals that name what differs


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Runs of two models on the same, and of the first one under other settings."""
    folder = tmp_path_factory.mktemp("compare")
    tasks = write_toys(folder)
    settings = {
        "a": {},
        "b": {"salt": "another model"},
        "shots": {"num_fewshot": 1},
        "limited": {"limit": 6},
        "seeded": {"fewshot_seed": 7},
        "system": {"system_instruction": "Be good."},
    }
    for name, how in settings.items():
        write_run(folder / name, evaluated(tasks, **how))
    write_run(folder / "strict", evaluated_strictly(tasks))
    return folder


def scores(run: Path, task: str, metric: str) -> np.ndarray:
    return np.array(
        [
            score["value"]
            for known in read_runs([run])
            for sample in known.samples
            if sample["task"] == task
            for score in sample["scores"]
            if (score["metric"], score["filter"]) == (metric, "none")
        ]
    )


def test_the_difference_is_that_of_the_same_documents_and_of_means_alone(runs):
    differences, _ = compare(list(read_runs([runs / "a"])), list(read_runs([runs / "b"])))
    (one,) = [
        difference
        for difference in differences
        if (difference.task, difference.metric) == ("toy_choice", "acc")
    ]
    a, b = scores(runs / "a", "toy_choice", "acc"), scores(runs / "b", "toy_choice", "acc")
    assert (one.n, one.a, one.b) == (12, pytest.approx(a.mean()), pytest.approx(b.mean()))
    assert one.paired == paired_difference(a, b)
    assert (one.only_a, one.only_b) == ((a > b).sum(), (a < b).sum())
    assert one.p_mcnemar == mcnemar(one.only_a, one.only_b)
    assert all(other.p_holm >= other.paired.p_value for other in differences)
    (group,) = [difference for difference in differences if difference.task == "toy_group"]
    assert group.n == 24
    assert group.paired.difference == pytest.approx(group.a - group.b)

    _, refusals = compare(list(read_runs([runs / "a"])), list(read_runs([runs / "b"])))
    assert {refusal.metric for refusal in refusals} == {
        "mcc", "bleu", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"
    }  # fmt: skip


def refusal(said: str, column: str) -> str:
    """Why two numbers were not compared."""
    start = f"not compared: {column}: not comparable: "
    (line,) = [line for line in said.splitlines() if line.startswith(start)]
    return line


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("shots", "shots ("),
        ("strict", "mode (compat and strict)"),
        ("limited", "limit (None and 6)"),
        ("seeded", "seed of the examples (1234 and 7)"),
        ("system", "system instruction (None and Be good.)"),
    ],
)
def test_what_was_asked_otherwise_is_not_compared(runs, capsys, other, reason):
    main(["compare", str(runs / "a"), str(runs / other)])
    assert reason in refusal(capsys.readouterr().out, "toy_shots, acc (none)")


STYLED = tiny.CHAT + "{{ style | default('') }}"


@pytest.fixture(scope="module")
def chats(tmp_path_factory) -> Path:
    """Runs of one model whose template is told something else each; in our form and lm-eval's."""
    folder = tmp_path_factory.mktemp("chats")
    model = tiny.make(folder / "model", chat_template=STYLED)
    tasks = write_toys(folder / "toys")
    told = {
        "plain": {},
        "brief": {"chat_template_args": {"style": "!"}},
        "cut": {"think_end_token": "</think>"},
    }
    for name, arguments in told.items():
        of_model = {"pretrained": str(model), "dtype": "float32", **arguments}
        runs = evaluate(
            "hf", "toy_written", model_args=of_model, include_path=tasks, limit=3, device="cpu",
            apply_chat_template=True, bootstrap_iters=0,
        )  # fmt: skip
        records = write_run(folder / name, runs)
        assert main(["verify", *map(str, records)]) == 0
        theirs = results_json([run.record for run in runs], {"model_args": of_model})
        (folder / f"{name}.json").write_text(json.dumps(theirs))
    return folder


@pytest.mark.parametrize("suffix", ["", ".json"], ids=["ours", "lm-eval's"])
def test_what_a_chat_template_is_told_is_part_of_the_question(chats, capsys, suffix):
    for other, reason in {
        "brief": "arguments of the chat template (None and {'style': '!'})",
        "cut": "whether thoughts are cut (False and True)",
    }.items():
        main(["compare", str(chats / f"plain{suffix}"), str(chats / f"{other}{suffix}")])
        assert reason in refusal(capsys.readouterr().out, "toy_written, exact_match (strict)")
    main(["compare", str(chats / f"plain{suffix}"), str(chats / f"plain{suffix}")])
    assert "not comparable" not in capsys.readouterr().out


def test_the_json_has_every_number_and_nothing_to_compare_has_its_own_status(
    runs, capsys, tmp_path
):
    assert main(["compare", str(runs / "a"), str(runs / "b"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {number["metric"] for number in said["numbers"]} == {"acc", "acc_norm", "exact_match"}
    first = said["numbers"][0]
    assert first["low"] <= first["difference"] <= first["high"]
    assert all(refusal["reason"] for refusal in said["refused"])

    (record,) = (runs / "a").glob("record_toy_plain_*.json")
    (other,) = (runs / "b").glob("record_toy_group_*.json")
    assert main(["compare", str(record), str(other)]) == 1


def test_foreign_results_compare_with_ours_in_their_own_form(runs, tmp_path, capsys):
    for name in ("a", "b", "shots"):
        main(["convert", str(runs / name), "--to", "lm-eval", "-o", str(tmp_path / name)])
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "toy_choice" in capsys.readouterr().out
    main(["compare", str(tmp_path / "a"), str(tmp_path / "shots")])
    said = capsys.readouterr().out
    assert "not compared: toy_group, acc (none): not comparable: " in said
    assert "shots (" in said
    main(["compare", str(tmp_path / "a"), str(runs / "a")])
    assert "convert the other" in capsys.readouterr().out
