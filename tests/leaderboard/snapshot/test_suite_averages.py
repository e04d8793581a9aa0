"""What a suite's board has beside scores: averages, costs, and what styles do to scores.

Averages are from chance, by parts and over draws; differences between styles are paired, clustered
and taken over from what was read before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from evalcore.lengths import Lengths
from evalcore.stats import Interval, difference_interval, paired_difference
from leaderboard.catalogue import sync as catalogue
from leaderboard.corrections import recalls
from leaderboard.models import QuestionSet, Result, RunCost, ScoreVector, Suite, SuiteEntry, Variant
from leaderboard.models.edition import note
from leaderboard.queue import reproduce
from leaderboard.samples import vectors
from leaderboard.snapshot import published, style_facts
from leaderboard.snapshot.build import build as build_board
from leaderboard.snapshot.data import EVERY, OWN, Board, Cost, Scores, Standing, StyleGap, mean_cost
from leaderboard.stats import best_by_part, best_of, normalised, over_draws
from tests.leaderboard import factories as make
from tests.leaderboard.pages import get
from tests.leaderboard.rows import once_per_module

pytestmark = pytest.mark.django_db
SKILL = {"cloze": 0.7, "mmlu": 0.4, "hybrid": 0.5}


@pytest.fixture
def suite(settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(styles=("cloze", "mmlu"))


def board_of(suite: Suite) -> Board:
    suite.refresh_from_db()
    return build_board(suite, OWN, timezone.now())


def drawn_suite(seeds: tuple[int, ...]) -> Suite:
    """The columns once for each seed, as catalogue.sync stores them."""
    suite = make.make_suite(styles=("mmlu",))
    for entry in list(suite.entries.all()):
        for draw, seed in enumerate(seeds[1:], start=1):
            entry.pk = None
            entry.draw, entry.fewshot_seed = draw, seed
            entry.position += 10 * draw
            entry.run_key = f"{entry.task.name}/{seed}"
            entry.save()
    return suite


def cost(tokens: float = 10.0, machine: str = "A", meter: str = "A: GPU") -> Cost:
    return Cost(tokens, 2.0, 3.0, machine, meter)


def test_from_chance_each_benchmark_counts_as_its_share_of_the_way_to_1(
    client: Client, suite: Suite
) -> None:
    Suite.objects.update(normalisation="chance")
    make.evaluated("lab/one", suite, SKILL)
    board = board_of(suite)
    assert board.ranked == 1
    raw = board.scores.value[0]
    assert board.average.value == pytest.approx(sum((value - 0.25) / 0.75 for value in raw) / 2)
    make.publish(suite)
    page = get(client)
    assert "of 2, from chance<" in page


def test_parts_with_chances_of_their_own_are_normalised_one_by_one(suite: Suite) -> None:
    Suite.objects.update(normalisation="chance")
    chances = {"facts_easy": 0.5, "facts_hard": 0.1}
    SuiteEntry.objects.filter(benchmark="facts").update(part_chances=chances)
    variant = make.evaluated("lab/one", suite, SKILL)
    whole = Result.objects.get(
        run__variant=variant, task_name="facts", metric="acc", subset="", run__task__style="cloze"
    )
    assert board_of(suite).ranked == 0, "without a part it would be another average"
    for name, value in (("facts_easy", 0.8), ("facts_hard", 0.4)):
        whole.pk, whole.task_name, whole.subset = None, name, name
        whole.value, whole.low, whole.high = value, value - 0.1, value + 0.1
        whole.save()
    note("data")
    board = board_of(suite)
    by_parts = ((0.8 - 0.5) / 0.5 + (0.4 - 0.1) / 0.9) / 2
    expected = (by_parts + (board.scores.value[0, 1] - 0.25) / 0.75) / 2
    assert board.average.value == pytest.approx([expected])


def test_a_benchmark_that_does_not_count_is_shown_and_not_averaged(
    client: Client, suite: Suite
) -> None:
    SuiteEntry.objects.filter(benchmark="sums").update(counts=False)
    make.evaluated("lab/one", suite, SKILL)
    board = board_of(suite)
    assert board.average.value == board.scores.value[:, 0]
    make.publish(suite)
    page = get(client)
    assert ">of 1<" in page
    assert "not in the average" in page


def test_over_several_draws_the_mean_is_shown_with_the_draws_part_in_its_interval(
    client: Client, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = drawn_suite((1234, 7))
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    runs = list(submission.runs.order_by("task__name", "fewshot_seed"))
    assert len(runs) == 4, "each draw is a run"
    for number, run in enumerate(runs[:-1]):
        make.finish(run, skill=0.6, seed=number, cut=2)
    board = board_of(suite)
    standings = [board.standing_of(0, column) for column in (0, 1)]
    assert standings == [Standing.SCORED, Standing.QUEUED]
    make.finish(runs[-1], skill=0.6, seed=9, cut=2)
    board = board_of(suite)
    assert board.ranked == 1
    values = [
        Interval(result.low, result.value, result.high)
        for result in Result.objects.filter(task_name="facts_mmlu", metric="acc", subset="")
    ]
    expected = over_draws(values)
    score = board.score(0, 0)
    assert score.draws == 2
    assert score.lengths == Lengths(requests=320, prompts_cut=16), "of all of them"
    assert score.value == pytest.approx(sum(value.value for value in values) / 2)
    assert (score.low, score.high) == pytest.approx((expected.low, expected.high))
    assert score.sd_of_draws == pytest.approx(expected.sd_of_draws)
    make.publish(suite)
    page = get(client)
    assert "2 draws" in page
    assert "standard deviation between draws" in page


def test_the_command_of_a_run_names_its_draw(suite: Suite) -> None:
    run = make.make_submission(make.make_variant("lab/one"), suite).runs.filter(shots=2)[0]
    assert "--seed" not in reproduce.command(run)
    run.fewshot_seed, run.fewshot_draw = 7, "fixed"
    command = reproduce.command(run)
    assert command[command.index("--seed") + 1] == "0,1234,1234,7"
    assert command[command.index("--fewshot_draw") + 1] == "fixed"
    run.shots = 0
    assert "--seed" not in reproduce.command(run)


def test_a_suites_draws_and_rules_become_columns(tasks: Path) -> None:
    file = tasks / "suites" / "small.yaml"
    text = file.read_text()
    file.write_text(
        text + "normalisation: chance\nfewshot_draw: fixed\nfewshot_seeds: [3, 4]\n"
        'changelog: {1.0: "first version"}\n'
    )
    catalogue.sync(tasks)
    suite = Suite.objects.get()
    assert (suite.normalisation, suite.fewshot_draw) == ("chance", "fixed")
    shots = {entry.shots for entry in suite.entries.all()}
    draws = set(suite.entries.values_list("draw", "fewshot_seed"))
    assert draws == ({(0, 3)} if shots == {0} else {(0, 3), (1, 4)})
    file.write_text(file.read_text().replace("normalisation: chance", "normalisation: none"))
    with pytest.raises(catalogue.CatalogueError, match="raise its version"):
        catalogue.sync(tasks)


def test_over_draws_adds_both_parts_and_normalised_keeps_the_sides() -> None:
    same = over_draws([Interval(0.4, 0.5, 0.6)] * 4)
    assert (same.low, same.value, same.high) == pytest.approx((0.4, 0.5, 0.6))
    assert same.sd_of_draws == 0
    apart = over_draws([Interval(0.4, 0.4, 0.4), Interval(0.6, 0.6, 0.6)])
    # R: mean(c(.4, .6)) + c(-1, 1) * qt(.975, 1) * sd(c(.4, .6)) / sqrt(2)
    assert (apart.low, apart.high) == pytest.approx((-0.7706205, 1.7706205))
    with pytest.raises(ValueError, match="draws: expected two or more"):
        over_draws([Interval(0.4, 0.5, 0.6)])
    scaled = normalised(Interval(0.2, 0.4, 0.6), 0.2)
    assert (scaled.low, scaled.value, scaled.high) == pytest.approx((0.0, 0.25, 0.5))
    with pytest.raises(ValueError, match="chance"):
        normalised(Interval(0.2, 0.4, 0.6), 1.0)


def test_a_cost_is_of_a_question_and_over_draws_their_mean_where_all_have_it() -> None:
    found = Cost.of(20, 400, 10.0, 60.0, "A", "GPU")
    assert found == Cost(20.0, 0.5, 3.0, "A", "A: GPU")
    assert Cost.of(None, None, None, None, None, None) is None
    assert mean_cost([cost(10), cost(20)]) == cost(15)
    assert mean_cost([cost(), None]) is None
    mixed = mean_cost([cost(10), cost(20, "B", "B: GPU")])
    assert mixed.tokens == 15
    assert isnan(mixed.seconds)
    assert isnan(mixed.joules)
    assert (mixed.machine, mixed.meter) == ("", "")


def test_a_board_has_them_of_each_machine_and_what_is_recalled_has_none() -> None:
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("mmlu",))
    one = make.evaluated("lab/one", suite, {"mmlu": 0.9}, n=30)
    two = make.evaluated("lab/two", suite, {"mmlu": 0.2}, n=30)
    RunCost.objects.all().delete()
    before = build_board(suite, OWN, one.created)
    assert not before.costs.known
    facts, sums = (one.runs.get(task__benchmark=name) for name in ("facts", "sums"))
    RunCost.objects.create(run=facts, questions=30, tokens=900, seconds=6.0, hardware="A")
    of_sums = {"questions": 30, "tokens": 60, "seconds": 9.0, "hardware": "B"}
    RunCost.objects.create(run=sums, **of_sums, joules=3.0, counters="GPU")
    of_two = two.runs.get(task__benchmark="facts")
    RunCost.objects.create(run=of_two, questions=30, tokens=300, seconds=3.0, hardware="B")
    note("data")
    board = build_board(suite, OWN, one.created, before)
    assert board.data_version != before.data_version
    published.publish(suite, board, seconds=1.0)

    def told(model: str, benchmark: str) -> tuple[list[float | None], list[str]]:
        """Tokens, seconds and joules of a question; machine and meter."""
        read = make.board(suite)
        row = read.models.values("repo_id").index(model)
        column = [column.benchmark for column in read.columns].index(benchmark)
        kinds = [read.costs.kinds[k] if k >= 0 else "" for k in read.costs.kind[row, column]]
        numbers = read.costs.of[row, column].tolist()
        return [None if isnan(number) else round(number, 4) for number in numbers], kinds

    nothing = [None, None, None], ["", ""]
    assert told("lab/one", "facts") == ([30.0, 0.2, None], ["A", ""])
    assert told("lab/one", "sums") == ([2.0, 0.3, 0.1], ["B", "B: GPU"])
    assert told("lab/two", "facts") == ([10.0, 0.1, None], ["B", ""])
    assert told("lab/two", "sums") == nothing
    recalls.recall("runs", [str(facts.pk)], reason="a wrong key", by="a test")
    assert make.board(suite).models[0].repo_id == "lab/two", "rows keep theirs"
    assert told("lab/one", "facts") == nothing
    assert told("lab/one", "sums") == ([2.0, 0.3, 0.1], ["B", "B: GPU"])
    assert told("lab/two", "facts") == ([10.0, 0.1, None], ["B", ""])


# What styles do to scores

N = 60


@once_per_module
def one_model() -> Variant:
    suite = make.make_suite(benchmarks=("facts",))
    return make.evaluated("lab/one", suite, SKILL, n=N)


@pytest.fixture
def styled(one_model: Variant, db: None) -> Suite:
    """A benchmark in three styles on which one model was measured."""
    return Suite.objects.get(name="demo")


@pytest.fixture
def asked(one_model: Variant, styled: Suite) -> list[list[float]]:
    """By style its answers."""
    return answers(one_model)


def answers(variant: Variant) -> list[list[float]]:
    """By style, in the suite's order, whether each question was answered rightly."""
    tasks = ("facts", "facts_mmlu", "facts_hybrid")
    sheets = [make.samples_of(variant.runs.get(task__name=task)) for task in tasks]
    return [[sample["correct"] for sample in sheet] for sheet in sheets]


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


