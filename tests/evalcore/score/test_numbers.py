"""A number and how sure it is; a group's numbers from its tasks' numbers, as lm-eval makes them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.building import task_of
from evalcore.cli import main
from evalcore.evaluation import Evaluation
from evalcore.library import evaluate
from evalcore.record import RunRecord
from evalcore.score.metrics.aggregations import (
    Aggregation,
    aggregation_from,
    bypass,
    f1,
    perplexity,
)
from evalcore.score.numbers.aggregate import aggregate
from evalcore.score.numbers.uncertainty import (
    measure,
    measure_group,
    measure_parts,
    measure_statistic,
)
from evalcore.stats import interval, standard_error, wilson
from tests.evalcore.both_scorers import (
    CHOICES,
    GENERATE,
    PLACES,
    Scene,
    chances,
    peer,
    places,
    scored,
)
from tests.evalcore.toys import ToyLM, write_run
from tests.evalcore.worlds import World, capitals, write_tasks

FILTERED = f"""{GENERATE}
    metric_list: [{{metric: exact_match}}, {{metric: bleu}}]
    filter_list:
"""
RAW = "      - {name: raw, filter: [{function: take_first}]}\n"
WORD = """\
      - name: word
        filter: [{function: regex, regex_pattern: '[A-Z]\\w+'}, {function: take_first}]
