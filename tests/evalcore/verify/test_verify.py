"""`evalcore verify`: what was tampered with is found, at the level where it can be."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from evalcore.cli import main
from evalcore.digest import digest_of_file
from evalcore.record import RunRecord, read_samples, write_samples
from tests.evalcore.toys import evaluated, evaluated_strictly, write_run, write_toys

CODE = """
def process_results(doc, results):
    return {"length": len(results[0])}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("verify")
    tasks = write_toys(folder)
    write_run(folder / "compat", evaluated(tasks))
    write_run(folder / "strict", evaluated_strictly(tasks))
    return folder


@pytest.fixture
def run(runs, tmp_path) -> Path:
    """A copy of a run that a test may spoil."""
    return shutil.copytree(runs / "compat", tmp_path / "run")


def record_of(run: Path, task: str) -> Path:
    (path,) = run.glob(f"record_{task}_*.json")
    return path


def spoil_record(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def spoil_samples(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Changes the samples of a record, and its digest of them, as who cheats with care would."""
    record = RunRecord.read(path)
    samples_path = path.parent / record.samples.file
    samples = list(read_samples(samples_path))
    change(samples)
    file = write_samples(samples_path, samples)
    dataclasses.replace(record, samples=file).write(path)


@pytest.mark.parametrize("mode", ["compat", "strict"])
@pytest.mark.parametrize("level", ["aggregate", "rescore"])
def test_what_a_run_wrote_agrees(runs, capsys, mode, level):
    assert main(["verify", str(runs / mode), "--level", level]) == 0
    said = capsys.readouterr().out
    assert said.count(f"level {level}: agrees") == 2


@pytest.mark.parametrize("level", ["aggregate", "rescore"])
def test_samples_of_before_a_flat_column_was_added_agree(tmp_path, capsys, level):
    run = tmp_path / "run"
    write_run(run, evaluated(write_toys(tmp_path), "toy_choice,toy_plain"))
    for path in run.glob("record_*.json"):
        record = RunRecord.read(path)
        samples = run / record.samples.file
        pq.write_table(pq.read_table(samples).drop_columns(["loglikelihoods"]), samples)
        file = dataclasses.replace(record.samples, sha256=digest_of_file(samples))
        dataclasses.replace(record, samples=file).write(path)
    assert main(["verify", str(run), "--level", level]) == 0
    assert capsys.readouterr().out.count(f"level {level}: agrees") == 2


@pytest.mark.parametrize("figure", ["value", "stderr", "low", "high", "n", "compat_stderr"])
def test_a_changed_number_is_found(run, capsys, figure):
    path = record_of(run, "toy_group")

    def change(content):
        row = next(row for row in content["results"] if row["compat_stderr"] and row["stderr"])
        row[figure] += 1e-6

    spoil_record(path, change)
    assert main(["verify", str(path), "--level", "aggregate"]) == 1
    assert f", {figure}: stated" in capsys.readouterr().out


def test_a_number_that_was_left_out_is_found(run, capsys):
    path = record_of(run, "toy_group")
    spoil_record(path, lambda content: content["results"].pop())
    assert main(["verify", str(path)]) == 1
    assert "stated None, computed" in capsys.readouterr().out


def test_a_changed_score_moves_the_number(run, capsys):
    path = record_of(run, "toy_plain")

    def change(samples):
        score = next(s for s in samples[0]["scores"] if s["metric"] == "acc")
        score["value"] = 1.0 - score["value"]

    spoil_samples(path, change)
    assert main(["verify", str(path), "--level", "aggregate"]) == 1
    assert "toy_likely toy_likely acc none, value" in capsys.readouterr().out


def test_a_changed_response_is_found_by_scoring_again_only(run, capsys):
    path = record_of(run, "toy_group")

    def change(samples):
        first = samples[0]
        first["responses"][first["pick"]]["loglikelihood"] -= 1000.0

    spoil_samples(path, change)
    assert main(["verify", str(path), "--level", "aggregate"]) == 0
    assert main(["verify", str(path), "--level", "rescore"]) == 1
    assert "toy_choice, document 0: pick" in capsys.readouterr().out


def test_a_changed_response_is_found_where_it_changes_no_score(run, capsys):
    path = record_of(run, "toy_group")

    def change(samples):
        samples[0]["responses"][samples[0]["pick"]]["loglikelihood"] += 1e-6

    spoil_samples(path, change)
    assert main(["verify", str(path), "--level", "rescore"]) == 1
    said = capsys.readouterr().out
    assert "toy_choice, document 0: filtered" in said
    assert "document 1:" not in said


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("doc", lambda doc: doc.replace("capital", "largest city")),
        ("cluster", lambda _: "other"),
        ("subset", lambda _: "other"),
        ("correct", lambda correct: 1.0 - correct),
        ("pick", lambda pick: (pick + 1) % 3),
    ],
)
def test_what_else_a_sample_says_is_compared_too(run, capsys, field, change):
    path = record_of(run, "toy_group")
    spoil_samples(path, lambda samples: samples[0].update({field: change(samples[0][field])}))
    assert main(["verify", str(path), "--level", "rescore"]) == 1
    assert f"toy_choice, document 0: {field}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "strict"),
        ("version", "9"),
        ("style", "cloze"),
        ("shots", 5),
        ("config_digest", "0" * 64),
        ("system_instruction", "Think."),
    ],
)
def test_a_record_that_says_it_was_made_otherwise_has_another_key(run, capsys, field, value):
    path = record_of(run, "toy_group")
    spoil_record(path, lambda content: content.update({field: value}))
    assert main(["verify", str(path)]) == 1
    assert "run key: stated" in capsys.readouterr().out


def test_changed_counts_are_found(run, capsys):
    path = record_of(run, "toy_plain")
    spoil_record(path, lambda content: content["requests"].update(truncated=1))
    assert main(["verify", str(path)]) == 1
    assert "requests, truncated: stated 1, computed 0" in capsys.readouterr().out


def test_a_number_cannot_be_called_a_failure(run, capsys):
    """Whoever hides a number takes its row out and says that the metric failed."""
    path = record_of(run, "toy_group")

    def hide(content):
        row = next(row for row in content["results"] if row["metric"] == "mcc")
        content["results"].remove(row)
        why = {"task": row["task"], "metric": "mcc", "filter": "none", "reason": "it broke"}
        content["failures"].append(why)

    spoil_record(path, hide)
    assert main(["verify", str(path), "--level", "aggregate"]) == 1
    said = capsys.readouterr().out
    assert "toy_choice mcc none: stated 'failed', computed 'did not fail'" in said


def test_a_failure_is_told_from_the_scores_or_left_with_its_name(tmp_path, capsys):
    tasks = write_toys(tmp_path)
    file = tasks / "toy_written.yaml"
    keys = yaml.safe_load(file.read_text())
    keys["metric_list"].append({"metric": "pass@5"})
    breaks = [{"function": "take_first_k", "k": 9}, {"function": "take_first"}]
    keys["filter_list"].append({"name": "breaks", "filter": breaks})
    file.write_text(yaml.safe_dump(keys))
    run = tmp_path / "run"
    write_run(run, evaluated(tasks, "toy_written"))
    for level in ("aggregate", "rescore"):
        assert main(["verify", str(run), "--level", level, "--include_path", str(tasks)]) == 0
        left = "not computed again: toy_written exact_match (breaks)" in capsys.readouterr().out
        assert left == (level == "aggregate")
    path = record_of(run, "toy_written")
    spoil_record(path, lambda content: content.update(failures=[]))
    assert main(["verify", str(path), "--level", "aggregate"]) == 1
    assert "pass@5 strict: stated 'did not fail', computed 'failed'" in capsys.readouterr().out


def test_what_is_no_record_is_said_to_be_none(run, capsys):
    path = record_of(run, "toy_group")
    spoil_record(path, lambda content: content["groups"]["toy_group"]["members"].append("other"))
    assert main(["verify", str(path)]) == 1
    assert "NOT VERIFIED" in capsys.readouterr().out


def test_samples_that_are_not_the_records_own_are_found(run, capsys):
    path = record_of(run, "toy_plain")
    record = RunRecord.read(path)
    samples = list(read_samples(run / record.samples.file))
    write_samples(run / record.samples.file, samples[:-1])
    assert main(["verify", str(path)]) == 1
    said = capsys.readouterr().out
    assert "digest of the samples" in said
    assert "rows of the samples: stated 24, computed 23" in said


def test_without_samples_nothing_is_claimed(run, capsys):
    for path in run.glob("*.parquet"):
        path.unlink()
    assert main(["verify", str(run)]) == 1
    said = capsys.readouterr().out
    assert said.count("NOT VERIFIED") == 2
    stated = RunRecord.read(record_of(run, "toy_plain")).samples
    assert f"no file in {run} has their SHA-256 {stated.sha256}" in said
    assert f"Put {stated.file} into that folder, under any name" in said


@pytest.mark.parametrize("called", ["x (1).parquet", "lab__x_samples-2.PARQUET", "download"])
def test_samples_are_found_by_their_digest(run, capsys, called):
    """The other record's samples have as many rows in one of the files: the digest tells."""
    path = record_of(run, "toy_plain")
    stated = RunRecord.read(path).samples
    rows = list(read_samples(run / stated.file))
    write_samples(run / "y.parquet", [{**row, "prompt": "?"} for row in rows])
    (run / stated.file).rename(run / called)
    assert main(["verify", str(path)]) == 0, capsys.readouterr().out
    (run / called).unlink()
    assert main(["verify", str(path)]) == 1
    assert "with as many rows there is y.parquet, which is another file" in capsys.readouterr().out


def test_their_files_are_verified_too(runs, tmp_path, capsys):
    main(["convert", str(runs / "compat"), "--to", "lm-eval", "-o", str(tmp_path)])
    (results,) = tmp_path.rglob("results_*.json")
    assert main(["verify", str(results)]) == 0

    def change(content):
        content["results"]["toy_group"]["acc,none"] += 0.01
        content["results"]["toy_likely"]["perplexity_stderr,none"] *= 1.01

    spoil_record(results, change)
    capsys.readouterr()
    assert main(["verify", str(results)]) == 1
    said = capsys.readouterr().out
    assert "toy_group acc (none), value" in said
    assert "toy_likely perplexity (none), standard error" in said


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda lines: lines.pop(), "toy_choice, sample_len"),
        (lambda lines: lines.append(lines[0]), "toy_choice, document 0 (none): lines: stated 1"),
        (lambda lines: lines[1].update(target="0 "), "document 1 (none): target_hash"),
        (lambda lines: lines[1]["doc"].update(more=1), "document 1 (none): doc_hash"),
        (lambda lines: lines[1].update(prompt_hash="0" * 64), "toy_choice, task hash"),
        (lambda lines: lines[1].update(filtered_resps=[]), "document 1 (none): filtered_resps"),
        (
            lambda lines: lines[1]["arguments"]["gen_args_0"].update(arg_0="?"),
            "document 1 (none): prompt_hash",
        ),
    ],
)
def test_a_line_of_theirs_that_moves_no_number_is_found_too(runs, tmp_path, capsys, change, named):
    main(["convert", str(runs / "compat"), "--to", "lm-eval", "-o", str(tmp_path)])
    (path,) = tmp_path.rglob("samples_toy_choice_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert main(["verify", str(tmp_path)]) == 1
    assert named in capsys.readouterr().out


def test_scoring_by_code_needs_the_file_as_it_was(tmp_path, capsys):
    tasks = write_toys(tmp_path)
    (tasks / "code.py").write_text(CODE)
    file = tasks / "toy_written.yaml"
    file.write_text(file.read_text() + "process_results: !function code.process_results\n")
    write_run(tmp_path / "run", evaluated(tasks, "toy_written"))
    there = ["--include_path", str(tasks)]
    assert main(["verify", str(tmp_path / "run"), *there]) == 0
    assert main(["verify", str(tmp_path / "run")]) == 1
    assert "give its folder by --include_path" in capsys.readouterr().out
    (tasks / "code.py").write_text(CODE.replace("len(results[0])", "1"))
    assert main(["verify", str(tmp_path / "run"), *there]) == 1
    assert "has changed since the run (process_results)" in capsys.readouterr().out


def mixed_answers(folder: Path, first: str) -> Path:
    """Toys with a task whose answer is a list for some documents, and one text for the others."""
    tasks = write_toys(folder)
    keys = yaml.safe_load((tasks / "toy_written.yaml").read_text())
    several = str([f"It is {one} or {other}." for one in range(5) for other in range(5)])
    then, otherwise = ("It", several) if first == "one" else (several, "It")
    keys |= {
        "task": "toy_mixed",
        "doc_to_target": "{% if number == '0' %}" + then + "{% else %}" + otherwise + "{% endif %}",
        "metric_list": [{"metric": "exact_match"}],
        "num_fewshot": 0,
        "repeats": 1,
    }
    del keys["filter_list"]
    (tasks / "toy_mixed.yaml").write_text(yaml.safe_dump(keys))
    return tasks


@pytest.mark.parametrize("first", ["one", "several"])
def test_what_document_0_decided_for_all_is_known_where_it_was_not_scored(tmp_path, capsys, first):
    tasks = mixed_answers(tmp_path, first)
    run = evaluated(tasks, "toy_mixed", mode="compat", samples={"toy_mixed": [1, 2, 5, 6]})
    write_run(tmp_path / "run", run)
    assert main(["verify", str(tmp_path / "run")]) == 0, capsys.readouterr().out


def test_samples_of_before_say_what_they_leave_out(tmp_path, capsys):
    """Files of earlier versions do not say what document 0 decided; that is no difference."""
    tasks = mixed_answers(tmp_path, "one")
    run = evaluated(tasks, "toy_mixed", mode="compat", samples={"toy_mixed": [1, 2, 5, 6]})
    write_run(tmp_path / "run", run)
    path = record_of(tmp_path / "run", "toy_mixed")
    spoil_samples(path, lambda samples: [sample.update(several_answers=None) for sample in samples])
    assert main(["verify", str(path)]) == 0
    said = capsys.readouterr().out
    assert "not computed again: toy_mixed: scores: document 0" in said
    assert "4 scores" not in said
