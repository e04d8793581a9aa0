"""A group's numbers from its tasks' numbers: ours beside lm-eval's."""

from __future__ import annotations

import math
from textwrap import dedent

import pytest
import yaml

from evalcore.building import task_of
from evalcore.score.numbers.aggregate import aggregate
from tests.evalcore.both_scorers import PLACES, Scene, chances, peer, places, scored
from tests.evalcore.worlds import World, capitals, write_tasks

GENERATE = """
    output_type: generate_until
    doc_to_text: "{{question}}"
    doc_to_target: answer
    generation_kwargs: {until: ["."]}
    metric_list: [{metric: exact_match}, {metric: bleu}]
    filter_list:
"""
RAW = "      - {name: raw, filter: [{function: take_first}]}\n"
WORD = """\
      - name: word
        filter: [{function: regex, regex_pattern: '[A-Z]\\w+'}, {function: take_first}]
"""
CHOICES = """
    output_type: multiple_choice
    doc_to_text: "{{question}}"
    doc_to_choice: choices
    doc_to_target: answer
    metric_list: [{metric: acc}]
"""
SOMETIMES = (
    GENERATE.replace("{metric: exact_match}, {metric: bleu}", "{metric: even, aggregation: mean}")
    + RAW
    + "    process_results: !function code.sometimes\n"
)
CODE = """
def sometimes(doc, results):
    number = int(doc["question"][:-1])
    return {"all": 1.0, **({} if number % 4 else {"even": float(number > 8)})}
"""
LEAVES = {
    "sometimes": (SOMETIMES, places(30)),
    "sometimes_too": (SOMETIMES, places(11)),
    "large": (GENERATE + RAW + WORD, places(40)),
    "small": (GENERATE + WORD, places(7)),
    "single": (GENERATE + WORD, places(1)),
    "choices": (CHOICES, capitals(20)),
}
GROUPS = {
    "every filter, by size": ("large, small", "{metric: exact_match}"),
    "one filter, all tasks alike": (
        "large, small",
        "{metric: exact_match, filter_list: word, weight_by_size: false}",
    ),
    "a task without the metric": ("large, choices", "{metric: acc}"),
    "no standard error in one task": ("large, single", "{metric: exact_match, filter_list: word}"),
    "a metric of some documents": ("sometimes, sometimes_too", "{metric: even}"),
    "an aggregation of its own, never called": (
        "large, small",
        "{metric: exact_match, aggregation: !function code.sometimes}",
    ),
    "no mean": ("large, small", "{metric: bleu, filter_list: [word]}"),
    "a later entry of the same metric": (
        "large, small",
        "{metric: exact_match}, {metric: exact_match, weight_by_size: false}",
    ),
}


def answer(request, repeat):
    return PLACES(request, repeat) if request.kind == "generate_until" else chances(request, repeat)


def group(folder, members: str, entries: str):
    """The group's specification, with its tasks and their data."""
    files = {}
    for name, (keys, rows) in LEAVES.items():
        place = folder / f"of_{name}"
        place.mkdir()
        data = World(place).data(test=rows)
        head = yaml.safe_dump({"task": name, "test_split": "test", **data})
        files[f"{name}.yaml"] = head + dedent(keys)
    files["code.py"] = CODE
    files["all.yaml"] = f"group: all\ntask: [{members}]\naggregate_metric_list: [{entries}]\n"
    (spec,) = write_tasks(folder / "tasks", files).select(["all"])
    return spec


def results(spec, mode="compat", iters=100):
    tasks = [scored(task_of(leaf, mode=mode), answer) for leaf in spec.leaves()]
    names = [*(leaf.name for leaf in spec.leaves()), *(one.name for one in spec.groups())]
    rows, failures = aggregate(
        spec, tasks, dict.fromkeys(names, "run"), mode=mode, bootstrap_iters=iters
    )
    of_group = {(row.metric, row.filter): row for row in rows if row.task == spec.name}
    assert len(of_group) == sum(row.task == spec.name for row in rows)
    return of_group, {failure.metric: failure.reason for failure in failures}


def theirs(folder, spec, iters=100):
    from lm_eval.api.group import AggMetricConfig, Group
    from lm_eval.tasks._yaml_loader import load_yaml

    class Members(Group):
        def get_all_tasks(self, recursive=True):
            return [type("Leaf", (), {"task_name": leaf.name}) for leaf in spec.leaves()]

    metrics = {}
    for leaf in spec.leaves():
        keys, rows = LEAVES[leaf.name]
        place = folder / f"their_{leaf.name}"
        place.mkdir()
        numbers = Scene(place, rows, keys, CODE).theirs(answer, iters=iters)
        metrics[leaf.name] = {"sample_len": len(rows), **numbers}
    config = load_yaml(folder / "tasks" / "all.yaml", resolve_func=True)
    entries = [AggMetricConfig(**entry) for entry in config["aggregate_metric_list"]]
    return Members("all", aggregate_metric_list=entries).aggregate(metrics)


@peer
@pytest.mark.parametrize("case", GROUPS)
def test_every_number_of_lm_eval_s_groups_is_ours(tmp_path, case):
    spec = group(tmp_path, *GROUPS[case])
    ours, _ = results(spec)
    numbers = {name: value for name, value in theirs(tmp_path, spec).items() if "," in name}
    assert numbers
    assert len(ours) == sum("_stderr," not in name for name in numbers)
    for name, value in numbers.items():
        metric, filter = name.split(",")
        row = ours[metric.removesuffix("_stderr"), filter]
        found = row.compat_stderr if metric.endswith("_stderr") else row.value
        if value == "N/A":
            assert found is None, name
        else:
            assert found == pytest.approx(value, rel=1e-9, abs=1e-9), name


def test_strict_has_no_number_where_a_task_lacks_it(tmp_path):
    spec = group(tmp_path, "large, choices", "{metric: acc}")
    rows, failures = results(spec, "strict")
    assert not rows
    assert "there is no such number of large" in failures["acc"]


def test_the_plain_mean_over_tasks_has_an_interval_from_theirs(tmp_path):
    spec = group(tmp_path, "large, small", "{metric: exact_match, filter_list: word}")
    (weighted,) = results(spec, "strict")[0].values()
    (tmp_path / "plain").mkdir()
    entry = "{metric: exact_match, filter_list: word, weight_by_size: false}"
    spec = group(tmp_path / "plain", "large, small", entry)
    (plain,) = results(spec, "strict")[0].values()
    assert weighted.value != plain.value
    assert plain.low < plain.value < plain.high
    assert (plain.n, plain.interval) == (weighted.n, "pooled") == (47, "pooled")
    assert math.isclose(plain.stderr, plain.compat_stderr, rel_tol=1e-9)


def test_strict_weighs_a_metric_by_the_documents_that_have_it(tmp_path):
    spec = group(tmp_path, "sometimes, sometimes_too", "{metric: even}")
    (compat,), (strict,) = results(spec)[0].values(), results(spec, "strict")[0].values()
    # 5 of the 8 documents with the metric and 0 of 3, in tasks of 30 and 11 documents.
    assert strict.value == pytest.approx(5 / 11)
    assert compat.value == pytest.approx((5 / 8 * 30 + 0 * 11) / 41)


def test_strict_refuses_an_aggregation_that_would_never_be_called(tmp_path):
    entry = "{metric: exact_match, aggregation: !function code.sometimes}"
    rows, failures = results(group(tmp_path, "large, small", entry), "strict")
    assert not rows
    assert "would never be called" in failures["exact_match"]
