"""What styles do to scores, as the board of every style has it: paired, clustered, taken over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from evalcore.stats import difference_interval, paired_difference
from leaderboard.models import Artifact, QuestionSet, Result, ScoreVector, Suite, Variant
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from leaderboard.snapshot import published, style_facts
from leaderboard.snapshot.data import EVERY, Board, Scores, StyleGap
from leaderboard.stats import best_by_part, best_of
from tests.leaderboard import factories as make

N = 60
SKILL = {"cloze": 0.7, "mmlu": 0.4, "hybrid": 0.5}


@pytest.fixture
def suite(db: None) -> Suite:
    return make.make_suite(benchmarks=("facts",))


def built(suite: Suite) -> Board:
    published.build(suite, EVERY)
    board = published.newest(suite, EVERY)
    assert board is not None
    return board


def answers(variant: Variant) -> list[list[float]]:
    """By style, in the suite's order, whether each question was answered rightly."""
    found = []
    for task in ("facts", "facts_mmlu", "facts_hybrid"):
        digest = variant.runs.get(task__name=task).artifacts.get(kind=Artifact.Kind.SAMPLES).sha256
        found.append(pq.read_table(artifacts.path_of(digest)).column("correct").to_pylist())
    return found


def bounds(scores: Scores, row: int = 0) -> tuple[float, float, float]:
    return scores.low[row], scores.value[row], scores.high[row]


def gap(board: Board, first: int = 0, second: int = 1) -> StyleGap:
    return next(g for g in board.gaps if (g.first, g.second) == (first, second))


def every_set(change: Callable[[vectors.Layout], vectors.Layout]) -> None:
    """Store another layout of the same questions for every vector."""
    for questions in list(QuestionSet.objects.all()):
        layout = vectors.layouts_of([questions.digest])[questions.digest]
        other = vectors.questions_row(change(layout))
        ScoreVector.objects.filter(questions=questions).update(questions=other)


def test_every_two_styles_of_a_benchmark_have_their_paired_difference(suite: Suite) -> None:
    asked = answers(make.evaluated("lab/one", suite, SKILL, n=N))
    board = built(suite)
    assert [(g.first, g.second) for g in board.gaps] == [(0, 1), (0, 2), (1, 2)]
    for found in board.gaps:
        expected = paired_difference(asked[found.first], asked[found.second])
        assert found.paired[0]
        assert bounds(found.difference) == pytest.approx(
            (expected.low, expected.difference, expected.high)
        )


def test_the_best_of_the_styles_names_its_column_and_has_the_interval_of_a_best(
    suite: Suite,
) -> None:
    asked = answers(make.evaluated("lab/one", suite, SKILL, n=N))
    (best,) = built(suite).best
    expected = best_of([asked], draws=style_facts.DRAWS)
    assert best.column[0] == expected.style[0] == 0
    assert bounds(best.score) == pytest.approx(
        (expected.low[0], expected.value[0], expected.high[0])
    )