def test_every_two_styles_of_a_benchmark_have_their_paired_difference(
    styled: Suite, asked: list[list[float]]
) -> None:
    board = make.built(styled, EVERY)
    assert [(g.first, g.second) for g in board.gaps] == [(0, 1), (0, 2), (1, 2)]
    for found in board.gaps:
        expected = paired_difference(asked[found.first], asked[found.second])
        assert found.paired[0]
        assert bounds(found.difference) == pytest.approx(
            (expected.low, expected.difference, expected.high)
        )


def test_the_best_of_the_styles_names_its_column_and_has_the_interval_of_a_best(
    styled: Suite, asked: list[list[float]]
) -> None:
    (best,) = make.built(styled, EVERY).best
    expected = best_of([asked], draws=style_facts.DRAWS)
    assert best.column[0] == expected.style[0] == 0
    assert bounds(best.score) == pytest.approx(
        (expected.low[0], expected.value[0], expected.high[0])
    )


def test_other_questions_make_the_difference_unpaired(db: None) -> None:
    other = make.make_suite("other", benchmarks=("letters",))
    submission = make.make_submission(make.make_variant("lab/two"), other)
    for run in submission.runs.all():
        make.finish(run, n=N - 10 if run.task.style == "mmlu" else N)
    board = make.built(other, EVERY)
    found = gap(board)
    assert not found.paired[0]
    first, second = board.score(0, 0), board.score(0, 1)
    expected = difference_interval(first.interval, second.interval)
    assert bounds(found.difference) == (expected.low, expected.value, expected.high)
    assert gap(board, 0, 2).paired[0]
    assert board.best[0].column[0] == -1


