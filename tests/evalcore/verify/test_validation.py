"""Files that no engine writes are refused before anything of them is believed."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from evalcore.digest import digest_of_file
from evalcore.record import RunRecord, read_samples, write_samples
from evalcore.task.identity.digest import docs_digest
from evalcore.task.library.load import TaskLibrary
from evalcore.verify.validation import Contradiction, OtherFiles, check
from tests.evalcore.toys import evaluated, evaluated_strictly, write_run, write_toy, write_toys

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toys(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def honest(tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an engine wrote of a plain task and of a group, in both modes."""
    folder = tmp_path_factory.mktemp("honest")
    write_run(folder / "compat", evaluated(tasks))
    write_run(folder / "strict", evaluated_strictly(tasks))
    return folder


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    """The record of a plain task, beside its samples; a test may spoil both."""
    folder = shutil.copytree(honest / "strict", tmp_path / "run")
    (path,) = folder.glob("record_toy_plain_*.json")
    return path


def looked_at(path: Path, tasks: Path) -> None:
    record = RunRecord.read(path)
    check(record, path.parent / record.samples.file, TaskLibrary([tasks]), seed=1)


def write_record(path: Path, **fields: Any) -> None:
    dataclasses.replace(RunRecord.read(path), **fields).write(path)


def write_table(path: Path, table: pa.Table) -> None:
    """Samples of any shape, which the record then describes."""
    record = RunRecord.read(path)
    samples = path.parent / record.samples.file
    pq.write_table(table, samples, compression="zstd", store_schema=False)
    digest = digest_of_file(samples)
    file = dataclasses.replace(record.samples, sha256=digest, rows=len(table))
    write_record(path, samples=file)


def change_rows(path: Path, change: Callable[[Rows], Rows | None]) -> None:
    record = RunRecord.read(path)
    samples = path.parent / record.samples.file
    rows = list(read_samples(samples))
    write_record(path, samples=write_samples(samples, change(rows) or rows))


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_what_an_engine_wrote_is_taken(honest, tasks, mode):
    records = sorted((honest / mode).glob("record_*.json"))
    assert len(records) == 2
    for path in records:
        looked_at(path, tasks)


def test_documents_with_any_keys_are_taken(tmp_path):
    tasks = write_toys(tmp_path)
    (tasks / "keys.py").write_text(
        "def keyed(docs):\n"
        "    names = {None: 1, True: 2, 2.5: 3, 4: 5, float('nan'): 6}\n"
        "    return [{**doc, 'names': names, 'pair': (None, doc['number'])} for doc in docs]\n"
    )
    metadata = {"version": 1.0, "benchmark": "toys", "cluster": "names", "subset": "pair"}
    keyed = {"process_docs": "!function keys.keyed", "metadata": metadata}
    write_toy(tasks, "toy_keyed", like="toy_likely", **keyed)
    (path,) = write_run(tmp_path / "run", evaluated(tasks, "toy_keyed"))
    looked_at(path, tasks)


def other_questions(rows):
    for number, row in enumerate(rows):
        row["doc_digest"] = f"{number:064}"


def half(rows):
    return rows[::2]


def right_all_along(rows):
    for row in rows:
        row["scores"] = [{**score, "value": 1.0} for score in row["scores"]]
        row["correct"] = 1.0


def another_document(rows):
    rows[0]["doc"] = json.dumps({"question": "Another one?"})


def long_subset(rows):
    rows[3]["subset"] = "x" * 5_000_000


def another_subset(rows):
    rows[0]["subset"] = "part 3"


def backwards(rows):
    rows[:2] = rows[1::-1]


def in_one_cluster(rows):
    for row in rows:
        row["cluster"] = "a"


def picked_nothing(rows):
    rows[1]["pick"] = 99


def answers_of_nobody(rows):
    rows[-1]["responses"] *= 3


def twice(rows):
    rows[0]["scores"].append(rows[0]["scores"][0])


def long_thumbnail(rows):
    image = {"digest": "d" * 64, "width": 1, "height": 1, "thumbnail": b"x" * 200_000}
    rows[0]["images"] = [image]


def missing_sound(rows):
    rows[0]["sounds"] = [None]


def in_no_task(rows):
    rows[1]["task"] = "another_task"


def below_0(rows):
    rows[2]["responses"][0]["n_context_tokens"] = -5


def no_json(rows):
    rows[0]["doc"] = "{'question'"


def deep(rows):
    rows[0]["doc"] = "[" * 100_000 + "]" * 100_000


def nested(rows):
    rows[0]["doc"] = '{"a":' * 300 + "1" + "}" * 300


def digits(rows):
    rows[0]["doc"] = '{"question": ' + "9" * 5_000 + "}"


