"""`evalcore verify`: what was tampered with is found, at the level where it can be."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcore.cli import main
from evalcore.keys import run_key_of
from evalcore.record import RunRecord, read_samples, write_samples
from evalcore.selection import library_of
from evalcore.verify import recount as module
from evalcore.verify.recount import Recount, recount
from tests.evalcore.toys import (
    TASKS,
    evaluated,
    evaluated_strictly,
    write_run,
    write_toy,
    write_toys,
)

CODE = """
def process_results(doc, results):
    return {"length": len(results[0])}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the toys in both modes; a test that spoils one takes a copy."""
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


def differences(path: Path, capsys: Any, level: str = "rescore") -> str:
    """What is said of a record that does not agree."""
    capsys.readouterr()
    assert main(["verify", str(path), "--level", level]) == 1
    return str(capsys.readouterr().out)


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_what_a_run_wrote_agrees(runs, capsys, mode):
    for level in ("aggregate", "rescore"):
        assert main(["verify", str(runs / mode), "--level", level]) == 0
        assert capsys.readouterr().out.count(f"level {level}: agrees") == 2


FIGURES = ("value", "stderr", "low", "high", "n", "compat_stderr")


def test_every_figure_that_was_changed_is_found_and_a_changed_score_moves_its_number(run, capsys):
    path = record_of(run, "toy_group")

    def change(content):
        content["results"].pop()
        row = next(row for row in content["results"] if row["compat_stderr"] and row["stderr"])
        row.update({figure: row[figure] + 1e-6 for figure in FIGURES})
        row["interval"] = "other"

    spoil_record(path, change)
    said = differences(path, capsys, "aggregate")
    for figure in (*FIGURES, "interval"):
        assert said.count(f", {figure}: stated") == 1, figure
    assert said.count("stated None, computed") == 1

    path = record_of(run, "toy_plain")

    def change(samples):
        score = next(s for s in samples[0]["scores"] if s["metric"] == "acc")
        score["value"] = 1.0 - score["value"]

    spoil_samples(path, change)
    assert "toy_likely toy_likely acc none, value" in differences(path, capsys, "aggregate")


def test_a_changed_response_is_found_by_scoring_again_only(run, capsys):
    path = record_of(run, "toy_group")

    def change(samples):
        samples[0]["responses"][samples[0]["pick"]]["loglikelihood"] += 1e-6

    spoil_samples(path, change)
    said = differences(path, capsys, "rescore")
    assert "toy_choice, document 0: filtered" in said
    assert "document 1:" not in said

    path = record_of(run, "toy_group")

    def change(samples):
        first = samples[0]
        first["responses"][first["pick"]]["loglikelihood"] -= 1000.0

    spoil_samples(path, change)
    assert main(["verify", str(path), "--level", "aggregate"]) == 0
    assert "toy_choice, document 0: pick" in differences(path, capsys, "rescore")


def test_every_field_of_a_sample_is_compared(run, capsys):
    path = record_of(run, "toy_group")

    def change(samples):
        first = samples[0]
        first["doc"] = first["doc"].replace("capital", "largest city")
        first["correct"] = 1.0 - first["correct"]
        first["pick"] = (first["pick"] + 1) % 3
        first["cluster"] = first["subset"] = "other"

    spoil_samples(path, change)
    said = differences(path, capsys, "rescore")
    for field in ("doc_digest", "cluster", "subset", "correct", "pick"):
        assert f"toy_choice, document 0: {field}" in said


@pytest.mark.parametrize(
    "made",
    [
        {"mode": "strict"},
        {"version": "9"},
        {"style": "cloze"},
        {"shots": 5},
        {"config_digest": "0" * 64},
        {"system_instruction": "Think."},
    ],
)
def test_a_record_that_was_made_otherwise_has_another_key(runs, made):
    record = RunRecord.read(record_of(runs / "compat", "toy_group"))
    assert run_key_of(record) == record.run_key
    assert run_key_of(dataclasses.replace(record, **made)) != record.run_key


def test_what_a_record_says_of_how_it_was_made_is_checked(run, capsys):
    path = record_of(run, "toy_plain")

    def change(content):
        content["shots"] = 5
        content["requests"]["truncated"] = 1

    spoil_record(path, change)
    said = differences(path, capsys)
    assert "run key: stated" in said
    assert "requests, truncated: stated 1, computed 0" in said


def test_a_number_cannot_be_called_a_failure(run, capsys):
    """Whoever hides a number takes its row out and says that the metric failed."""
    path = record_of(run, "toy_group")

    def hide(content):
        row = next(row for row in content["results"] if row["metric"] == "mcc")
        content["results"].remove(row)
        why = {"task": row["task"], "metric": "mcc", "filter": "none", "reason": "it broke"}
        content["failures"].append(why)

    spoil_record(path, hide)
    said = differences(path, capsys, "aggregate")
    assert "toy_choice mcc none: stated 'failed', computed 'did not fail'" in said


def test_a_failure_is_told_from_the_scores_or_left_with_its_name(tmp_path, capsys):
    tasks = write_toys(tmp_path)
    steps = [{"function": "take_first_k", "k": 9}, {"function": "take_first"}]
    metrics = [*TASKS["toy_written"]["metric_list"], {"metric": "pass@5"}]
    filters = [*TASKS["toy_written"]["filter_list"], {"name": "breaks", "filter": steps}]
    write_toy(tasks, "toy_written", metric_list=metrics, filter_list=filters)
    run = tmp_path / "run"
    write_run(run, evaluated(tasks, "toy_written"))
    for level in ("aggregate", "rescore"):
        assert main(["verify", str(run), "--level", level, "--include_path", str(tasks)]) == 0
        left = "not computed again: toy_written exact_match (breaks)" in capsys.readouterr().out
        assert left == (level == "aggregate")
    path = record_of(run, "toy_written")
    spoil_record(path, lambda content: content.update(failures=[]))
    assert "pass@5 strict: stated 'did not fail', computed 'failed'" in differences(
        path, capsys, "aggregate"
    )


def test_what_is_no_record_is_said_to_be_none(run, capsys):
    path = record_of(run, "toy_group")
    spoil_record(path, lambda content: content["groups"]["toy_group"]["members"].append("other"))
    assert "NOT VERIFIED" in differences(path, capsys)


def test_samples_that_are_not_the_records_own_are_found(run, capsys):
    path = record_of(run, "toy_plain")
    record = RunRecord.read(path)
    samples = list(read_samples(run / record.samples.file))
    write_samples(run / record.samples.file, samples[:-1])
    said = differences(path, capsys)
    assert "digest of the samples" in said
    assert "rows of the samples: stated 24, computed 23" in said


def test_without_samples_nothing_is_claimed(run, capsys):
    for path in run.glob("*.parquet"):
        path.unlink()
    said = differences(run, capsys)
    assert said.count("NOT VERIFIED") == 2
    stated = RunRecord.read(record_of(run, "toy_plain")).samples
    assert f"no file in {run} has their SHA-256 {stated.sha256}" in said
    assert f"Put {stated.file} into that folder, under any name" in said


@pytest.mark.parametrize("called", ["lab__x_samples-2.PARQUET", "download"])
def test_samples_are_found_by_their_digest(run, capsys, called):
    """The other record's samples have as many rows in one of the files: the digest tells."""
    path = record_of(run, "toy_plain")
    stated = RunRecord.read(path).samples
    rows = list(read_samples(run / stated.file))
    write_samples(run / "y.parquet", [{**row, "prompt": "?"} for row in rows])
    (run / stated.file).rename(run / called)
    assert main(["verify", str(path)]) == 0, capsys.readouterr().out
    (run / called).unlink()
    assert "with as many rows there is y.parquet, which is another file" in differences(
        path, capsys
    )


