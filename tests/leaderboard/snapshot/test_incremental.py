"""A board made with the help of an earlier one is the board made from nothing, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from evalcore.stats.ranking import shown_better
from leaderboard.models import HubModel, Run, ScoreVector, Suite, SuiteEntry
from leaderboard.models.edition import changing
from leaderboard.queue.history import tell
from leaderboard.snapshot import build as board_builder
from leaderboard.snapshot import columns, decided, ranking
from leaderboard.snapshot.data import EVERY, OWN, Board
from leaderboard.stats import ranges
from tests.leaderboard import factories as make
from tests.leaderboard.snapshot.test_file import plain

pytestmark = pytest.mark.django_db

WHEN = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.fixture
def suite(db: None, monkeypatch: Any) -> Suite:
    """Eight models, in windows of four."""
    monkeypatch.setattr(ranking, "REACH", 2)
    monkeypatch.setattr(decided, "FIRST", 5)
    suite = make.make_suite(benchmarks=("facts", "sums"))
    for number in range(8):
        add(suite, f"lab/m{number}", 0.95 - 0.11 * number)
    return suite


def add(suite: Suite, name: str, share: float) -> None:
    skill = {"cloze": share, "mmlu": share, "hybrid": 1 - share}
    make.evaluated(name, suite, skill, n=40)


def built(suite: Suite, style: str, earlier: Board | None = None) -> Board:
    return board_builder.build(suite, style, WHEN, earlier)


def assert_same(one: Board, other: Board) -> None:
    for field in fields(Board):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert plain(mine) == plain(theirs), field.name


def windows_decided(monkeypatch: Any) -> list[int]:
    """Models of each window that is decided from now on."""
    sizes: list[int] = []

    def noted(means: Any, *args: Any, **options: Any) -> Any:
        sizes.append(len(means))
        return shown_better(means, *args, **options)

    monkeypatch.setattr(ranges, "shown_better", noted)
    return sizes


def a_new_model(suite: Suite, chosen: random.Random) -> None:
    add(suite, f"lab/new-{chosen.random()}", chosen.uniform(0.1, 0.95))


def a_run_that_counts_no_more(_: Suite, chosen: random.Random) -> None:
    done = Run.objects.filter(state=Run.State.DONE).order_by("pk")
    run = chosen.choice(list(done))
    with changing():
        Run.objects.filter(pk=run.pk).update(state=Run.State.CANCELLED)
        tell([run], Run.State.CANCELLED, by="a test")


def a_flag(_: Suite, chosen: random.Random) -> None:
    model = chosen.choice(list(HubModel.objects.order_by("repo_id")))
    HubModel.objects.filter(pk=model.pk).update(flag_reason="copied")


def no_flags(_: Suite, __: random.Random) -> None:
    HubModel.objects.update(flag_reason="")


def scores_by_question_that_are_gone(suite: Suite, chosen: random.Random) -> None:
    entry = chosen.choice(list(SuiteEntry.objects.filter(suite=suite, own=True).order_by("pk")))
    vector = ScoreVector.objects.filter(result__run__run_key=entry.run_key).order_by("pk").first()
    assert vector is not None
    vector.delete()


CHANGES: list[Callable[[Suite, random.Random], None]] = [
    *(a_new_model, a_run_that_counts_no_more, a_flag, no_flags)
]


@pytest.mark.parametrize("seed", range(2))
def test_whatever_changes_the_board_is_that_made_from_nothing(suite: Suite, seed: int) -> None:
    chosen = random.Random(seed)
    boards = {style: built(suite, style) for style in (OWN, EVERY)}
    for _ in range(6):
        chosen.choice(CHANGES)(suite, chosen)
        for style, earlier in boards.items():
            boards[style] = built(suite, style, earlier)
            columns.forget()
            assert_same(boards[style], built(suite, style))


def test_only_windows_with_a_model_that_came_or_moved_are_decided(
    suite: Suite, monkeypatch: Any
) -> None:
    before = built(suite, OWN)
    assert before.ranked == 8
    decided_again = windows_decided(monkeypatch)
    built(suite, OWN)
    everything = len(decided_again)
    decided_again.clear()
    add(suite, "lab/last", 0.01)
    after = built(suite, OWN, before)
    assert after.models[int(after.ranked) - 1].repo_id == "lab/last"
    assert 0 < len(decided_again) < everything
    decided_again.clear()
    assert_same(after, built(suite, OWN))


def test_ranks_of_another_rule_of_windows_are_no_base(suite: Suite, monkeypatch: Any) -> None:
    before = built(suite, OWN)
    add(suite, "lab/last", 0.01)
    decided_again = windows_decided(monkeypatch)
    anew = built(suite, OWN)
    everything = len(decided_again)
    decided_again.clear()
    assert_same(built(suite, OWN, replace(before, rank_rule=0)), anew)
    assert len(decided_again) == everything


def test_a_model_that_is_measured_anew_in_its_place_is_ranked_anew(
    suite: Suite, monkeypatch: Any
) -> None:
    before = built(suite, OWN)
    (done,) = Run.objects.filter(
        variant__hub_model__repo_id="lab/m0", task__style="cloze", task__benchmark="facts"
    )
    Run.objects.filter(pk=done.pk).update(state=Run.State.CANCELLED)
    entry = SuiteEntry.objects.get(suite=suite, task=done.task)
    make.finish(make.queued_run(done.variant, entry), make.Answers(skill=0.95, n=40, seed=1))
    decided_again = windows_decided(monkeypatch)
    after = built(suite, OWN, before)
    assert after.models.values("variant") == before.models.values("variant")
    assert after.run[0].tolist() != before.run[0].tolist()
    assert len(decided_again) == 1, "the window that has it, and no other"
    assert_same(after, built(suite, OWN))


def test_scores_by_question_that_are_lost_are_no_base_of_ranks_any_more(suite: Suite) -> None:
    before = built(suite, OWN)
    assert before.by_question == (True, True)
    scores_by_question_that_are_gone(suite, random.Random(0))
    HubModel.objects.filter(repo_id="lab/m7").update(flag_reason="copied")  # that is news
    after = built(suite, OWN, before)
    assert sorted(after.by_question) == [False, True]
    assert_same(after, built(suite, OWN))