"""
ACC = "    metric_list: [{metric: acc}]\n"
SOMETIMES = (
    FILTERED.replace("{metric: exact_match}, {metric: bleu}", "{metric: even, aggregation: mean}")
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
    "large": (FILTERED + RAW + WORD, places(40)),
    "small": (FILTERED + WORD, places(7)),
    "single": (FILTERED + WORD, places(1)),
    "choices": (CHOICES + ACC, capitals(20)),
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


def results(spec, mode="compat", iters=20):
    tasks = [scored(task_of(leaf, mode=mode), answer) for leaf in spec.leaves()]
    names = [*(leaf.name for leaf in spec.leaves()), *(one.name for one in spec.groups())]
    rows, failures = aggregate(
        spec, tasks, dict.fromkeys(names, "run"), mode=mode, bootstrap_iters=iters
    )
    of_group = {(row.metric, row.filter): row for row in rows if row.task == spec.name}
    assert len(of_group) == sum(row.task == spec.name for row in rows)
    return of_group, {failure.metric: failure.reason for failure in failures}


def theirs(folder, spec, iters=20):
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


# Groups that are evaluated, with a fake model behind the protocol


def write_group(
    folder: Path, rows: dict[str, list[dict[str, Any]]], metadata: dict[str, Any], **about: Any
) -> Path:
    """Task files of a group `all`, whose tasks have these rows and this metadata."""
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    for name, of_task in rows.items():
        (folder / name).mkdir()
        data = World(folder / name).data(test=of_task)
        keys = {"task": name, "test_split": "test", **data}
        keys["metadata"] = {"version": 1, "benchmark": "all", **metadata[name]}
        (tasks / f"{name}.yaml").write_text(yaml.safe_dump(keys) + dedent(CHOICES + ACC))
    group = {
        "group": "all",
        "task": [*rows],
        "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
        "metadata": {"version": 1, "benchmark": "all", **about},
    }
    (tasks / "group.yaml").write_text(yaml.safe_dump(group))
    return tasks


def evaluated(tasks: Path) -> Evaluation:
    (done,) = evaluate(ToyLM(), ["all"], include_path=tasks, mode="strict")
    return done


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> Evaluation:
    """A group of three tasks: one with parts by a column, one that is a part, and another."""
    metadata = {"one": {"subset": "topic"}, "two": {"subset": "second"}, "three": {}}
    rows = {
        name: [
            {**row, "question": f"{name}: {row['question']}", "topic": "first"}
            for row in capitals(8)
        ]
        for name in metadata
    }
    return evaluated(write_group(tmp_path_factory.mktemp("parts"), rows, metadata))


def test_each_part_of_a_group_goes_by_its_own_name_and_key_and_is_read_as_written(parts, tmp_path):
    """By its column's value, by its constant, else by the task's name; the samples say the same."""
    rows = parts.record.results
    assert [(row.task, row.subset) for row in rows] == [
        ("all", ""),
        ("one", "first"),
        ("two", "second"),
        ("three", "three"),
    ]
    for row in rows:
        right = [
            sample["correct"]
            for sample in parts.samples
            if row.task == "all" or (sample["task"], sample["subset"]) == (row.task, row.subset)
        ]
        assert row.value == pytest.approx(sum(right) / len(right))
        assert row.n == len(right)
    assert len({row.comparability_key for row in rows}) == len(rows)

    path, samples = parts.write(tmp_path, "parts")
    again = RunRecord.read(path)
    assert again.samples.file == samples.name
    assert again.results == parts.record.results
    assert again.groups["all"]["members"] == ["one", "two", "three"]
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    with pytest.raises(ValueError, match="schema_version is 9"):
        RunRecord.read(path)


def languages(folder: Path, *, same: bool, cluster: dict[str, str] | None = None) -> Path:
    """Two tasks on 60 parallel rows, and their group; two rows share a passage."""
    rows = {
        language: [
            {
                "question": f"{language} {number}?",
                "choices": [f"{language} {number} {letter}" for letter in "abc"],
                "answer": number % 3,
                "passage": f"{language} {number // 2}",
            }
            for number in range(60)
        ]
        for language in ("english", "german")
    }
    return write_group(folder, rows, dict.fromkeys(rows, cluster or {}), same_questions=same)


@pytest.mark.parametrize("cluster", [{}, {"cluster": "passage"}])
def test_a_question_in_several_languages_is_one_cluster(tmp_path, cluster, capsys):
    tasks = languages(tmp_path, same=True, cluster=cluster)
    done = evaluated(tasks)
    (row,) = (row for row in done.record.results if row.task == "all")
    scores = [sample["correct"] for sample in done.samples]
    labels = [sample["doc_id"] // (2 if cluster else 1) for sample in done.samples]
    assert row.interval == "clustered"
    assert row.stderr == pytest.approx(standard_error(scores, labels))
    bounds = interval(scores, labels)
    assert (row.low, row.high) == pytest.approx((bounds.low, bounds.high))
    assert done.record.groups["all"]["same_questions"] is True
    write_run(tmp_path / "run", [done])
    assert main(["verify", str(tmp_path / "run"), "--include_path", str(tasks)]) == 0, (
        capsys.readouterr().out
    )


def test_other_groups_pool_their_tasks(tmp_path):
    record = evaluated(languages(tmp_path, same=False)).record
    assert [row.interval for row in record.results if row.task == "all"] == ["pooled"]
    assert "same_questions" not in record.groups["all"]


# How sure a number is, and by which method that is told


PERPLEXITY = Aggregation("perplexity", perplexity)


def loglikelihoods(n: int) -> list[float]:
    return list(np.random.default_rng(0).normal(-2, 1, n))


def test_the_bootstrap_of_a_perplexity_is_that_of_the_delta_method():
    items = loglikelihoods(2000)
    value = perplexity(items)
    measured = measure_statistic(value, PERPLEXITY, items)
    expected = value * np.std(items, ddof=1) / math.sqrt(2000)
    assert measured.method == "bootstrap"
    assert measured.stderr == pytest.approx(expected, rel=0.05)
    assert measured.interval.low == pytest.approx(value - 1.96 * expected, rel=0.01)
    assert measured.interval.high == pytest.approx(value + 1.96 * expected, rel=0.01)


def test_documents_of_one_cluster_are_drawn_together():
    items = [item for item in loglikelihoods(50) for _ in range(10)]
    clusters = [n // 10 for n in range(500)]
    value = perplexity(items)
    alone = measure_statistic(value, PERPLEXITY, items)
    together = measure_statistic(value, PERPLEXITY, items, clusters)
    assert together.stderr > 2.5 * alone.stderr


def test_the_seed_decides():
    items = loglikelihoods(50)
    one, same, other = (
        measure_statistic(1.0, PERPLEXITY, items, seed=seed).stderr for seed in (1, 1, 2)
    )
    assert one == same != other


def test_an_averaged_f1_is_bootstrapped_as_it_is_averaged():
    pairs = [(n % 3, (n * n) % 3) for n in range(300)]
    aggregation = Aggregation("f1", lambda items: f1(items, "macro"), "macro")
    by_counts = measure_statistic(aggregation.of(pairs), aggregation, pairs)
    by_calls = measure_statistic(
        aggregation.of(pairs), aggregation_from(lambda items: f1(items, "macro")), pairs
    )
    assert by_counts.method == by_calls.method == "bootstrap"
    assert by_counts.stderr == pytest.approx(by_calls.stderr, rel=0.15)


def test_an_aggregation_of_the_task_is_resampled_in_silence(capsys):
    def largest(items):
        print("looking")
        return max(items)

    measured = measure_statistic(9.0, aggregation_from(largest), list(range(10)))
    assert measured.method == "bootstrap"
    assert measured.interval.high == pytest.approx(9.0 + 1.96 * measured.stderr, rel=1e-3)
    assert "looking" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("function", "items"),
    [
        (bypass, [None, None]),
        (lambda items: 1 / (len(set(items)) - 1), [1.0, 2.0]),  # has no value on a resample
        (max, [1.0]),
    ],
)
def test_what_cannot_be_resampled_has_a_value_and_no_interval(function, items):
    measured = measure_statistic(2.0, aggregation_from(function), items)
    assert (measured.method, measured.stderr) == ("none", None)
    assert measured.interval.low == measured.interval.value == measured.interval.high == 2.0


def test_numbers_beyond_0_and_1_are_never_taken_for_shares():
    """Of lengths, loglikelihoods and the like; even where nothing spreads, or one part has one."""
    assert measure([7.0, 7.0], ["a", "b"]).method == "none"
    assert measure([-3.0, 7.0], ["a", "a"]).method == "none"
    assert measure_group([[5.0, 7.0], [-3.0]]).method == "none"
    assert measure([5.0, 7.0, 9.0]).interval.high > 7


RIGHT_OR_WRONG = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60)
SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=30)
ANY = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)
CLUSTERS = st.one_of(st.none(), st.lists(st.integers(0, 5), min_size=60, max_size=60))


def labels_of(scores, clusters):
    return None if clusters is None else clusters[: len(scores)]


def holds(measured, scores, shares):
    low, value, high = dataclasses.astuple(measured.interval)
    assert low <= value <= high
    assert value == pytest.approx(np.mean(scores), rel=1e-9, abs=1e-9)
    assert measured.n == len(scores)
    assert (measured.method == "none") == (low == high)
    if measured.method == "wilson":
        assert shares
        assert low >= 0
        assert high <= 1


@given(st.one_of(RIGHT_OR_WRONG, SHARES, ANY), CLUSTERS)
@settings(max_examples=300, deadline=None)
def test_an_interval_holds_its_value_and_is_never_without_width(scores, clusters):
    """Whatever the scores: one that is not sure of itself says "none"."""
    shares = all(0 <= score <= 1 for score in scores)
    holds(measure(scores, labels_of(scores, clusters)), scores, shares)


@given(st.lists(st.tuples(st.one_of(RIGHT_OR_WRONG, SHARES, ANY), CLUSTERS), min_size=1))
@settings(max_examples=100, deadline=None)
def test_so_it_is_of_a_group(parts):
    scores = [score for part, _ in parts for score in part]
    if len(scores) == len(parts):
        return  # one document each: nothing to pool
    shares = all(0 <= score <= 1 for score in scores)
    clusters = [labels_of(part, labels) for part, labels in parts]
    holds(measure_group([part for part, _ in parts], clusters), scores, shares)


@pytest.mark.parametrize("per_cluster", [3, 7])
def test_clusters_that_score_alike_are_as_many_answers_as_clusters(per_cluster):
    """Their error is 0, but for rounding: that is no certainty."""
    scores = [1.0, *[0.0] * (per_cluster - 1)] * 30
    clusters = [place // per_cluster for place in range(len(scores))]
    measured = measure(scores, clusters)
    assert (measured.method, measured.stderr) == ("wilson", 0.0)
    assert measured.interval == wilson(30 / per_cluster, 30)


def test_a_group_of_clustered_parts_counts_the_clusters():
    right, pairs = [1.0] * 20, [place // 10 for place in range(20)]
    assert measure_group([right, right]).interval == wilson(40, 40)
    assert measure_group([right, right], [pairs, pairs]).interval == wilson(4, 4)
    assert measure_group([right, right], [pairs, None]).interval == wilson(22, 22)

    scores, clusters = [1.0] * 50 + [0.0] * 50, [n // 10 for n in range(100)]
    apart = measure_group([scores, scores])
    together = measure_group([scores, scores], [clusters, clusters])
    assert together.stderr > 2 * apart.stderr


def test_the_plain_mean_of_parts_has_no_interval_where_one_of_them_has_none():
    sure, single = measure([0.2, 0.4, 0.9]), measure([0.5])
    both = measure_parts([sure, single], [3, 1], by_size=False)
    assert (both.method, both.stderr, both.n) == ("none", None, 4)
    alike = measure_parts([sure, sure], [3, 3], by_size=False)
    assert (alike.method, alike.n) == ("pooled", 6)
    assert alike.stderr == pytest.approx(sure.stderr / math.sqrt(2))
    half = (alike.interval.high - alike.interval.low) / 2
    assert half == pytest.approx(1.959964 * sure.stderr / math.sqrt(2), rel=1e-6)


def test_wilson_is_used_where_few_are_right_or_few_clusters_differ():
    assert measure([1.0] * 9 + [0.0] * 91).method == "wilson"
    assert measure([1.0] * 10 + [0.0] * 90).method == "normal"

    scores = [1.0, 0.0, 0.0, 0.0] * 8 + [1.0, 0.0, 0.0]
    clusters = [place // 4 for place in range(35)]
    assert measure(scores, clusters).interval.high == pytest.approx(wilson(9, 35).high)

    measured = measure([1.0, 0.0] * 50, ["a"] * 100)
    assert measured.stderr is None
    assert measured.interval.high - measured.interval.low > 0.7