def null(rows):
    rows[0]["doc"] = "null"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (other_questions, "doc_digest is 000000000000"),
        (half, "the record says that its questions are"),
        (right_all_along, "counted again"),
        (another_document, "doc_digest"),
        (long_subset, "subset has 5,000,000 bytes"),
        (another_subset, "subset is part 3, and not toy_likely"),
        (backwards, "does not follow that of the one before"),
        (in_one_cluster, "cluster is a, and not None"),
        (picked_nothing, "pick is 99 of"),
        (answers_of_nobody, "responses to"),
        (twice, "a score stands twice"),
        (long_thumbnail, "images.thumbnail has"),
        (missing_sound, "sounds: an element is missing"),
        (in_no_task, "another_task, which was not asked"),
        (below_0, "n_context_tokens is -5"),
        (no_json, "document 0: doc: no JSON"),
        (deep, "document 0: doc: no JSON"),
        (nested, "nested more than 200 times"),
        (digits, "document 0: doc: no JSON"),
        (null, "document 0"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_samples_that_are_not_the_runs_are_refused(run, tasks, change, says):
    change_rows(run, change)
    with pytest.raises(Contradiction, match=says):
        looked_at(run, tasks)


def test_what_a_record_says_of_its_time_saves_no_false_score(run, tasks):
    change_rows(run, right_all_along)
    write_record(run, timing={"scores": 1e6})
    with pytest.raises(Contradiction, match="counted again"):
        looked_at(run, tasks)


def test_an_honest_docs_digest_saves_no_false_score(run, tasks):
    """Questions that the model made up itself, each told truly, with a record to match."""
    change_rows(run, lambda rows: rows[:5])
    samples = run.parent / RunRecord.read(run).samples.file
    write_record(run, docs_digest=docs_digest(row["doc_digest"] for row in read_samples(samples)))
    with pytest.raises(Contradiction, match="counted again"):
        looked_at(run, tasks)


def without_a_column(table):
    return table.drop_columns(["choices"])


def wider_numbers(table):
    at = table.schema.get_field_index("doc_id")
    return table.set_column(at, "doc_id", table["doc_id"].cast(pa.int64()))


def empty(table):
    return table.slice(0, 0)


def of_many_responses(table):
    """A million and a half of them in one row; the others have as many as requests."""
    responses = table["responses"].combine_chunks()
    first = responses[0].as_py()
    at = table.schema.get_field_index("responses")
    rows = [first * 800_000, *responses[1:].to_pylist()]
    return table.set_column(at, "responses", pa.array(rows, responses.type))


def without_responses(table):
    at = table.schema.get_field_index("responses")
    return table.set_column(at, "responses", pa.nulls(len(table), table["responses"].type))


def large(table):
    """A few kilobytes."""
    rows = pa.concat_tables([table.slice(0, 1)] * 100)
    at, number = (table.schema.get_field_index(name) for name in ("prompt", "doc_id"))
    rows = rows.set_column(number, "doc_id", pa.array(range(100), pa.int32()))
    return rows.set_column(at, "prompt", pa.array(["x" * 3_000_000] * 100))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without_a_column, "other columns than an engine writes: choices"),
        (wider_numbers, "column doc_id of the sample file is int64"),
        (empty, "0 questions"),
        (without_responses, "no responses"),
        (large, "unpack to more than 256 MiB"),
        (of_many_responses, "responses has"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_file_of_another_shape_is_refused_before_it_is_read(run, tasks, change, says):
    samples = run.parent / RunRecord.read(run).samples.file
    write_table(run, change(pq.read_table(samples)))
    with pytest.raises(Contradiction, match=says):
        looked_at(run, tasks)


def with_first_result(record: RunRecord, **fields: Any) -> RunRecord:
    first, *others = record.results
    return dataclasses.replace(record, results=[dataclasses.replace(first, **fields), *others])


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (lambda r: with_first_result(r, value=0.99, high=1.0), Contradiction, "stated 0.99"),
        (lambda r: dataclasses.replace(r, docs_digest="d" * 64), Contradiction, "dddddddddddd"),
        (lambda r: with_first_result(r, interval="x" * 10_000), Contradiction, "interval is xxxx"),
        (lambda r: with_first_result(r, higher_is_better=None), Contradiction, "higher_is_better"),
        (lambda r: dataclasses.replace(r, results=r.results * 2), Contradiction, "stands twice"),
        (lambda r: dataclasses.replace(r, clean_results=r.results), Contradiction, "no search"),
        (lambda r: dataclasses.replace(r, without_text=["toy_likely"]), Contradiction, "without_t"),
        (
            lambda r: dataclasses.replace(r, engine={**r.engine, "name": "x"}),
            Contradiction,
            "no run",
        ),
        (
            lambda r: dataclasses.replace(r, settings={"predict_only": True}),
            Contradiction,
            "no run",
        ),
        (lambda r: dataclasses.replace(r, groups={}), Contradiction, "groups"),
        (
            lambda r: dataclasses.replace(
                r,
                configs={
                    **r.configs,
                    "toy_likely": {**r.configs["toy_likely"], "num_fewshot": "x"},
                },
            ),
            Contradiction,
            "num_fewshot of toy_likely",
        ),
        (lambda r: dataclasses.replace(r, run_key="a" * 64), Contradiction, "another run key"),
        (lambda r: dataclasses.replace(r, shots=3), Contradiction, "another run key"),
        (lambda r: dataclasses.replace(r, configs={}), Contradiction, "configs"),
        (
            lambda r: dataclasses.replace(
                r, configs={**r.configs, "toy_likely": {**r.configs["toy_likely"], "repeats": 7}}
            ),
            Contradiction,
            "repeats of toy_likely",
        ),
        (lambda r: dataclasses.replace(r, config_digest="c" * 64), OtherFiles, "others than"),
        (lambda r: dataclasses.replace(r, task="no_such_task"), OtherFiles, "no_such_task"),
    ],
)
def test_a_record_that_its_samples_or_its_task_deny_is_refused(run, tasks, change, kind, says):
    change(RunRecord.read(run)).write(run)
    with pytest.raises(kind, match=says):
        looked_at(run, tasks)


