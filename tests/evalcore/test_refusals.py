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
from evalcore.refusals import check_supported
from evalcore.score.filters.registry import pipelines_of
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.worlds import World, write_tasks

ACC = {"metric": "acc"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (
            {"doc_to_image": "picture", "output_type": "loglikelihood_rolling"},
            "doc_to_image: picture (output_type: loglikelihood_rolling asks how likely a text is,",
        ),
        (
            {"doc_to_audio": ["clip"], "output_type": "loglikelihood_rolling"},
            "doc_to_audio: ['clip'] (output_type: loglikelihood_rolling asks how likely a text is,",
        ),
        ({"unsafe_code": True}, "unsafe_code: true (scoring runs code that the model wrote)"),
        (
            {"fewshot_config": {"sampler": "ballanced"}},
            "fewshot_config.sampler: ballanced is not known: write default or first_n or balanced",
        ),
        (
            {"metric_list": [ACC, {"metric": "acc_nrom"}]},
            "metric_list[1].metric: there is no metric 'acc_nrom' (did you mean acc_norm",
        ),
        (
            {"metric_list": [{**ACC, "aggregation": "meen"}]},
            "metric_list[0].aggregation: meen is not known (did you mean mean",
        ),
        ({"metric_list": []}, "metric_list: empty: name at least one"),
        ({"metric_list": [ACC, ACC]}, "metric_list: acc stands there 2 times: name it once"),
        (
            {"filter_list": [{"name": "x", "filter": [{"function": "take_furst"}]}]},
            "filter_list[0].filter[0].function: take_furst is not known (did you mean take_first",
        ),
        ({"filter_list": []}, "filter_list: empty"),
        (
            {"metadata": {"benchmark": "b", "primary_metric": "acc_norm"}},
            "metadata.primary_metric: acc_norm is not in metric_list, which has acc: name one",
        ),
    ],
)
def test_a_task_is_refused_by_key_value_and_remedy(
    world: World, keys: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TaskError, match="capitals: " + re.escape(complaint)):
        check_supported(world.spec(dataset_path="nowhere", **keys))


def test_code_that_a_model_wrote_is_run_for_who_agrees(world: World) -> None:
    check_supported(world.spec(dataset_path="nowhere", unsafe_code=True), confirm_unsafe=True)


def test_all_that_is_wrong_is_told_at_once(world: World) -> None:
    spec = world.spec(dataset_path="nowhere", unsafe_code=True, filter_list=[])
    with pytest.raises(TaskError) as caught:
        check_supported(spec)
    first, *lines = str(caught.value).splitlines()
    assert first.endswith("The task capitals cannot be run:")
    assert [line.split(":")[1] for line in lines] == [" unsafe_code", " filter_list"]


@pytest.mark.parametrize(
    "keys",
    [
        {"output_type": "generate_until", "repeats": 3},
        {"output_type": "loglikelihood_rolling", "metric_list": None},
        {"metric_list": [{"metric": "pass@3"}], "output_type": "generate_until"},
        {"metric_list": [{"metric": "f1", "average": "macro", "hf_evaluate": True}]},
        {"metric_list": [{**ACC, "aggregation": "median", "higher_is_better": False}]},
        {"filter_list": [{"name": "x", "filter": [{"function": "majority_vote"}]}]},
        {"fewshot_config": {"sampler": "balanced", "fewshot_indices": [1]}},
    ],
)
def test_what_can_be_run_is_accepted(world: World, keys: dict[str, Any]) -> None:
    check_supported(world.spec(dataset_path="nowhere", **keys))


def test_metrics_of_a_tasks_own_scoring_have_any_name(tmp_path: Path) -> None:
    metrics = "metric_list: [{metric: my_own, aggregation: mean}]\nprocess_results: !function c.f\n"
    check_supported(
        write_tasks(tmp_path, {"a.yaml": task_file("a", "metric_list") + metrics}).one("a")
    )


def test_a_filter_that_the_tasks_code_registers_is_known(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "from lm_eval.api.registry import register_filter\n"
        "from lm_eval.filters.extraction import RegexFilter\n"
        "@register_filter('only_in_this_test')\n"
        "class Own(RegexFilter):\n    pass\n"
        "def process_results(doc, results):\n    return {}\n"
    )
    filters = [{"name": "x", "filter": [{"function": "only_in_this_test"}]}]
    text = task_file("a", filter_list=filters) + "process_results: !function code.process_results\n"
    spec = write_tasks(tmp_path, {"a.yaml": text}).one("a")
    check_supported(spec)
    assert isinstance(spec, TaskSpec)
    assert [pipeline.name for pipeline in pipelines_of(spec)] == ["x"]


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


def test_a_group_may_aggregate_a_metric_otherwise_under_another_filter(tmp_path: Path) -> None:
    entries = [{**ACC, "filter_list": "x"}, {**ACC, "filter_list": "y", "weight_by_size": False}]
    check_supported(group_of(tmp_path, aggregate_metric_list=entries).one("g"))


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"aggregate_metric_list": [ACC, ACC]}, "g: aggregate_metric_list: acc stands there 2"),
        (
            {"aggregate_metric_list": [{**ACC, "filter_list": ["x", "y"]}, ACC]},
            "g: aggregate_metric_list: acc stands there 2",
        ),
        (
            {
                "aggregate_metric_list": [
                    {**ACC, "filter_list": ["x", "y"]},
                    {**ACC, "filter_list": "y"},
                ]
            },
            "g: aggregate_metric_list: acc under y stands there 2",
        ),
        (
            {"task": ["a", {"group": "inner", "task": ["a"]}]},
            "g: task: a is in it 2 times and would count as often",
        ),
        ({"task": []}, "g: task: it has no task: name at least one"),
        (
            {"metadata": {"benchmark": "b", "primary_metric": "acc_norm"}},
            "g: metadata.primary_metric: acc_norm is not in aggregate_metric_list, which has acc",
        ),
        ({"filter_list": []}, "a, b: filter_list: empty"),
    ],
)
def test_a_group_is_refused_by_key_value_and_remedy(
    tmp_path: Path, keys: dict[str, Any], complaint: str
) -> None:
    group = group_of(tmp_path, **keys).one("g")
    with pytest.raises(TaskError, match=re.escape(complaint)) as caught:
        check_supported(group)
    assert "The group g cannot be run:\n" in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        {"aggregation": "mean", "weight_by_size": True, "filter_list": "none"},
        {"weight_by_size": False, "filter_list": ["strict-match"]},
        {"metric": "of_no_task"},  # lm-eval passes it over, and 18 of its groups have one
    ],
)
def test_a_group_that_can_be_run_is_accepted(tmp_path: Path, entry: dict[str, Any]) -> None:
    check_supported(group_of(tmp_path, aggregate_metric_list=[{**ACC, **entry}]).one("g"))


def test_a_problem_of_many_tasks_is_told_once(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(57)]
    files = {f"{name}.yaml": task_file(name, filter_list=[]) for name in names}
    library = write_tasks(
        tmp_path, {**files, "g.yaml": yaml.safe_dump({"group": "g", "task": names})}
    )
    with pytest.raises(TaskError) as caught:
        check_supported(library.one("g"))
    assert str(caught.value).splitlines()[1:] == [
        "  t0, t1, t2 and 54 more: filter_list: empty, so nothing would be scored: name a filter, "
        "or leave it out"
    ]


def test_checking_a_task_loads_neither_torch_nor_datasets() -> None:
    code = "import sys, evalcore.refusals; print({'torch', 'datasets'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
