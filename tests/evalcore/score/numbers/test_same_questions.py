"""Groups whose tasks ask the same questions in several languages: each question counts once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.cli import main
from evalcore.library import evaluate
from evalcore.stats import interval, standard_error
from tests.evalcore.toys import ToyLM, write_run

TASK: dict[str, Any] = {
    "dataset_path": "json",
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


def languages(folder: Path, *, same: bool, cluster: str | None = None) -> Path:
    """Two tasks on 60 parallel rows, and their group; two rows share a passage."""
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    for language in ("one", "two"):
        rows = [
            {
                "question": f"{language} {number}?",
                "choices": [f"{language} {number} {letter}" for letter in "abc"],
                "answer": number % 3,
                "passage": f"{language} {number // 2}",
            }
            for number in range(60)
        ]
        file = folder / f"{language}.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        data = {"data_files": {"test": str(file)}, "cache_dir": str(folder / "cache")}
        metadata = {"version": 1, "benchmark": "q", **({"cluster": cluster} if cluster else {})}
        task = {**TASK, "task": f"q_{language}", "dataset_kwargs": data, "metadata": metadata}
        (tasks / f"{language}.yaml").write_text(yaml.safe_dump(task))
    group = {
        "group": "q",
        "task": ["q_one", "q_two"],
        "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
        "metadata": {"version": 1, "benchmark": "q", "same_questions": same},
    }
    (tasks / "group.yaml").write_text(yaml.safe_dump(group))
    return tasks


def evaluated(tasks: Path) -> Any:
    (done,) = evaluate(ToyLM(), ["q"], include_path=tasks, mode="strict")
    return done


@pytest.mark.parametrize("cluster", [None, "passage"])
def test_a_question_is_one_cluster_over_all_languages(
    tmp_path: Path, cluster: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = languages(tmp_path, same=True, cluster=cluster)
    done = evaluated(tasks)
    (row,) = (row for row in done.record.results if row.task == "q")
    scores = [sample["correct"] for sample in done.samples]
    labels = [sample["doc_id"] // (2 if cluster else 1) for sample in done.samples]
    assert row.interval == "clustered"
    assert row.stderr == pytest.approx(standard_error(scores, labels))
    bounds = interval(scores, labels)
    assert (row.low, row.high) == pytest.approx((bounds.low, bounds.high))
    write_run(tmp_path / "run", [done])
    assert main(["verify", str(tmp_path / "run"), "--include_path", str(tasks)]) == 0, (
        capsys.readouterr().out
    )


def test_other_groups_pool_their_tasks_as_before(tmp_path: Path) -> None:
    (row,) = (
        row for row in evaluated(languages(tmp_path, same=False)).record.results if row.task == "q"
    )
    assert row.interval == "pooled"


def test_it_is_part_of_what_a_group_is(tmp_path: Path) -> None:
    same = evaluated(languages(tmp_path / "a", same=True)).record
    apart = evaluated(languages(tmp_path / "b", same=False)).record
    assert same.groups["q"]["same_questions"] is True
    assert "same_questions" not in apart.groups["q"]
