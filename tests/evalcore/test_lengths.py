"""Each number stands beside how many of its answers and prompts were cut short."""

from __future__ import annotations

import json
from dataclasses import astuple, replace

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalcore.cli import main
from evalcore.formats.lmeval.results import leaves_of
from evalcore.lengths import NAMES, Lengths
from evalcore.library import evaluate
from evalcore.record import RunRecord, read_samples
from evalcore.remarks import remarks_on
from evalcore.result_table import result_table
from tests import tiny
from tests.evalcore.toys import evaluated, write_run, write_toys

RESPONSES = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["loglikelihood", "generate_until"]),
            "n_truncated": st.integers(0, 2),
            "finish_reason": st.sampled_from([None, "stop", "eos", "length"]),
        },
        optional={"thinking": st.sampled_from([None, "ended", "cut", "unended"])},
    ),
    max_size=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of a tiny model with little room, whose answers have eight tokens."""
    folder = tmp_path_factory.mktemp("lengths")
    model = tiny.make(folder / "model", positions=60)
    tasks = write_toys(folder / "toys")
    for name, arguments in {
        "plain": {},
        "thinking": {"think_end_token": "</think>"},
        "budget": {"think_end_token": "</think>", "thinking_budget": 5},
    }.items():
        runs = evaluate(
            "hf", "toy_group", model_args={"pretrained": str(model), **arguments},
            include_path=tasks, device="cpu", bootstrap_iters=0,
        )  # fmt: skip
        write_run(folder / name, runs)
    return folder


def record_of(folder):
    (path,) = folder.glob("record_*.json")
    return RunRecord.read(path)


def samples_of(folder):
    return list(read_samples(folder / record_of(folder).samples.file))


@pytest.mark.parametrize("name", ["plain", "thinking", "budget"])
def test_every_number_counts_the_responses_to_its_own_documents(folder, name):
    """A group those of the tasks that have the metric, a part its own."""
    record, samples = record_of(folder / name), samples_of(folder / name)
    for row in record.results:
        column = (row.metric, row.filter)
        having = {other.task for other in record.results if (other.metric, other.filter) == column}
        tasks = {row.task}
        if row.task in record.groups:
            tasks = set(leaves_of(row.task, record.groups)) & having
        responses = [
            r for sample in samples if sample["task"] in tasks for r in sample["responses"]
        ]
        written = [r for r in responses if r["kind"] == "generate_until"]
        assert row.lengths == Lengths(
            requests=len(responses),
            prompts_cut=sum(r["n_truncated"] > 0 for r in responses),
            answers=len(written),
            by_length=sum(r["finish_reason"] == "length" for r in written),
            still_thinking=sum(r["thinking"] == "unended" for r in written),
            thoughts_cut=sum(r["thinking"] == "cut" for r in written),
        )
    written = next(row.lengths for row in record.results if row.task == "toy_written")
    assert written.by_length > 0
    assert written.prompts_cut > 0
    assert (written.still_thinking > 0) == (name == "thinking")
    assert (written.thoughts_cut > 0) == (name == "budget")
    assert record.requests["by_length"] == written.by_length


def test_a_metric_that_some_documents_do_not_have_counts_the_others_alone(tmp_path):
    tasks = write_toys(tmp_path)
    (tasks / "halves.py").write_text(
        "def score(doc, results):\n"
        "    return {'whole': 1.0, **({'half': 1.0} if int(doc['number']) < 2 else {})}\n"
    )
    keys = yaml.safe_load((tasks / "toy_written.yaml").read_text())
    metrics = [
        {"metric": name, "aggregation": "mean", "higher_is_better": True}
        for name in ("whole", "half")
    ]
    keys = {**keys, "task": "toy_halves", "metric_list": metrics, "repeats": 1}
    del keys["filter_list"]
    text = yaml.safe_dump(keys) + "process_results: !function halves.score\n"
    (tasks / "halves.yaml").write_text(text)
    (done,) = evaluated(tasks, "toy_halves")
    counted = {row.metric: (row.n, row.lengths.answers) for row in done.record.results}
    assert counted == {"whole": (12, 12), "half": (6, 6)}


@given(st.lists(RESPONSES, max_size=4))
def test_counts_of_parts_add_up(parts):
    whole = Lengths.of([response for part in parts for response in part])
    assert Lengths.sum(map(Lengths.of, parts)) == whole
    assert Lengths(**whole.as_json()) == whole
    assert whole.by_length <= whole.answers <= whole.requests


def test_a_record_has_them_and_one_from_before_is_what_it_was(folder, tmp_path):
    record = record_of(folder / "plain")
    assert RunRecord.of(json.loads(json.dumps(record.as_json()))) == record
    before = replace(record, results=[replace(row, lengths=None) for row in record.results])
    before.write(tmp_path / "record.json")
    written = json.loads((tmp_path / "record.json").read_text())
    assert all("lengths" not in row for row in written["results"])
    assert RunRecord.read(tmp_path / "record.json") == before


def test_the_table_marks_the_numbers_and_says_below_what_the_marks_mean(folder):
    record = record_of(folder / "thinking")
    table = result_table([record], width=200)
    for row in record.results:
        if row.task == "toy_written":
            lines = [line for line in table.splitlines() if f"{row.metric},{row.filter}" in line]
            assert lines
            assert all("↑ †‡" in line for line in lines)
    counts = next(row.lengths for row in record.results if row.task == "toy_written")
    share = 100 * counts.by_length / counts.answers
    assert (
        f"† stopped by their length, before the model ended them: toy_group: {counts.by_length} of "
        f"{counts.answers} answers ({share:.1f} %), {counts.still_thinking} still thinking"
    ) in remarks_on([record])
    assert any(line.startswith("‡ toy_group: ") for line in remarks_on([record]))


def test_where_nothing_was_cut_nothing_is_said(tmp_path):
    (done,) = evaluated(write_toys(tmp_path), "toy_written")
    assert "†" not in result_table([done.record])
    assert remarks_on([done.record]) == []


def test_of_many_tasks_those_with_the_largest_share_are_named(folder):
    record = record_of(folder / "plain")
    many = [
        replace(record, task=f"task_{count}", requests={"answers": 100, "by_length": count})
        for count in range(1, 8)
    ]
    (line,) = [line for line in remarks_on(many) if "†" in line]
    assert line.endswith(
        "task_7: 7 of 100 answers (7.0 %); task_6: 6 of 100 answers (6.0 %); "
        "task_5: 5 of 100 answers (5.0 %); and 4 more tasks"
    )


def test_a_comparison_says_it_of_both(folder, capsys):
    main(["compare", str(folder / "plain"), str(folder / "budget")])
    said = capsys.readouterr().out
    assert "a: † stopped by their length" in said
    assert "b: † stopped by their length" in said


def test_the_counts_are_checked_and_stand_in_every_form(folder, tmp_path, capsys):
    (path,) = (folder / "budget").glob("record_*.json")
    assert main(["verify", str(path)]) == 0
    capsys.readouterr()
    for form in ("parquet", "every-eval-ever"):
        place = ["--output_path", str(tmp_path / form)]
        assert main(["convert", str(folder / "budget"), "--to", form, *place]) == 0
    (table,) = [path for path in (tmp_path / "parquet").rglob("*.parquet") if "result" in path.name]
    rows = pq.read_table(table).to_pylist()
    expected = [astuple(row.lengths) for row in record_of(folder / "budget").results]
    assert [tuple(row[name] for name in NAMES) for row in rows] == expected

    fields = json.loads(path.read_text())
    fields["results"][-1]["lengths"]["by_length"] += 1
    wrong = tmp_path / path.name
    wrong.write_text(json.dumps(fields))
    samples = path.parent / fields["samples"]["file"]
    (tmp_path / samples.name).write_bytes(samples.read_bytes())
    assert main(["verify", str(wrong)]) == 1
    assert "by_length" in capsys.readouterr().out
