"""The best of several styles where a score is the mean over its parts' means."""

from __future__ import annotations

import numpy as np
import pytest

from evalcore.stats import block, mean_interval, wilson
from leaderboard.stats.styles import best_by_part, best_of

SIZES = (40, 10, 25, 5)
PARTS = np.repeat(np.arange(len(SIZES)), SIZES)
N = len(PARTS)


def by_part(scores: np.ndarray) -> np.ndarray:
    """The mean over the parts' means, over the last axis."""
    means = [scores[..., p == PARTS].mean(axis=-1) for p in range(len(SIZES))]
    return np.asarray(np.mean(means, axis=0))


def right(draw: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    """Who is right, from the chance of each style in each part, shape (styles, parts)."""
    return (draw.random((len(chances), N)) < chances[:, PARTS]).astype(np.float32)


def test_every_part_counts_alike_and_the_first_of_equal_styles_is_named() -> None:
    draw = np.random.default_rng(1)
    scores = right(draw, np.array([[0.4] * 4, [0.8] * 4]))
    scores = np.stack([scores, scores[[0, 0]]])
    best = best_by_part(scores, PARTS)
    means = by_part(scores)
    assert best.style.tolist() == [1, 0]
    assert best.value == pytest.approx(means.max(axis=1))
    assert (best.low < best.value).all()
    assert (best.value < best.high).all()


def test_of_a_single_style_the_interval_is_that_of_the_score() -> None:
    scores = right(np.random.default_rng(2), np.array([[0.9, 0.5, 0.6, 0.3]]))
    found = block(scores, strata=PARTS, by_part=True)
    error = np.sqrt((found.deviations**2).sum())
    best = best_by_part(scores[None], PARTS, draws=20_000)
    assert best.high[0] - best.low[0] == pytest.approx(2 * 1.96 * error, rel=0.03)


def test_it_agrees_with_drawing_questions_again_within_their_parts() -> None:
    draw = np.random.default_rng(3)
    sizes = (400, 100, 250, 150)
    parts = np.repeat(np.arange(4), sizes)
    chances = np.array([[0.7, 0.5, 0.6, 0.4], [0.6, 0.6, 0.5, 0.5]])
    scores = (draw.random((2, len(parts))) < chances[:, parts]).astype(np.float32)
    largest = []
    for _ in range(4000):
        means = []
        for part in range(4):
            places = np.flatnonzero(parts == part)
            means.append(scores[:, draw.choice(places, len(places))].mean(axis=1))
        largest.append(np.mean(means, axis=0).max())
    best = best_by_part(scores[None], parts, draws=4000)
    low, high = np.quantile(largest, (0.025, 0.975))
    assert best.low[0] == pytest.approx(low, abs=0.004)
    assert best.high[0] == pytest.approx(high, abs=0.004)


def test_with_known_truth_the_interval_holds_it_as_often_as_it_says() -> None:
    """95 % of 1,500 samples would be within 1.1 points of 95; small parts cost a little."""
    draw = np.random.default_rng(4)
    chances = np.array([[0.8, 0.5, 0.7, 0.6], [0.5, 0.3, 0.4, 0.5], [0.6, 0.4, 0.3, 0.4]])
    samples = np.stack([right(draw, chances) for _ in range(1500)])
    best = best_by_part(samples, PARTS, draws=600)
    truth = chances.mean(axis=1).max()
    held = ((best.low <= truth) & (truth <= best.high)).mean()
    assert 0.92 < held < 0.97
    # What takes questions for exchangeable over parts aims at another number.
    plain = best_of(samples, draws=600)
    assert ((plain.low <= truth) & (truth <= plain.high)).mean() < 0.85


def test_questions_of_one_cluster_are_not_independent() -> None:
    draw = np.random.default_rng(5)
    clusters = np.arange(N) // 5
    alike = (draw.random((2, N // 5)) < 0.6).astype(np.float32)[:, clusters]
    clustered = best_by_part(alike[None], PARTS, clusters=clusters)
    alone = best_by_part(alike[None], PARTS)
    assert clustered.value == alone.value
    assert clustered.high - clustered.low > 1.5 * (alone.high - alone.low)


def test_all_right_is_not_taken_for_certain() -> None:
    scores = np.stack([np.ones((2, N)), np.zeros((2, N))])
    best = best_by_part(scores, PARTS)
    expected = mean_interval([wilson(n, n) for n in SIZES])
    assert (best.low[0], best.high[0]) == pytest.approx((expected.low, 1))
    assert (best.low[1], best.high[1]) == pytest.approx((0, 1 - expected.low))


def test_many_models_have_the_intervals_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(6)
    scores = np.stack([right(draw, draw.random((2, 4))) for _ in range(7)])
    whole = best_by_part(scores, PARTS)
    monkeypatch.setattr("leaderboard.stats.styles.HELD", 2 * 2 * N)
    parts = best_by_part(scores, PARTS)
    for side in ("style", "value"):
        np.testing.assert_allclose(getattr(whole, side), getattr(parts, side))
    # Draws are summed in single precision; products of another shape are rounded otherwise.
    for side in ("low", "high"):
        np.testing.assert_allclose(getattr(whole, side), getattr(parts, side), rtol=1e-6)


@pytest.mark.parametrize(
    ("scores", "parts", "name"),
    [
        (np.ones((2, N)), PARTS, "scores"),
        (np.ones((1, 2, N)), PARTS[:-1], "strata"),
        (np.ones((1, 2, 3)), np.arange(3), "strata"),
        (np.full((1, 2, N), np.nan), PARTS, "scores"),
    ],
)
def test_what_cannot_be_is_named(scores: np.ndarray, parts: np.ndarray, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}:"):
        best_by_part(scores, parts)
