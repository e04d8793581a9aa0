"""What a suite may say about its average: from chance, by parts, over draws, and what counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from evalcore.stats import Interval
from leaderboard.catalogue import sync as catalogue
from leaderboard.models import Result, Suite, SuiteEntry
from leaderboard.models.edition import note
from leaderboard.queue import reproduce
from leaderboard.snapshot.build import build as build_board
from leaderboard.snapshot.data import OWN, Board, Standing
from leaderboard.stats import normalised, over_draws
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

SKILL = {"cloze": 0.7, "mmlu": 0.5, "hybrid": 0.6}


@pytest.fixture
def suite(settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite()


def board_of(suite: Suite) -> Board:
    suite.refresh_from_db()
    return build_board(suite, OWN, timezone.now())


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
    page = client.get("/").content.decode()
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
    page = client.get("/").content.decode()
    assert ">of 1<" in page
    assert "not in the average" in page


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


def test_over_several_draws_the_mean_is_shown_with_the_draws_part_in_its_interval(
    client: Client, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = drawn_suite((1234, 7, 8))
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    runs = list(submission.runs.order_by("task__name", "fewshot_seed"))
    assert len(runs) == 6, "each draw is a run"
    for number, run in enumerate(runs[:-1]):
        make.finish(run, skill=0.6, seed=number)
    board = board_of(suite)
    standings = [board.standing_of(0, column) for column in (0, 1)]
    assert standings == [Standing.SCORED, Standing.QUEUED]
    make.finish(runs[-1], skill=0.6, seed=9)
    board = board_of(suite)
    assert board.ranked == 1
    values = [
        Interval(result.low, result.value, result.high)
        for result in Result.objects.filter(task_name="facts_mmlu", metric="acc", subset="")
    ]
    expected = over_draws(values)
    score = board.score(0, 0)
    assert score is not None
    assert score.draws == 3
    assert score.value == pytest.approx(sum(value.value for value in values) / 3)
    assert (score.low, score.high) == pytest.approx((expected.low, expected.high))
    assert score.sd_of_draws == pytest.approx(expected.sd_of_draws)
    make.publish(suite)
    page = client.get("/").content.decode()
    assert "3 draws" in page
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
