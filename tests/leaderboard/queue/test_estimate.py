"""When waiting runs begin: against the real claims of the queue, and against sums by hand."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.models import Run, Suite, TaskVersion, Worker
from leaderboard.queue import claims, estimate
from leaderboard.queue.estimate import Obstacle
from leaderboard.queue.pace import ENOUGH, GROWTH, WIDE, Finished, Pace, size_class
from leaderboard.web import Span
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db
NOON = datetime.fromisoformat("2026-11-01T12:00:00+00:00")
SMALL, LARGE = 5 * 10**7, 7 * 10**9


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))


def done(
    task: TaskVersion, seconds: float, *, times: int = ENOUGH, parameters: int = SMALL
) -> None:
    """Runs of this task that took so long each, long ago."""
    worker = make.make_worker("of old")
    before = Run.objects.count()
    for number in range(before, before + times):
        started = timezone.now() - timedelta(days=2) + timedelta(hours=number)
        name = f"old/{task.name}-{parameters}-{number}"
        Run.objects.create(
            variant=make.make_variant(name, parameters=parameters),
            task=task,
            shots=0,
            run_key=f"{task.name}-{number}",
            needed_bytes=1,
            state="done",
            worker=worker,
            started=started,
            finished=started + timedelta(seconds=seconds),
        )
    Worker.objects.filter(name="of old").update(seen=NOON - timedelta(days=300))


def ask(name: str, suite: Suite, style: str = "cloze", **variant: Any) -> Run:
    fields = {"parameters": SMALL, **variant}
    priority = fields.pop("priority", 0)
    return make.queued_run(
        make.make_variant(f"lab/{name}", **fields),
        suite.entries.get(style=style),
        priority=priority,
    )


def begins(run: Run) -> float | None:
    turn, _ = estimate.plan().places()[run.pk]
    return turn.begins and round(turn.begins.middle, 1)


def test_an_idle_worker_takes_the_first_at_once_and_the_second_after_it(suite: Suite) -> None:
    done(suite.entries.get(style="cloze").task, 600)
    make.make_worker()
    first, second = ask("first", suite), ask("second", suite)
    assert (begins(first), begins(second)) == (0.0, 600.0)


def test_two_workers_share_the_queue(suite: Suite) -> None:
    done(suite.entries.get(style="cloze").task, 600)
    make.make_worker("a")
    make.make_worker("b")
    runs = [ask(f"m{number}", suite) for number in range(4)]
    assert [begins(run) for run in runs] == [0.0, 0.0, 600.0, 600.0]


def test_what_is_left_of_a_running_run_is_waited_for(suite: Suite) -> None:
    done(suite.entries.get(style="cloze").task, 600)
    make.make_worker()
    make.start(ask("runs", suite), 30, 120)
    assert begins(ask("waits", suite)) == 450.0


@pytest.mark.parametrize("phase", ["download", "load", "prepare"])
def test_a_run_that_is_asked_nothing_yet_has_all_of_its_time_left(suite: Suite, phase: str) -> None:
    done(suite.entries.get(style="cloze").task, 600)
    make.make_worker()
    make.start(ask("runs", suite), 5, 5, phase=phase)
    assert begins(ask("waits", suite)) == 600.0


def takes(run: Run) -> Span | None:
    return estimate.plan().places()[run.pk][0].takes


def test_before_five_runs_of_that_size_and_task_a_wait_is_guessed(suite: Suite) -> None:
    task = suite.entries.get(style="cloze").task
    make.make_worker()
    first, second = ask("first", suite), ask("second", suite)
    assert takes(first) is None
    assert begins(second) is None
    done(task, 600, times=ENOUGH - 1)
    guess = takes(first)
    assert guess == (600 / WIDE, 600, 600 * WIDE)
    assert guess is not None
    assert guess.guessed
    turn, _ = estimate.plan().places()[second.pk]
    assert turn.begins == guess
    done(task, 700, times=1)
    known = takes(first)
    assert known is not None
    assert not known.guessed


def test_a_guess_borrows_from_the_nearest_size_and_then_from_other_tasks(suite: Suite) -> None:
    done(suite.entries.get(style="cloze").task, 600)
    make.make_worker()
    larger = takes(ask("larger", suite, parameters=2 * 10**9))
    assert larger is not None
    assert (larger.low, larger.high) == (600 / WIDE, 600 * GROWTH**2 * WIDE)
    assert larger.middle == pytest.approx(600 * GROWTH)
    assert takes(ask("other", suite, style="mmlu")) == (600 / WIDE, 600, 600 * WIDE)
    done(suite.entries.get(style="cloze").task, 3000, parameters=LARGE)
    smaller = takes(ask("smaller", suite, parameters=2 * 10**9))
    assert smaller is not None
    assert (smaller.low, smaller.high) == (3000 / GROWTH / WIDE, 3000 * WIDE)


def test_behind_a_run_of_unknown_length_nothing_is_known(suite: Suite) -> None:
    make.make_worker()
    ask("unknown", suite, style="mmlu")
    assert begins(ask("known", suite)) is None


def test_the_usual_range_is_told(suite: Suite) -> None:
    task = suite.entries.get(style="cloze").task
    for number in range(11):
        done(task, 100.0 * number, times=1, parameters=SMALL + number)
    make.make_worker()
    run = ask("one", suite)
    turn, _ = estimate.plan().places()[run.pk]
    assert turn.takes is not None
    assert [round(end) for end in turn.takes] == [100, 500, 900]


def test_a_worker_begins_a_claim_at_once_and_finishes_its_runs_one_by_one() -> None:
    def at(minutes: float) -> datetime:
        return NOON + timedelta(minutes=minutes)

    # Each claim holds task 1 and then task 2: ten minutes, then two.
    finished = [
        Finished("w", task, SMALL, at(60 * claim), at(60 * claim + end))
        for claim in range(ENOUGH)
        for task, end in ((1, 10), (2, 12))
    ]
    pace = Pace.of(reversed(finished))
    assert pace.span(1, SMALL) == (600.0, 600.0, 600.0)
    assert pace.span(2, SMALL) == (120.0, 120.0, 120.0)
    guess = pace.span(1, LARGE)
    assert guess is not None
    assert guess.guessed
    assert Pace.of([]).span(1, SMALL) is None


@pytest.mark.parametrize(
    ("worker", "variant", "obstacle"),
    [
        ({}, {}, Obstacle.NO_WORKER),
        ({"memory_bytes": 10**9}, {"parameters": LARGE}, Obstacle.TOO_LARGE),
        ({"dtypes": ["float32"]}, {"dtype": "bfloat16"}, Obstacle.NO_DTYPE),
        ({"dtypes": ["float32"]}, {}, Obstacle.NONE),
    ],
)
def test_what_keeps_a_run_waiting_is_named(
    suite: Suite, worker: dict[str, Any], variant: dict[str, Any], obstacle: Obstacle
) -> None:
    if worker:
        make.make_worker("one")
        Worker.objects.filter(name="one").update(**worker)
    run = ask("one", suite, **variant)
    turn, _ = estimate.plan().places()[run.pk]
    assert turn.obstacle == obstacle
    assert turn.takers == (("one",) if obstacle is Obstacle.NONE else ())
    assert (turn.begins is None) == (obstacle is not Obstacle.NONE)


def test_what_does_not_fit_holds_up_nobody(suite: Suite) -> None:
    done(suite.entries.get(style="cloze").task, 600)
    make.make_worker(memory_bytes=4 * 10**9)
    huge = ask("huge", suite, parameters=LARGE)
    fits = ask("fits", suite)
    assert (begins(huge), begins(fits)) == (None, 0.0)


def test_after_a_failure_of_ours_a_run_rests_and_others_go_first(suite: Suite) -> None:
    done(suite.entries.get(style="cloze").task, 20)
    worker = make.make_worker()
    resting = ask("rests", suite)
    claim = claims.claim_next(worker)
    assert claim is not None
    claims.fail(claim.token, resting, error_class="InfraError", message="the disk is full")
    other = ask("other", suite)
    turn, _ = estimate.plan().places()[resting.pk]
    assert turn.obstacle is Obstacle.RESTING
    assert turn.begins is not None
    assert 25 < turn.begins.middle < 31
    assert begins(other) == 0.0


def fill(worker: Worker, seconds: float) -> None:
    until = timezone.now() + timedelta(seconds=seconds)
    Worker.objects.filter(pk=worker.pk).update(full_until=until)


def test_a_worker_whose_machine_is_full_is_counted_on_when_it_has_rested(suite: Suite) -> None:
    done(suite.entries.get(style="cloze").task, 600)
    fill(make.make_worker("full"), 200)
    first = ask("first", suite)
    turn, _ = estimate.plan().places()[first.pk]
    assert turn.begins is not None
    assert 195 < turn.begins.middle <= 200
    assert (turn.obstacle, turn.takers) == (Obstacle.FULL, ("full",))
    assert estimate.plan().all_rest()
    make.make_worker("other")
    second = ask("second", suite)
    turn, _ = estimate.plan().places()[first.pk]
    assert (turn.obstacle, begins(first)) == (Obstacle.NONE, 0.0)
    later = begins(second)
    assert later is not None
    assert 195 < later <= 200, "the other is busy for 600 seconds"
    assert not estimate.plan().all_rest()


def test_a_rest_that_is_over_keeps_nobody(suite: Suite) -> None:
    fill(make.make_worker(), -1)
    assert begins(ask("first", suite)) == 0.0


def test_a_run_that_found_a_machine_full_begins_elsewhere_or_after_its_hour(suite: Suite) -> None:
    done(suite.entries.get(style="cloze").task, 600)
    make.make_worker("was full")
    avoids = ask("avoids", suite)
    until = timezone.now() + timedelta(seconds=3000)
    Run.objects.filter(pk=avoids.pk).update(full_on="was full", full_until=until)
    other = ask("other", suite)
    begun = begins(avoids)
    assert begun is not None
    assert 2990 < begun <= 3000
    assert begins(other) == 0.0, "it goes first"
    make.make_worker("another")
    assert begins(avoids) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_that_in_which_one_worker_claims(suite: Suite, seed: int) -> None:
    drawn = random.Random(seed)
    variants = [make.make_variant(f"lab/{name}", parameters=SMALL) for name in "abcd"]
    asked = [(variant, entry) for variant in variants for entry in suite.entries.all()]
    for variant, entry in drawn.sample(asked, 6):
        make.queued_run(variant, entry, priority=drawn.choice((0, 0, 1)))
    worker = make.make_worker()
    foretold = [[run.pk for run in turn.runs] for turn in estimate.plan().turns]
    taken = []
    while claim := claims.claim_next(worker):
        taken.append([run.pk for run in claim.runs])
    assert foretold == taken


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_a_larger_model_is_in_no_smaller_class(one: int, other: int) -> None:
    smaller, larger = sorted((one, other))
    assert size_class(smaller) <= size_class(larger)


def test_the_queries_do_not_grow_with_the_queue(
    suite: Suite, django_assert_num_queries: Any
) -> None:
    make.make_worker()
    for number in range(30):
        ask(f"m{number}", suite)
    with django_assert_num_queries(7):
        estimate.plan()
