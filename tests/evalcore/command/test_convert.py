"""Results in other forms: each is read back, and verified like the run itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest

from evalcore.cli import main
from evalcore.formats.run_files import Run, read_runs
from tests.evalcore.toys import evaluated, write_run, write_toys
from tests.services import missing

LOSSLESS = ("record", "parquet", "every-eval-ever")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder with the records of a group and of tasks of every kind."""
    folder = tmp_path_factory.mktemp("run")
    write_run(folder / "run", evaluated(write_toys(folder)))
    return folder / "run"


def converted(run: Path, form: str, folder: Path) -> Path:
    assert main(["convert", str(run), "--to", form, "-o", str(folder)]) == 0
    return folder


def content(runs: Iterator[Run]) -> list[tuple[object, ...]]:
    """Everything but the names of files."""
    return sorted(
        (one.record.task, one.record.run_key, str(one.record.results), str(list(one.samples)))
        for one in runs
    )


@pytest.mark.parametrize("form", LOSSLESS)
def test_what_we_write_in_another_form_comes_back_whole(run, form, tmp_path):
    there = converted(run, form, tmp_path / "there")
    back = converted(there, "record", tmp_path / "back")
    assert content(read_runs([back])) == content(read_runs([run]))


@pytest.mark.parametrize("form", [*LOSSLESS, "lm-eval"])
def test_every_form_can_be_verified(run, form, tmp_path, capsys):
    there = converted(run, form, tmp_path)
    assert main(["verify", str(there)]) == 0
    said = capsys.readouterr().out
    assert "DIFFERS" not in said
    assert "toy_group" in said


def test_lm_evaluation_harness_s_files_come_back_as_they_were(run, tmp_path):
    first = converted(run, "lm-eval", tmp_path / "first")
    records = converted(first, "record", tmp_path / "records")
    second = converted(records, "lm-eval", tmp_path / "second")
    for path in first.rglob("samples_*.jsonl"):
        task = path.name.split("_2")[0]
        (other,) = second.rglob(f"{task}_2*.jsonl")
        assert other.read_text() == path.read_text()
    (one,), (two,) = first.rglob("results_*.json"), second.rglob("results_*.json")
    for key in ("results", "groups", "group_subtasks", "n-shot", "n-samples", "task_hashes"):
        assert json.loads(two.read_text())[key] == json.loads(one.read_text())[key], key


def test_exports_in_every_eval_ever_s_form_are_valid_by_its_schemas(run, test_data, tmp_path):
    schemas = test_data.parent / "eee"
    if not schemas.is_dir():
        missing(f"NO SCHEMAS: {schemas} is no folder")
    aggregate, instance = (
        jsonschema.Draft7Validator(json.loads((schemas / name).read_text()))
        for name in ("eval.schema.json", "inst.schema.json")
    )
    folder = converted(run, "every-eval-ever", tmp_path)
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


def test_uncertainty_goes_along_to_every_eval_ever(run, tmp_path):
    folder = converted(run, "every-eval-ever", tmp_path)
    known = {
        (row.task, row.metric, row.filter): row
        for known in read_runs([run])
        for row in known.record.results
    }
    for path in folder.rglob("*.json"):
        for result in json.loads(path.read_text())["evaluation_results"]:
            task, _, metric, filter = result["evaluation_result_id"].rsplit("/", 3)
            row, said = known[task, metric, filter], result["score_details"]
            assert said["score"] == row.value
            assert said["uncertainty"]["num_samples"] == row.n
            if row.stderr is not None:
                assert said["uncertainty"]["standard_error"]["value"] == row.stderr
                assert said["uncertainty"]["confidence_interval"]["lower"] == row.low


def test_the_flat_table_has_a_row_for_every_number(run, tmp_path):
    rows = pq.read_table(converted(run, "parquet", tmp_path) / "results.parquet").to_pylist()
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