def test_questions_of_one_passage_are_not_independent(
    styled: Suite, asked: list[list[float]]
) -> None:
    # Questions that move alike share a label, as variants of one question would.
    moves = [f"{a - b:+.0f}" for a, b in zip(*asked[:2], strict=True)]
    labels = np.unique(moves, return_inverse=True)[1].astype(np.int32)
    every_set(lambda layout: replace(layout, cluster=labels))
    found = gap(make.built(styled, EVERY))
    expected = paired_difference(asked[0], asked[1], moves)
    assert found.paired[0]
    assert bounds(found.difference) == pytest.approx(
        (expected.low, expected.difference, expected.high)
    )
    alone = paired_difference(asked[0], asked[1])
    assert expected.high - expected.low > alone.high - alone.low


def test_a_single_passage_says_nothing_of_other_questions(styled: Suite) -> None:
    every_set(lambda layout: replace(layout, cluster=np.zeros(N, np.int32)))
    board = make.built(styled, EVERY)
    assert not gap(board).paired[0]
    assert board.best[0].column[0] == -1


def test_where_every_question_differs_alike_nothing_is_paired(styled: Suite) -> None:
    make.evaluated("lab/extreme", styled, {"cloze": 1.0, "mmlu": 0.0, "hybrid": 0.5}, n=N)
    Result.objects.filter(task_name="facts", value=1.0).update(low=0.94)  # as Wilson has it
    found = gap(make.built(styled, EVERY))
    assert not found.paired[0]
    assert found.difference.low[0] < found.difference.value[0] == 1.0


