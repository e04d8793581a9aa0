"""Standard errors and intervals: of one task, of its part of an average, and by resampling.

Against numbers and formulas from elsewhere, lm-evaluation-harness (in compat), and simulations with
known truth."""

from __future__ import annotations

import json
import math
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import (
    Interval,
    block,
    bootstrap,
    bootstrap_stderr,
    difference_interval,
    interval,
    mean_interval,
    pooled_standard_error,
    standard_error,
    wilson,
)
from evalcore.stats.resampling import compat_draws, compat_indices, compat_stderr


def test_wilson_equals_scipys():
    # scipy 1.17: binomtest(7, 50).proportion_ci(method="wilson")
    bounds = wilson(7, 50)
    assert (bounds.low, bounds.high) == pytest.approx((0.06950833427, 0.26186193711))
    bounds = wilson(198, 198)
    assert (round(bounds.low, 3), bounds.high) == (0.981, 1.0)


def test_the_arc_intervals_of_the_paper_follow_from_accuracy_and_n(test_data):
    table = json.loads((test_data.parent / "golden" / "table1.json").read_text())
    n = table["n"][0]
    checked = 0
    for row in table["rows"].values():
        for percent, half_width in row[:2]:
            right = round(percent / 100 * n)
            error = standard_error([1.0] * right + [0.0] * (n - right))
            assert 196 * error == pytest.approx(half_width, abs=0.011)
            checked += 1
    assert checked == 10


def test_an_interval_of_clusters_has_their_error_and_students_t():
    scores, clusters = [1.0, 0.0, 1.0, 1.0], ["a", "a", "b", "b"]
    # Sums of deviations from 0.75 are -0.5 and 0.5: sqrt(0.5) / 4 · sqrt(2 / 1)
    assert standard_error(scores, clusters) == pytest.approx(0.25)
    bounds = interval(scores, clusters)
    # R: qt(.975, 1) = 12.706205; the normal quantile is 1.959964
    assert (bounds.low, bounds.value) == pytest.approx((0.75 - 12.706205 * 0.25, 0.75))
    plain = interval(scores)
    assert plain.high == pytest.approx(0.75 + 1.959964 * 0.25)


def test_intervals_of_means_and_differences_are_those_of_the_papers():
    errors, sizes = [0.02, 0.03, 0.05], [100, 200, 50]
    within = sum((n - 1) * n * e**2 for e, n in zip(errors, sizes, strict=True))
    assert pooled_standard_error(errors, sizes) == pytest.approx(math.sqrt(within / 347 / 350))
    parts = [Interval(0.47, 0.5, 0.53), Interval(0.66, 0.7, 0.74)]
    mean = mean_interval(parts)
    assert (mean.low, mean.value, mean.high) == pytest.approx((0.575, 0.6, 0.625))
    mean = mean_interval([wilson(240, 240), wilson(240, 240)])
    assert mean.value == mean.high == 1.0
    assert mean.low == pytest.approx(1 - math.sqrt(2) * (1 - wilson(240, 240).low) / 2)
    # Newcombe 1998, Table II (method 10, no continuity correction): 56/70 - 48/80
    difference = difference_interval(wilson(56, 70), wilson(48, 80))
    bounds = (difference.low, difference.value, difference.high)
    assert bounds == pytest.approx((0.0524, 0.2, 0.3339), abs=5e-5)


# Blocks: one task's part of the average of each model


def error_of_block(task) -> float:
    """Standard error of the first model's mean."""
    return float(np.sqrt((task.deviations[0].astype(float) ** 2).sum()))


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=60))
def test_a_block_of_independent_questions_has_the_standard_error(scores):
    task = block([scores], weight=0.5)
    assert task.means[0] == pytest.approx(np.mean(scores) / 2)
    assert error_of_block(task) == pytest.approx(standard_error(scores) / 2, abs=1e-12)
    assert task.freedom == len(scores) - 1


