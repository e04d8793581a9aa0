"""What this version cannot run is refused by task, key and value, before any data is loaded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.errors import TaskError
from evalcore.task.load import TaskLibrary
from evalcore.task.support import check_supported
from tests.evalcore.worlds import World, write_tasks

ACC = {"metric": "acc"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"output_type": "generate_until"}, "output_type: generate_until (only multiple_choice"),
        ({"use_prompt": "promptsource:x"}, "use_prompt is set, to promptsource:x: leave it out"),
        ({"repeats": 3}, "repeats: 3 (a loglikelihood is asked once): write 1"),
        ({"unsafe_code": True}, "unsafe_code: true"),
        ({"fewshot_config": {"sampler": "balanced"}}, "fewshot_config.sampler: balanced"),
        ({"fewshot_config": {"fewshot_indices": [1]}}, "fewshot_config.fewshot_indices: [1]"),
        (
            {"metric_list": [ACC, {"metric": "acc_mutual_info"}]},
            "metric_list[1].metric: acc_mutual_info is not known: name one of acc, acc_norm",
        ),
        ({"metric_list": []}, "metric_list: empty: name at least one of acc, acc_norm"),
        ({"metric_list": [ACC, ACC]}, "metric_list: acc stands there 2 times: name it once"),
        (
            {"metric_list": [{**ACC, "aggregation": "median"}]},
            "metric_list[0].aggregation: median is not known: write mean",
        ),
        (
            {"metric_list": [{**ACC, "higher_is_better": False}]},
            "metric_list[0].higher_is_better: false is not true of acc: write true",
        ),
        ({"metric_list": [{**ACC, "hf_evaluate": True}]}, "metric_list[0].hf_evaluate: true"),
        (
            {"metric_list": [{**ACC, "ignore_case": True}]},
            "metric_list[0].ignore_case: True (the metrics here take no arguments): leave it out",
        ),
        (
            {"filter_list": [{"name": "x", "filter": [{"function": "take_first"}]}]},
            "filter_list: x (take_first) (choices are not filtered): leave it out",
        ),
        (
            {"filter_list": [{"name": "none", "filter": [{"function": "lowercase"}]}]},
            "filter_list: none (lowercase)",
        ),
        ({"filter_list": []}, "filter_list: empty"),
        (
            {"metadata": {"benchmark": "b", "primary_metric": "acc_norm"}},
            "metadata.primary_metric: acc_norm is not in metric_list, which has acc: name one",
        ),
        (
            {"metadata": {"benchmark": "b", "publish_samples": "ids"}},
            "metadata.publish_samples: ids (samples would still be written with their text)",
        ),
        (
            {"metadata": {"benchmark": "b", "extra_metrics": ["acc_tokens"]}},
            "metadata.extra_metrics: acc_tokens",
        ),
    ],
)
def test_a_task_is_refused_by_key_value_and_remedy(
    world: World, keys: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TaskError, match="capitals: " + re.escape(complaint)):
        world.task(dataset_path="nowhere", **keys)


def test_functions_in_place_of_our_metrics_and_means_are_refused(tmp_path: Path) -> None:
    metrics = "metric_list:\n  - metric: !function code.acc\n    aggregation: !function code.mean\n"
    library = write_tasks(tmp_path, {"a.yaml": task_file("a", without="metric_list") + metrics})
    with pytest.raises(TaskError) as caught:
        check_supported(library.one("a"))
    assert "metric_list[0].metric: !function code.acc is not known" in str(caught.value)
    assert "metric_list[0].aggregation: !function code.mean is not known" in str(caught.value)


def test_all_that_is_wrong_is_told_at_once(world: World) -> None:
    with pytest.raises(TaskError) as caught:
        world.task(dataset_path="nowhere", repeats=2, metric_list=[{"metric": "f1"}])
    first, *lines = str(caught.value).splitlines()
    assert first.endswith("The task capitals cannot be run by this version:")
    assert lines == [
        "  capitals: repeats: 2 (a loglikelihood is asked once): write 1",
        "  capitals: metric_list[0].metric: f1 is not known: name one of acc, acc_norm",
    ]


def test_what_can_be_run_may_be_written_out(world: World) -> None:
    metric = {**ACC, "aggregation": "mean", "higher_is_better": True}
    check_supported(
        world.spec(
            dataset_path="nowhere",
            metric_list=[metric, {"metric": "acc_norm"}],
            filter_list=[{"name": "none", "filter": [{"function": "take_first"}]}],
            metadata={"benchmark": "b", "primary_metric": "acc_norm", "publish_samples": "full"},
        )
    )


# Groups


def task_file(name: str, without: str = "", **keys: Any) -> str:
    values = {
        "task": name,
        "dataset_path": "nowhere",
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "metric_list": [ACC],
        **keys,
    }
    return yaml.safe_dump({key: value for key, value in values.items() if key != without})


def group_of(folder: Path, **keys: Any) -> TaskLibrary:
    """A library with the group `g` of the tasks a and b, of which only b has acc_norm."""
    group = {"group": "g", "task": ["a", "b"], "aggregate_metric_list": [ACC], **keys}
    both = [ACC, {"metric": "acc_norm"}]
    files = {
        "a.yaml": task_file("a"),
        "b.yaml": task_file("b", metric_list=both),
        "g.yaml": yaml.safe_dump(group),
    }
    return write_tasks(folder, files)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (
            {"aggregate_metric_list": [{**ACC, "weight_by_size": False}]},
            "g: aggregate_metric_list[0].weight_by_size: false (every document counts the same)",
        ),
        (
            {"aggregate_metric_list": [{**ACC, "filter_list": ["strict-match"]}]},
            "g: aggregate_metric_list[0].filter_list: strict-match (there is only none)",
        ),
        (
            {"aggregate_metric_list": [ACC, {"metric": "acc_norm"}]},
            "g: aggregate_metric_list[1].metric: acc_norm is not measured by a: add it to",
        ),
        ({"aggregate_metric_list": [ACC, ACC]}, "g: aggregate_metric_list: acc stands there 2"),
        ({"task": ["a", "b", "a"]}, "g: task: a is in it 2 times and would count as often"),
        (
            {"task": ["a", {"group": "inner", "task": ["a"]}]},
            "g: task: a is in it 2 times and would count as often",
        ),
        ({"task": []}, "g: task: it has no task: name at least one"),
        (
            {"metadata": {"benchmark": "b", "primary_metric": "acc_norm"}},
            "g: metadata.primary_metric: acc_norm is not in aggregate_metric_list, which has acc",
        ),
        ({"metadata": {"benchmark": "b", "publish_samples": "ids"}}, "g: metadata.publish_samples"),
        (
            {
                "task": [
                    {"group": "inner", "task": ["a"], "aggregate_metric_list": [{"metric": "f1"}]}
                ]
            },
            "g::inner: aggregate_metric_list[0].metric: f1 is not measured by a",
        ),
        ({"repeats": 2}, "a, b: repeats: 2"),
    ],
)
def test_a_group_is_refused_by_key_value_and_remedy(
    tmp_path: Path, keys: dict[str, Any], complaint: str
) -> None:
    group = group_of(tmp_path, **keys).one("g")
    with pytest.raises(TaskError, match=re.escape(complaint)) as caught:
        check_supported(group)
    assert "The group g cannot be run by this version:\n" in str(caught.value)


def test_a_function_that_aggregates_a_group_is_refused(tmp_path: Path) -> None:
    group_of(tmp_path)
    text = "group: g\ntask: [a]\naggregate_metric_list:\n  - metric: acc\n    aggregation: "
    library = write_tasks(tmp_path, {"g.yaml": f"{text}!function code.median\n"})
    complaint = r"g: aggregate_metric_list\[0\]\.aggregation: !function code\.median is not known"
    with pytest.raises(TaskError, match=complaint):
        check_supported(library.one("g"))


def test_a_group_that_can_be_run_is_accepted(tmp_path: Path) -> None:
    entry = {**ACC, "aggregation": "mean", "weight_by_size": True, "filter_list": "none"}
    check_supported(group_of(tmp_path, aggregate_metric_list=[entry]).one("g"))


def test_a_problem_of_many_tasks_is_told_once(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(57)]
    files = {f"{name}.yaml": task_file(name, repeats=2) for name in names}
    library = write_tasks(
        tmp_path, {**files, "g.yaml": yaml.safe_dump({"group": "g", "task": names})}
    )
    with pytest.raises(TaskError) as caught:
        check_supported(library.one("g"))
    assert str(caught.value).splitlines()[1:] == [
        "  t0, t1, t2 and 54 more: repeats: 2 (a loglikelihood is asked once): write 1"
    ]


def test_checking_a_task_loads_neither_torch_nor_datasets() -> None:
    code = "import sys, evalcore.task.support; print({'torch', 'datasets'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