def by_part(part: np.ndarray) -> None:
    """Every score is the mean over these parts' means."""
    tasks = tuple(f"part {number}" for number in range(part.max() + 1))
    every_set(lambda layout: replace(layout, tasks=tasks, task=part.astype(np.int32)))
    ScoreVector.objects.update(weighting="parts")


def test_means_over_parts_are_paired_part_by_part_and_the_best_of_them_is_such_a_mean(
    styled: Suite, asked: list[list[float]]
) -> None:
    scores, part = np.array(asked), (np.arange(N) < 10).astype(np.int32)
    by_part(part)
    board = make.built(styled, EVERY)
    means = np.mean([scores[:, part == half].mean(axis=1) for half in range(2)], axis=0)
    assert gap(board).paired[0]
    assert gap(board).difference.value[0] == pytest.approx(means[0] - means[1])
    (best,) = board.best
    expected = best_by_part(scores[None], part, draws=style_facts.DRAWS)
    assert best.column[0] == means.argmax()
    assert best.score.value[0] == pytest.approx(means.max())
    assert bounds(best.score) == pytest.approx(
        (expected.low[0], expected.value[0], expected.high[0])
    )


def test_parts_of_one_question_each_have_no_best(styled: Suite) -> None:
    by_part(np.arange(N))
    assert make.built(styled, EVERY).best[0].column[0] == -1


def test_scores_by_question_that_came_later_make_the_difference_paired(styled: Suite) -> None:
    ScoreVector.objects.all().delete()
    assert not gap(make.built(styled, EVERY)).paired[0]
    vectors.fill_missing()
    make.evaluated("lab/two", styled, SKILL, n=N)
    assert gap(make.built(styled, EVERY)).paired.all()