@given(st.integers(2, 40), st.integers(0, 1000))
def test_a_block_of_clusters_has_the_clustered_standard_error(documents, seed):
    generator = np.random.default_rng(seed)
    scores = generator.random(documents)
    clusters = generator.integers(0, 5, documents) * 7
    clusters[:2] = 0, 7
    task = block([scores], clusters=clusters)
    assert error_of_block(task) == pytest.approx(standard_error(scores, clusters.tolist()))
    assert task.freedom == len(set(clusters)) - 1


def test_blocks_of_parts_and_of_several_models():
    scores = np.random.default_rng(0).random((2, 300)) + np.linspace(0, 1, 300)
    one, other = block(scores).deviations
    assert one @ other == pytest.approx(np.cov(scores)[0, 1] / 300)

    parts = np.random.default_rng(1).random((6, 50)) + np.arange(6)[:, None]
    errors = [standard_error(part) for part in parts]
    task = block([parts.ravel()], strata=np.repeat(np.arange(6), 50))
    assert error_of_block(task) == pytest.approx(pooled_standard_error(errors, [50] * 6))
    assert error_of_block(task) < standard_error(parts.ravel())
    assert task.freedom == 294

    scores = [[0.0, 1.0, 1.0, 2.0, 4.0, 9.0]]
    task = block(scores, strata=[0, 0, 1, 1, 1, 2])
    # Squares within the parts: 0.5 and 14/3, with 1 and 2 degrees of freedom.
    pooled = (0.5 + 14 / 3) / 3
    assert error_of_block(task) ** 2 == pytest.approx((2 * 0.5 + 3 * (14 / 3) / 2 + pooled) / 36)
    assert task.freedom == 3

    for order in product([0.0, 1.0], repeat=5):
        task = block([order, sorted(order)], weight=1 / 3, strata=[0, 0, 1, 1, 1])
        assert task.means[0] == task.means[1]


@pytest.mark.parametrize("clustered", [False, True])
def test_parts_that_count_alike_or_by_size_add_their_variances(clustered):
    generator = np.random.default_rng(2)
    parts = [generator.random(n) + n for n in (20, 60, 120)]
    labels = [generator.integers(0, 8, len(part)) + 10 * len(part) for part in parts]
    clusters = np.concatenate(labels) if clustered else None
    scores, strata = [np.concatenate(parts)], np.repeat([5, 3, 4], [20, 60, 120])
    errors = [
        standard_error(part, of_part.tolist() if clustered else None)
        for part, of_part in zip(parts, labels, strict=True)
    ]
    alike = block(scores, strata=strata, clusters=clusters, by_part=True)
    assert alike.means[0] == pytest.approx(np.mean([part.mean() for part in parts]))
    assert error_of_block(alike) == pytest.approx(math.hypot(*errors) / 3)
    by_size = block(scores, strata=strata, clusters=clusters)
    assert by_size.means[0] == pytest.approx(np.mean(scores))
    expected = math.hypot(*(len(part) * e for part, e in zip(parts, errors, strict=True))) / 200
    assert error_of_block(by_size) == pytest.approx(expected)


def test_one_question_in_several_languages_is_one_unit():
    generator = np.random.default_rng(3)
    question = generator.normal(0, 1, 40)
    scores = np.concatenate([question + generator.normal(0, 0.1, 40) + shift for shift in (0, 1)])
    strata, questions = np.repeat([0, 1], 40), np.tile(np.arange(40), 2)
    task = block([scores], strata=strata, clusters=questions)
    assert error_of_block(task) == pytest.approx(standard_error((scores[:40] + scores[40:]) / 2))
    assert error_of_block(task) > 1.3 * error_of_block(block([scores], strata=strata))
    assert task.freedom == 39


# Bootstrap: lm-evaluation-harness's own in compat, by counts in strict