def test_their_files_are_verified_too(runs, tmp_path, capsys):
    main(["convert", str(runs / "compat"), "--to", "lm-eval", "-o", str(tmp_path)])
    (results,) = tmp_path.rglob("results_*.json")
    assert main(["verify", str(results)]) == 0

    def change(content):
        content["results"]["toy_group"]["acc,none"] += 0.01
        content["results"]["toy_likely"]["perplexity_stderr,none"] *= 1.01

    spoil_record(results, change)
    said = differences(results, capsys)
    assert "toy_group acc (none), value" in said
    assert "toy_likely perplexity (none), standard error" in said


def test_a_line_of_theirs_that_moves_no_number_is_found_too(runs, tmp_path, capsys):
    main(["convert", str(runs / "compat"), "--to", "lm-eval", "-o", str(tmp_path)])
    (path,) = tmp_path.rglob("samples_toy_choice_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["target"] = "0 "
    lines[2]["doc"]["more"] = 1
    lines[3]["prompt_hash"] = "0" * 64
    lines[4]["filtered_resps"] = []
    lines[5]["arguments"]["gen_args_0"]["arg_0"] = "?"
    lines.append(lines[0])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = differences(tmp_path, capsys)
    for found in (
        "document 1 (none): target_hash",
        "document 2 (none): doc_hash",
        "document 3 (none): prompt_hash",
        "document 4 (none): filtered_resps",
        "document 5 (none): prompt_hash",
        "toy_choice, document 0 (none): lines: stated 1",
        "toy_choice, task hash",
        "toy_choice, sample_len",
    ):
        assert found in said


def test_scoring_by_code_needs_the_file_as_it_was(tmp_path, capsys):
    tasks = write_toys(tmp_path)
    (tasks / "code.py").write_text(CODE)
    write_toy(tasks, "toy_written", process_results="!function code.process_results")
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
    several = str([f"It is {one} or {other}." for one in range(5) for other in range(5)])
    then, otherwise = ("It", several) if first == "one" else (several, "It")
    keys = {
        "doc_to_target": "{% if number == '0' %}" + then + "{% else %}" + otherwise + "{% endif %}",
        "metric_list": [{"metric": "exact_match"}],
        "filter_list": None,
        "num_fewshot": 0,
        "repeats": 1,
    }
    write_toy(tasks, "toy_mixed", "toy_written", **keys)
    return tasks


@pytest.mark.parametrize("first", ["one", "several"])
def test_what_document_0_decided_for_all_is_known_where_it_was_not_scored(tmp_path, capsys, first):
    tasks = mixed_answers(tmp_path, first)
    run = evaluated(tasks, "toy_mixed", mode="compat", samples={"toy_mixed": [1, 2, 5, 6]})
    write_run(tmp_path / "run", run)
    assert main(["verify", str(tmp_path / "run")]) == 0, capsys.readouterr().out


# A number counted again in a second: what was changed is found, what is not counted is said


Sample = dict[str, Any]


def read(runs: Path) -> tuple[RunRecord, Path]:
    """A record that begins with `toy_choice`, and the file of its answers."""
    path = sorted((runs / "strict").glob("record_*.json"))[0]
    record = RunRecord.read(path)
    return record, path.parent / record.samples.file


def counted(record: RunRecord, samples: Path, seed: int = 1) -> Recount:
    return recount(record, samples, library_of([]), seed=seed)


def tampered(
    record: RunRecord, samples: Path, folder: Path, change: Callable[[list[Sample]], None]
) -> tuple[RunRecord, Path]:
    """As who cheats with care would: the digest of the changed file stands in the record."""
    rows = list(read_samples(samples))
    change(rows)
    written = write_samples(folder / "changed.parquet", rows)
    return dataclasses.replace(record, samples=written), folder / written.file


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_every_run_as_it_was_written_is_counted_whole_and_agrees(runs: Path, mode: str):
    for path in (runs / mode).glob("record_*.json"):
        record = RunRecord.read(path)
        found = counted(record, path.parent / record.samples.file)
        assert (found.differences, found.left) == ([], [])
        assert found.scored == found.questions == record.samples.rows
        assert {place: row.value for place, row in found.rows.items()} == {
            row.place: row.value for row in record.results
        }


def test_of_many_questions_some_are_drawn_and_others_the_next_time(runs, monkeypatch):
    monkeypatch.setattr(module, "ALL_OF", 5)
    monkeypatch.setattr(module, "DRAWN", 4)
    record, samples = read(runs)
    looked_at: list[list[int]] = []
    rows = module._rows

    def seen(file, wanted):
        looked_at.append(list(wanted))
        return rows(file, wanted)

    monkeypatch.setattr(module, "_rows", seen)
    for seed in (1, 2):
        found = counted(record, samples, seed)
        assert (found.scored, found.questions) == (4, record.samples.rows)
        assert (found.differences, found.left) == ([], [])
    drawn = [sorted(random.Random(seed).sample(range(found.questions), 4)) for seed in (1, 2)]
    assert looked_at == drawn
    assert drawn[0] != drawn[1]


def test_a_changed_file_is_found_by_its_digest_its_sums_its_answers_or_its_length(runs, tmp_path):
    record, samples = read(runs)

    def flip(rows: list[Sample]) -> None:
        score = next(score for score in rows[0]["scores"] if score["metric"] == "acc")
        score["value"] = 1.0 - score["value"]
        score["item"] = None

    _, changed = tampered(record, samples, tmp_path, flip)
    found = counted(record, changed)
    assert any(line.startswith("SHA-256 of the answers: ") for line in found.differences)
    assert any("acc none, value: stated" in line for line in found.differences)
    assert any("document 0: acc (none): stated" in line for line in found.differences)

    record, samples = read(runs)

    def swap(rows: list[Sample]) -> None:
        for response in rows[0]["responses"]:
            response["loglikelihood"] = -response["loglikelihood"]

    found = counted(*tampered(record, samples, tmp_path, swap))
    assert found.differences
    assert all("document 0" in line for line in found.differences)

    record, samples = read(runs)
    changed = tampered(record, samples, tmp_path, lambda rows: rows.pop())
    whole = dataclasses.replace(record.samples, sha256=changed[0].samples.sha256)
    found = counted(dataclasses.replace(record, samples=whole), changed[1])
    rows = record.samples.rows
    assert f"questions: stated {rows}, in the file {rows - 1}" in found.differences
    assert any(", n: stated" in line for line in found.differences)


def code(name: str) -> dict[str, str]:
    return {"function": name, "digest": "0" * 64}


@pytest.mark.parametrize(
    ("change", "why", "numbers"),
    [
        ({"without_text": ["toy_choice"]}, "the benchmark's texts are withheld", True),
        (
            {"engine": {"name": "evalcore", "scoring_version": 0}},
            "scoring version 0 made them",
            True,
        ),
        ({"timing": {"scores": 61.0}}, "scoring took 61 s", True),
        ({"engine": {"name": "lm_eval"}}, "the record is another program's", False),
    ],
)
def test_what_a_page_does_not_count_is_said(runs, change, why, numbers):
    record, samples = read(runs)
    found = counted(dataclasses.replace(record, **change), samples)
    (line,) = found.left
    assert why in line
    assert (bool(found.rows), found.scored) == (numbers, 0)


def test_no_code_of_a_task_is_run(runs):
    record, samples = read(runs)
    (name, config), *_ = record.configs.items()
    foreign = {**config, "process_results": code("metrics.scores")}
    found = counted(dataclasses.replace(record, configs={name: foreign}), samples)
    assert found.left == [
        "the numbers: the benchmark is scored by code of its own, which a page does not run"
    ]
    library = {"metric_list": [{"metric": "accuracy", "hf_evaluate": True}]}
    found = counted(dataclasses.replace(record, configs={name: {**config, **library}}), samples)
    assert "code of its own" in found.left[0]


def test_what_is_no_file_of_samples_is_refused_in_a_sentence(runs, tmp_path):
    record, _ = read(runs)
    other = tmp_path / "samples.parquet"
    other.write_text(json.dumps({"scores": []}))
    with pytest.raises(ValueError, match="the file of the answers cannot be read"):
        counted(record, other)
