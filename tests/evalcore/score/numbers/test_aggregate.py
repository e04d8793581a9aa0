"""Numbers of a group as a real evaluation makes them, with a fake model behind the protocol."""

from __future__ import annotations

import json

import pytest

from evalcore.evaluation import evaluate
from evalcore.model.base import Request
from evalcore.model.fake import FakeLM
from evalcore.record import RunRecord
from evalcore.settings import Settings
from evalcore.task.library.load import TaskLibrary

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: ["yes", "no"]
doc_to_target: answer
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0, benchmark: parts, style: cloze, primary_metric: acc, {subset}}}
"""
GROUP = """\
group: parts
task: [one, two, three]
aggregate_metric_list: [{metric: acc, aggregation: mean, weight_by_size: true}]
metadata: {version: 1.0, benchmark: parts, style: cloze, primary_metric: acc}
"""


def always_yes(request: Request, repeat: int) -> tuple[float, bool]:
    """To this model "yes" is always the likelier answer."""
    return (-1.0 if "yes" in request.continuation else -2.0), False


class Nobody:
    def phase(self, name): ...
    def progress(self, task, done, total, tokens): ...
    def look(self, look): ...
    def wants_stop(self):
        return False


@pytest.fixture
def evaluation(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    tasks = (("one", "subset: topic", 3), ("two", "subset: second", 1), ("three", "chance: 0.5", 2))
    for name, subset, right in tasks:
        rows = [
            {"question": f"{name} {n}?", "topic": "first", "answer": int(n >= right)}
            for n in range(4)
        ]
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / f"{name}.yaml").write_text(
            TASK.format(name=name, file=json.dumps(str(file)), subset=subset)
        )
    (tmp_path / "parts.yaml").write_text(GROUP)
    specs = TaskLibrary([tmp_path]).select(["parts"])
    (evaluation,) = evaluate(FakeLM(always_yes), specs, Settings(mode="strict"), Nobody())
    return evaluation


def test_each_part_of_a_group_goes_by_its_own_name(evaluation):
    """By its column's value, by its constant, else by the task's name; the samples say the same."""
    rows = {(row.task, row.subset): row.value for row in evaluation.record.results}
    assert rows == {
        ("parts", ""): 0.5,
        ("one", "first"): 0.75,
        ("two", "second"): 0.25,
        ("three", "three"): 0.5,
    }
    assert {sample["subset"] for sample in evaluation.samples} == {"first", "second", "three"}


def test_no_two_numbers_share_a_key(evaluation):
    keys = [row.comparability_key for row in evaluation.record.results]
    assert len(set(keys)) == len(keys)


def test_a_record_is_read_as_it_was_written(evaluation, tmp_path):
    record, samples = evaluation.write(tmp_path, "parts")
    again = RunRecord.read(record)
    assert again.samples.file == samples.name
    assert again.results == evaluation.record.results
    assert again.groups["parts"]["members"] == ["one", "two", "three"]


def test_a_record_of_another_schema_is_refused(evaluation, tmp_path):
    record, _ = evaluation.write(tmp_path, "parts")
    record.write_text(record.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    with pytest.raises(ValueError, match="schema_version is 9"):
        RunRecord.read(record)