WORDS = [
    "the", "cat", "sat", "on", "a", "mat", "while", "two", "dogs", "ran", "past", "it", ",",
    "quickly", ".",
]  # fmt: skip


def labels(n: int, classes: int, seed: int = 0) -> list[tuple[int, int]]:
    generator = random.Random(seed)
    return [
        (gold, gold if generator.random() < 0.7 else generator.randrange(classes))
        for gold in (generator.randrange(classes) for _ in range(n))
    ]


def numbers(n: int, seed: int = 0) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(-2, 1) for _ in range(n)]


def translations(n: int, references: int | None = None, seed: int = 0) -> list[tuple]:
    """Items (reference or `references` references, prediction); 0 references: 1 to 3 of them."""
    generator = random.Random(seed)

    def sentence() -> str:
        return " ".join(generator.choice(WORDS) for _ in range(generator.randrange(1, 12)))

    def near(text: str) -> str:
        return " ".join(w for w in text.split() if generator.random() < 0.8) or "cat"

    items = []
    for _ in range(n):
        truth = sentence()
        if references is None:
            items.append((truth, near(truth)))
        else:
            count = references or generator.randrange(1, 4)
            items.append(([truth, *(sentence() for _ in range(count - 1))], near(truth)))
    return items


TWO_LETTERS = [("ab", "ab"), ("cd", "ce"), ("fg", "gf"), ("hi", "hi"), ("jk", "lm"), ("no", "n")]
"""Counts of 0, 1 and 2, of which those above 1 do not fit where a sum may be no more than n."""


@pytest.fixture(scope="module")
def lm_eval_stderr():
    """lm-evaluation-harness's standard error of an aggregation, in one process."""
    metrics = pytest.importorskip("lm_eval.api.metrics")
    registry = pytest.importorskip("lm_eval.api.registry")

    def stderr(aggregation: str, items: list, iters: int) -> float:
        function = registry.get_aggregation(aggregation)
        return metrics.stderr_for_metric(function, iters)(items)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISABLE_MULTIPROC", "1")
        yield stderr


@pytest.mark.peer
@pytest.mark.parametrize(
    ("aggregation", "items", "iters"),
    [
        ("mean", [1.0, 0.0, 0.0, 1.0, 1.0], 10),
        ("f1", labels(41, 2), 60),
        ("f1", [(0, 0)] * 5, 20),
        ("f1", [(True, False), (True, True), (False, False)], 40),
        ("matthews_corrcoef", labels(41, 2), 60),
        ("matthews_corrcoef", labels(90, 30), 60),
        ("matthews_corrcoef", [(5, 0), (5, 0), (2, 2)], 30),
        ("perplexity", numbers(70), 2300),
        ("nanmean", [*numbers(30), math.nan, math.nan], 500),
        ("nanmean", [1.0, math.nan, math.nan], 500),
        ("median", numbers(40), 1999),
        ("bleu", translations(30), 25),
        ("bleu", translations(30, 2), 25),
        ("bleu", translations(12, 0), 25),
        ("chrf", translations(20), 10),
        ("chrf", TWO_LETTERS, 50),
        ("chrf++", translations(20, 0), 10),
        ("ter", translations(15, 2), 10),
    ],
)
def test_compat_equals_lm_eval(lm_eval_stderr, aggregation, items, iters):
    expected = lm_eval_stderr(aggregation, items, iters)
    found = compat_stderr(aggregation, items, iters)
    # A resample of nothing but NaN has no mean, there and here.
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.peer
def test_quirk_acc_all_joins_questions_of_different_paragraphs(lm_eval_stderr):
    generator = random.Random(0)
    items = [
        (bool(generator.randrange(2)), {"idx": {"paragraph": p, "question": q}, "label": label})
        for p in range(6)
        for q in range(3)
        for label in (0, 1)
    ]
    # acc_all is an aggregation by function only: no task file can name it.
    metrics = pytest.importorskip("lm_eval.api.metrics")
    assert compat_stderr("acc_all", items, 10) == pytest.approx(metrics.acc_all_stderr(items))