def test_a_model_that_lacks_a_style_has_no_best_and_only_the_differences_it_can_have(
    suite: Suite,
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    for task in ("facts", "facts_mmlu"):
        make.finish(submission.runs.get(task__name=task), n=N)
    board = built(suite)
    assert board.best[0].column[0] == -1
    assert np.isnan(board.best[0].score.value[0])
    has = [not np.isnan(found.difference.value[0]) for found in board.gaps]
    assert has == [True, False, False]


def test_other_questions_make_the_difference_unpaired(suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    for task, n in (("facts", N), ("facts_mmlu", N - 10), ("facts_hybrid", N)):
        make.finish(submission.runs.get(task__name=task), n=n)
    board = built(suite)
    found = gap(board)
    assert not found.paired[0]
    first, second = board.score(0, 0), board.score(0, 1)
    assert first
    assert second
    expected = difference_interval(first.interval, second.interval)
    assert bounds(found.difference) == (expected.low, expected.value, expected.high)
    assert gap(board, 0, 2).paired[0]
    assert board.best[0].column[0] == -1


def test_a_score_that_is_no_mean_over_questions_is_not_paired(suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL, n=N)
    ScoreVector.objects.filter(result__task_name="facts").update(weighting="none", questions=None)
    board = built(suite)
    assert [bool(found.paired[0]) for found in board.gaps] == [False, False, True]
    assert board.best[0].column[0] == -1


def test_questions_of_one_passage_are_not_independent(suite: Suite) -> None:
    asked = answers(make.evaluated("lab/one", suite, SKILL, n=N))
    # Questions that move alike share a label, as variants of one question would.
    moves = [f"{a - b:+.0f}" for a, b in zip(*asked[:2], strict=True)]
    labels = np.unique(moves, return_inverse=True)[1].astype(np.int32)
    every_set(lambda layout: replace(layout, cluster=labels))
    found = gap(built(suite))
    expected = paired_difference(asked[0], asked[1], moves)
    assert found.paired[0]
    assert bounds(found.difference) == pytest.approx(
        (expected.low, expected.difference, expected.high)
    )
    alone = paired_difference(asked[0], asked[1])
    assert expected.high - expected.low > alone.high - alone.low


def test_a_single_passage_says_nothing_of_other_questions(suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL, n=N)
    every_set(lambda layout: replace(layout, cluster=np.zeros(N, np.int32)))
    board = built(suite)
    assert not gap(board).paired[0]
    assert board.best[0].column[0] == -1


def test_where_every_question_differs_alike_nothing_is_paired(suite: Suite) -> None:
    make.evaluated("lab/one", suite, {"cloze": 1.0, "mmlu": 0.0, "hybrid": 0.5}, n=N)
    Result.objects.filter(task_name="facts", value=1.0).update(low=0.94)  # as Wilson has it
    found = gap(built(suite))
    assert not found.paired[0]
    assert found.difference.low[0] < found.difference.value[0] == 1.0


def test_means_over_parts_are_paired_part_by_part(suite: Suite) -> None:
    variant = make.evaluated("lab/one", suite, SKILL, n=N)
    asked = np.array(answers(variant))
    part = np.arange(N, dtype=np.int32) % 3
    every_set(lambda layout: replace(layout, tasks=("a", "b", "c"), task=part))
    ScoreVector.objects.update(weighting="parts")
    found = gap(built(suite))
    apart = asked[0] - asked[1]
    assert found.paired[0]
    assert found.difference.value[0] == pytest.approx(
        np.mean([apart[part == third].mean() for third in range(3)])
    )


def test_the_best_of_means_over_parts_is_such_a_mean(suite: Suite) -> None:
    variant = make.evaluated("lab/one", suite, SKILL, n=N)
    asked = np.array(answers(variant))
    part = (np.arange(N) < 10).astype(np.int32)
    every_set(lambda layout: replace(layout, tasks=("large", "small"), task=part))
    ScoreVector.objects.update(weighting="parts")
    (best,) = built(suite).best
    means = np.mean([asked[:, part == half].mean(axis=1) for half in range(2)], axis=0)
    expected = best_by_part(asked[None], part, draws=style_facts.DRAWS)
    assert best.column[0] == means.argmax()
    assert best.score.value[0] == pytest.approx(means.max())
    assert bounds(best.score) == pytest.approx(
        (expected.low[0], expected.value[0], expected.high[0])
    )


def test_parts_of_one_question_each_have_no_best(suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL, n=N)
    part, names = np.arange(N, dtype=np.int32), tuple(f"part {document}" for document in range(N))
    every_set(lambda layout: replace(layout, tasks=names, task=part))
    ScoreVector.objects.update(weighting="parts")
    assert built(suite).best[0].column[0] == -1


def test_the_facts_of_many_models_are_those_of_each_alone(suite: Suite, monkeypatch: Any) -> None:
    for number in range(5):
        make.evaluated(f"lab/m{number}", suite, SKILL, n=N)
    whole = built(suite)
    monkeypatch.setattr(style_facts, "MANY", 2)
    columns, board = of_the_database(suite)
    parts = style_facts.with_facts(board, columns)
    assert_same_facts(parts, whole)


def of_the_database(suite: Suite) -> tuple[Any, Board]:
    """The columns as they are, and the board of every style without its facts."""
    from leaderboard.snapshot.columns import columns_of

    columns = columns_of(suite, list(suite.entries.select_related("task").order_by("position")))
    board = published.newest(suite, EVERY)
    assert board is not None
    return columns, replace(board, gaps=(), best=())


def assert_same_facts(one: Board, other: Board) -> None:
    for mine, theirs in zip((*one.gaps, *one.best), (*other.gaps, *other.best), strict=True):
        scores = [f.difference if isinstance(f, StyleGap) else f.score for f in (mine, theirs)]
        for side in ("value", "low", "high"):
            np.testing.assert_allclose(getattr(scores[0], side), getattr(scores[1], side))


def asked_for(monkeypatch: Any) -> list[int]:
    """The results whose scores by question are read from now on."""
    read: list[int] = []
    matrix = vectors.matrix

    def noted(results: Sequence[int]) -> vectors.Matrix | None:
        read.extend(results)
        return matrix(results)

    monkeypatch.setattr(vectors, "matrix", noted)
    return read


def test_only_models_with_new_runs_are_computed_again(suite: Suite, monkeypatch: Any) -> None:
    make.evaluated("lab/b", suite, SKILL, n=N)
    before = built(suite)
    new = make.evaluated("lab/a", suite, SKILL, n=N)
    read = asked_for(monkeypatch)
    board = built(suite)
    of_new = Result.objects.filter(run__variant=new, metric="acc", subset="")
    assert sorted(read) == sorted(result.pk for result in of_new)
    # The new model's name puts it before the old one.
    assert [model.repo_id for model in board.models] == ["lab/a", "lab/b"]
    for found, was in zip(board.gaps, before.gaps, strict=True):
        assert bounds(found.difference, 1) == bounds(was.difference, 0)
        assert found.paired[1]
    assert bounds(board.best[0].score, 1) == bounds(before.best[0].score, 0)
    assert board.best[0].column[1] == before.best[0].column[0]
    columns, bare = of_the_database(suite)
    assert_same_facts(style_facts.with_facts(bare, columns), board)


def test_a_style_that_was_finished_since_is_computed(suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    cloze, mmlu, hybrid = (
        submission.runs.get(task__name=name) for name in ("facts", "facts_mmlu", "facts_hybrid")
    )
    make.finish(cloze, n=N)
    make.finish(mmlu, n=N)
    make.evaluated("lab/two", suite, SKILL, n=N)
    assert np.isnan(gap(built(suite), 0, 2).difference.value[0])
    make.finish(hybrid, n=N)
    board = built(suite)
    assert gap(board, 0, 2).paired[0]
    assert board.best[0].column[0] >= 0


def test_scores_by_question_that_came_later_make_the_difference_paired(suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL, n=N)
    ScoreVector.objects.all().delete()
    assert not gap(built(suite)).paired[0]
    vectors.fill_missing()
    make.evaluated("lab/two", suite, SKILL, n=N)
    assert gap(built(suite)).paired.all()
