"""Bootstrap standard errors: lm-evaluation-harness's own in compat, by counts in strict."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import bootstrap, bootstrap_stderr, standard_error
from evalcore.stats.resampling import compat_draws, compat_indices, compat_stderr

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "while",
    "two",
    "dogs",
    "ran",
    "past",
    "it",
    ",",
    "quickly",
    ".",
]


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
        ("f1", [(1, 1), (0, 0), (0, 1)], 60),
        ("f1", [(0, 0)] * 5, 20),
        ("f1", [(True, False), (True, True), (False, False)], 40),
        ("matthews_corrcoef", labels(41, 2), 60),
        ("matthews_corrcoef", labels(57, 4), 60),
        ("matthews_corrcoef", labels(90, 30), 60),
        ("matthews_corrcoef", [("yes", "yes"), ("no", "yes"), ("no", "no")], 60),
        ("perplexity", numbers(70), 2300),
        ("nanmean", [*numbers(30), math.nan, math.nan], 500),
        ("nanmean", [1.0, math.nan, math.nan], 500),
        ("median", numbers(40), 1999),
        ("median", numbers(41), 900),
        ("bleu", translations(30), 25),
        ("bleu", translations(30, 2), 25),
        ("bleu", translations(12, 0), 25),
        ("bleu", [*translations(4, 3), *translations(1, 1)], 25),
        ("chrf", translations(20), 10),
        ("chrf++", translations(20, 0), 10),
        ("ter", translations(15, 2), 10),
        ("ter", [(["a b"], ["a c"]), (["d"], ["d"]), (["e f"], ["e"])], 10),
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


def test_resamples_of_a_corpus_larger_than_a_block_continue_the_stream():
    n = 2**18 + 5
    drawn = [row for block in compat_indices(n, 2) for row in block]
    stream = random.Random(0)
    for row in drawn:
        assert row[:5].tolist() == stream.choices(range(n), k=n)[:5]


def test_resamples_are_whole_chunks_as_in_lm_eval():
    assert sum(len(block) for block in compat_indices(10, 2999)) == 2000
    assert sum(len(block) for block in compat_indices(10, 100)) == 100


@pytest.mark.parametrize("aggregation", ["f1", "matthews_corrcoef", "perplexity", "median", "bleu"])
def test_the_fast_form_equals_the_statistic_of_each_resample(aggregation):
    items = {"f1": labels(30, 2), "matthews_corrcoef": labels(30, 2), "bleu": translations(9)}.get(
        aggregation, numbers(30)
    )
    slow = {
        "f1": slow_f1,
        "matthews_corrcoef": slow_mcc,
        "perplexity": lambda drawn: math.exp(-sum(drawn) / len(drawn)),
        "median": lambda drawn: sorted(drawn)[len(drawn) // 2],
        "bleu": slow_bleu,
    }[aggregation]
    expected = deviation(slow, items, 50)
    assert expected > 0
    assert compat_stderr(aggregation, items, 50) == pytest.approx(expected, rel=1e-9)


def deviation(statistic, items, iters):
    """Of a statistic over the resamples, each computed for itself."""
    drawn = (row for block in compat_indices(len(items), iters) for row in block)
    return float(np.std([statistic([items[i] for i in row]) for row in drawn], ddof=1))


def slow_f1(drawn):
    hits = sum(gold == predicted == 1 for gold, predicted in drawn)
    return 2 * hits / (sum(g for g, _ in drawn) + sum(p for _, p in drawn))


def slow_mcc(drawn):
    golds, predicted = np.array(drawn).T
    return float(np.corrcoef(golds, predicted)[0, 1])


def slow_bleu(drawn):
    import sacrebleu

    references, predictions = zip(*drawn, strict=True)
    return sacrebleu.corpus_bleu(predictions, [references]).score


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
@settings(max_examples=40, deadline=None)
def test_the_correlation_of_many_classes_is_gorodkins(items):
    def correlation(drawn):
        golds, picks = (np.eye(6)[list(side)] for side in zip(*drawn, strict=True))
        golds, picks = golds - golds.mean(axis=0), picks - picks.mean(axis=0)
        within = (golds**2).sum() * (picks**2).sum()
        return (golds * picks).sum() / math.sqrt(within) if within > 1e-9 else 0.0

    expected = deviation(correlation, items, 30)
    found = compat_stderr("matthews_corrcoef", items, 30)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_lm_eval_prints_no_error_for_these():
    assert compat_stderr("brier_score", [(0, [0.4, 0.6])] * 3, 100) is None
    assert compat_stderr("weighted_perplexity", [(-3.0, 2)] * 3, 100) is None
    assert compat_stderr("bits_per_byte", [(-3.0, 2)] * 3, 100) is None
    assert compat_stderr("mean", [1.0], 100) is None
    assert compat_stderr("f1", labels(9, 2), 0) is None
    assert compat_stderr("some_function_of_a_task", [1.0, 2.0], 100) is None


def test_translation_metrics_are_resampled_a_hundred_times_at_most():
    assert [compat_draws(name, 100_000) for name in ("bleu", "chrf++", "f1")] == [100, 100, 100_000]
    assert compat_draws("ter", 20) == 20


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


@pytest.mark.parametrize("aggregation", ["f1", "matthews_corrcoef", "perplexity", "median"])
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
    [("mean", numbers(300)), ("median", numbers(300)), ("bleu", translations(60))],
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


def test_the_bootstrap_of_a_mean_is_its_analytic_error():
    scores = numbers(400)
    clusters = [place // 8 for place in range(400)]
    shifted = [score + (cluster % 7) for score, cluster in zip(scores, clusters, strict=True)]
    for labels_of in (None, clusters):
        found = bootstrap_stderr(np.mean, shifted, draws=4000, seed=0, clusters=labels_of)
        assert found == pytest.approx(standard_error(shifted, labels_of), rel=0.05)


def test_a_statistic_with_an_axis_is_the_same_called_one_by_one():
    scores = numbers(50)
    at_once = bootstrap_stderr(np.median, scores, draws=500, seed=3)
    one_by_one = bootstrap_stderr(lambda drawn: np.median(drawn), scores, draws=500, seed=3)
    assert at_once == one_by_one


def test_samples_are_drawn_together():
    golds, predicted = zip(*labels(150, 2), strict=True)

    def agreement(gold, answer):
        return (gold == answer).mean()

    right = [float(g == p) for g, p in zip(golds, predicted, strict=True)]
    found = bootstrap_stderr(agreement, golds, predicted, draws=3000, seed=0)
    assert found == pytest.approx(standard_error(right), rel=0.06)


def test_a_bootstrap_interval_covers_a_skewed_statistic():
    generator = np.random.default_rng(0)
    truth, covered = math.exp(2), 0
    for seed in range(200):
        items = list(generator.normal(-2, 1, 100))
        value = math.exp(-np.mean(items))
        bounds = bootstrap("perplexity", items, draws=500, seed=seed).interval(value)
        assert bounds.low <= value <= bounds.high
        covered += bounds.low <= truth <= bounds.high
    assert covered / 200 > 0.9


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40), st.integers(0))
@settings(max_examples=40, deadline=None)
def test_a_seed_gives_the_same_resamples_again(items, seed):
    for aggregation in ("f1", "matthews_corrcoef"):
        first = bootstrap(aggregation, items, draws=50, seed=seed)
        again = bootstrap(aggregation, items, draws=50, seed=seed)
        assert (first.replicates == again.replicates).all()
        assert (abs(first.replicates) <= 1).all()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bootstrap_stderr(np.mean, draws=10, seed=0), "samples"),
        (lambda: bootstrap_stderr(np.mean, [], draws=10, seed=0), "samples"),
        (lambda: bootstrap_stderr(np.mean, [math.nan, 1.0], draws=10, seed=0), "samples"),
        (lambda: bootstrap_stderr(np.dot, [1.0, 2.0], [1.0], draws=10, seed=0), "samples"),
        (lambda: bootstrap_stderr(np.mean, [1.0, 2.0], draws=1, seed=0), "draws"),
        (
            lambda: bootstrap_stderr(np.mean, [1.0, 2.0], draws=9, seed=0, clusters=["a", "a"]),
            "clusters",
        ),
        (lambda: bootstrap_stderr(lambda _: math.nan, [1.0], draws=9, seed=0), "statistic"),
        (lambda: bootstrap("mean", [], draws=9, seed=0), "items"),
        (lambda: bootstrap("mean", [1.0, math.inf], draws=9, seed=0), "items"),
        (lambda: bootstrap("mode", [1.0, 2.0], draws=9, seed=0), "aggregation"),
        (lambda: bootstrap("f1", labels(9, 3), draws=9, seed=0), "items"),
        (lambda: bootstrap("f1", labels(9, 3), draws=9, seed=0, average="best"), "average"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