@given(st.integers(1, 300), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_resamples_are_those_of_python_choices(n, seed):
    chunks = np.concatenate(list(compat_indices(n, 1000 * (seed + 1))))
    stream = random.Random(seed)
    expected = [stream.choices(range(n), k=n) for _ in range(3)]
    assert chunks[1000 * seed : 1000 * seed + 3].tolist() == expected


def test_lm_eval_draws_so_many_resamples_and_prints_no_error_for_these():
    assert sum(len(block) for block in compat_indices(10, 2999)) == 2000
    assert sum(len(block) for block in compat_indices(10, 100)) == 100
    assert [compat_draws(name, 100_000) for name in ("bleu", "f1")] == [100, 100_000]
    assert compat_draws("ter", 20) == 20
    assert compat_stderr("brier_score", [(0, [0.4, 0.6])] * 3, 100) is None
    assert compat_stderr("weighted_perplexity", [(-3.0, 2)] * 3, 100) is None
    assert compat_stderr("bits_per_byte", [(-3.0, 2)] * 3, 100) is None
    assert compat_stderr("mean", [1.0], 100) is None
    assert compat_stderr("f1", labels(9, 2), 0) is None
    assert compat_stderr("some_function_of_a_task", [1.0, 2.0], 100) is None


@pytest.mark.parametrize(
    ("aggregation", "items"),
    [
        ("f1", labels(20, 3)),
        ("f1", [("a", "b"), ("b", "b")]),
        ("bleu", [("a", "b"), (["a", "c"], "b")]),
        ("bleu", [(["a"], ["b", "c"]), (["a"], ["b"])]),
        ("perplexity", [(1.0, 2.0), (1.0, 2.0)]),
        ("mean", [(1.0, 2.0), (1.0, 2.0)]),
    ],
)
def test_items_without_a_value_are_named(aggregation, items):
    with pytest.raises(ValueError, match="items"):
        compat_stderr(aggregation, items, 100)


@pytest.mark.parametrize("aggregation", ["matthews_corrcoef", "perplexity", "median"])
def test_strict_agrees_with_compat_but_for_chance(aggregation):
    items = numbers(201) if aggregation in ("perplexity", "median") else labels(200, 2)
    strict = bootstrap(aggregation, items, draws=20_000, seed=1)
    assert strict.stderr == pytest.approx(compat_stderr(aggregation, items, 20_000), rel=0.03)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
def test_strict_f1_of_many_classes_honours_its_average(average):
    metrics = pytest.importorskip("sklearn.metrics")
    items = labels(40, 3)
    fast = bootstrap("f1", items, draws=2000, seed=1, average=average)
    slow = bootstrap(
        lambda drawn: metrics.f1_score(*zip(*drawn, strict=True), average=average),
        items,
        draws=200,
        seed=1,
    )
    assert fast.replicates.mean() == pytest.approx(slow.replicates.mean(), abs=0.02)
    assert fast.stderr == pytest.approx(slow.stderr, rel=0.15)


def test_strict_median_of_an_even_resample_lies_between_its_middle_two():
    found = bootstrap("median", [0.0, 1.0], draws=4000, seed=0).replicates
    shares = [(found == value).mean() for value in (0.0, 0.5, 1.0)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.03)


@pytest.mark.parametrize(
    ("statistic", "items"),
    [("mean", numbers(300)), ("median", numbers(300))],
)
def test_clusters_are_drawn_whole(statistic, items):
    # Each document five times: as sure as one of each, while drawn singly they seem far surer.
    copies = [item for item in items for _ in range(5)]
    clusters = [place for place in range(len(items)) for _ in range(5)]
    once = bootstrap(statistic, items, draws=1000, seed=0).stderr
    together = bootstrap(statistic, copies, draws=1000, seed=1, clusters=clusters).stderr
    apart = bootstrap(statistic, copies, draws=1000, seed=1).stderr
    assert together == pytest.approx(once, rel=0.15)
    assert apart < 0.65 * once


def test_bootstrap_stderr_of_means_and_of_several_samples_is_the_analytic_error():
    scores = numbers(400)
    clusters = [place // 8 for place in range(400)]
    shifted = [score + (cluster % 7) for score, cluster in zip(scores, clusters, strict=True)]
    for labels_of in (None, clusters):
        found = bootstrap_stderr(np.mean, shifted, draws=4000, seed=0, clusters=labels_of)
        assert found == pytest.approx(standard_error(shifted, labels_of), rel=0.05)

    golds, predicted = zip(*labels(150, 2), strict=True)

    def agreement(gold, answer):
        return (gold == answer).mean()

    right = [float(g == p) for g, p in zip(golds, predicted, strict=True)]
    found = bootstrap_stderr(agreement, golds, predicted, draws=3000, seed=0)
    assert found == pytest.approx(standard_error(right), rel=0.06)


def test_the_interval_of_a_bootstrap_lies_between_its_percentiles_and_holds_the_value():
    items = numbers(40)
    resampled = bootstrap("mean", items, draws=2000, seed=0)
    low, high = np.quantile(resampled.replicates, [0.025, 0.975])
    mean = float(np.mean(items))
    assert resampled.interval(mean) == Interval(low, mean, high)
    assert resampled.interval(9.0) == Interval(low, 9.0, 9.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: standard_error([]), "scores"),
        (lambda: standard_error([1.0]), "scores"),
        (lambda: standard_error([1.0, math.nan]), "scores"),
        (lambda: standard_error([1.0, 0.0], ["a"]), "clusters"),
        (lambda: standard_error([1.0, 0.0], ["a", "a"]), "clusters"),
        (lambda: wilson(0, 0), "n"),
        (lambda: wilson(3, 2), "correct"),
        (lambda: wilson(1, 2, confidence=1.0), "confidence"),
        (lambda: mean_interval([]), "parts"),
        (lambda: pooled_standard_error([0.1], [1, 2]), "sizes"),
        (lambda: pooled_standard_error([0.1, 0.2], [1, 1]), "sizes"),
        (lambda: block(scores=[1.0, 0.0]), "scores"),
        (lambda: block(scores=[[1.0, math.nan]]), "scores"),
        (lambda: block(scores=[[1.0, 0.0]], weight=0.0), "weight"),
        (lambda: block(scores=[[1.0, 0.0]], clusters=[3, 3]), "clusters"),
        (lambda: block(scores=[[1.0, 0.0]], clusters=[3]), "clusters"),
        (lambda: block(scores=[[1.0, 0.0]], strata=[1, 2]), "strata"),
        (lambda: block(scores=[[1.0, 0.0]], by_part=True), "by_part"),
        (lambda: bootstrap_stderr(np.mean, [], draws=10, seed=0), "samples"),
        (lambda: bootstrap_stderr(np.mean, [math.nan, 1.0], draws=10, seed=0), "samples"),
        (lambda: bootstrap_stderr(np.dot, [1.0, 2.0], [1.0], draws=10, seed=0), "samples"),
        (lambda: bootstrap_stderr(np.mean, [1.0, 2.0], draws=1, seed=0), "draws"),
        (lambda: bootstrap_stderr(lambda _: math.nan, [1.0], draws=9, seed=0), "statistic"),
        (lambda: bootstrap("mean", [], draws=9, seed=0), "items"),
        (lambda: bootstrap("mean", [1.0, math.inf], draws=9, seed=0), "items"),
        (lambda: bootstrap("mode", [1.0, 2.0], draws=9, seed=0), "aggregation"),
        (lambda: bootstrap("f1", labels(9, 3), draws=9, seed=0, average="best"), "average"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