def test_a_number_that_claims_another_column_is_refused(tasks, tmp_path):
    (path,) = write_run(tmp_path, evaluated(tasks, "toy_choice", mode="strict"))
    looked_at(path, tasks)
    record = RunRecord.read(path)
    row = record.own_results()[0]
    others = [one for one in record.results if one != row]
    write_record(path, results=[dataclasses.replace(row, comparability_key="k" * 64), *others])
    with pytest.raises(Contradiction, match="comparability_key is kkkkkkkkkkkk"):
        looked_at(path, tasks)


def test_what_unpacks_to_more_than_memory_ends_the_check_alone(run, tasks):
    """A text of 300 MB stands once in the file, and in each of the twenty rows of a batch."""
    rows = pq.read_table(run.parent / RunRecord.read(run).samples.file)
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 20, pa.int32()), ["x" * 300_000_000])
    twenty = pa.concat_tables([rows] * 20).slice(0, 20)
    at = twenty.schema.get_field_index("prompt")
    write_table(run, twenty.set_column(at, "prompt", text))
    samples = run.parent / RunRecord.read(run).samples.file
    assert samples.stat().st_size < 1_000_000
    assert "unpack" in json.loads(as_program(run, tasks).stdout)["said"]


def as_program(run: Path, tasks: Path) -> subprocess.CompletedProcess[str]:
    samples = run.parent / RunRecord.read(run).samples.file
    command = [sys.executable, "-m", "evalcore.verify.validation", samples, tasks]
    return subprocess.run(command, stdin=run.open(), capture_output=True, text=True, check=True)


def test_a_form_that_nobody_foresaw_is_refused_with_the_place_in_the_code(run, tasks):
    write_record(run, settings={"seed": "x" * 10_000})
    done = as_program(run, tasks)
    assert json.loads(done.stdout)["said"].startswith("it is not as an engine writes it (")
    assert 'validation.py", line' in done.stderr
    assert "x" * 100 not in done.stderr


SCORED_BY_CODE = """
def results(doc, results):
    return {"right": float(results[0][1]), "length": len(doc["question"])}

def spread(items):
    return {"low": min(items), "high": max(items)}
"""


@pytest.fixture(scope="module")
def scored_by_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks that are scored by code of their own, alone and in groups."""
    tasks = write_toys(tmp_path_factory.mktemp("scored by code"))
    (tasks / "own.py").write_text(SCORED_BY_CODE)
    metrics = [
        {"metric": "right", "aggregation": "mean", "higher_is_better": True, "base": 2},
        {"metric": "length", "aggregation": "!function own.spread", "higher_is_better": False},
    ]
    own = {"process_results": "!function own.results", "metric_list": metrics}
    write_toy(tasks, "toy_own", like="toy_likely", **own)
    in_parts = {"version": 1.0, "benchmark": "toys", "style": "cloze", "subset": "number"}
    write_toy(tasks, "toy_in_parts", like="toy_likely", **own, metadata=in_parts)
    group = {
        "group": "toy_owners",
        "task": ["toy_own", {"group": "toy_inner_owners", "task": ["toy_in_parts"]}],
        "aggregate_metric_list": [{"metric": "right"}],
    }
    (tasks / "toy_owners.yaml").write_text(yaml.safe_dump(group))
    return tasks


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        *(("toy_own", mode) for mode in ("compat", "strict")),
        *(("toy_in_parts", mode) for mode in ("compat", "strict")),
        *(("toy_owners", mode) for mode in ("compat", "strict")),
        ("toy_group", "compat"),
    ],
)
def test_every_number_stands_in_the_column_of_its_own_task(scored_by_code, tmp_path, task, mode):
    """Also one that the task's own code makes, which nobody counts again."""
    (path,) = write_run(tmp_path, evaluated(scored_by_code, task, mode=mode))
    looked_at(path, scored_by_code)
    honest = RunRecord.read(path)
    if task == "toy_in_parts":
        assert len({row.subset for row in honest.results}) == 6
    keys = list(dict.fromkeys(row.comparability_key for row in honest.results))
    for number, row in enumerate(honest.results):
        key = keys[keys.index(row.comparability_key) - 1]
        results = list(honest.results)
        results[number] = dataclasses.replace(row, comparability_key=key)
        dataclasses.replace(honest, results=results).write(path)
        with pytest.raises(Contradiction, match=f"{row.task}: comparability_key is {key[:12]}"):
            looked_at(path, scored_by_code)
