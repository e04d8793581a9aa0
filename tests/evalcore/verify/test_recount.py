"""A number counted again in a second: what was changed is found, what is not counted is said."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcore.record import RunRecord, read_samples, write_samples
from evalcore.selection import library_of
from evalcore.verify import recount as module
from evalcore.verify.recount import Recount, recount
from tests.evalcore.toys import evaluated, evaluated_strictly, write_run, write_toys

Sample = dict[str, Any]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recount")
    tasks = write_toys(folder)
    write_run(folder / "compat", evaluated(tasks))
    write_run(folder / "strict", evaluated_strictly(tasks))
    return folder


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


def test_a_file_that_was_changed_afterwards_is_not_the_one_that_was_published(runs, tmp_path):
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


def test_answers_that_do_not_give_the_stated_scores_are_found_though_every_sum_agrees(
    runs, tmp_path
):
    record, samples = read(runs)

    def swap(rows: list[Sample]) -> None:
        for response in rows[0]["responses"]:
            response["loglikelihood"] = -response["loglikelihood"]

    found = counted(*tampered(record, samples, tmp_path, swap))
    assert found.differences
    assert all("document 0" in line for line in found.differences)


def test_a_number_that_was_changed_in_the_record_is_found(runs):
    record, samples = read(runs)
    first, *others = record.results
    better = dataclasses.replace(first, value=first.value + 0.01)
    found = counted(dataclasses.replace(record, results=[better, *others]), samples)
    (line,) = found.differences
    assert line.endswith(f"value: stated {better.value!r}, computed {first.value!r}")


def test_a_question_less_is_found(runs, tmp_path):
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
