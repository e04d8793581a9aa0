"""Which worker is asked for next: never more than the budget, never one that would not help."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.models import Launch
from leaderboard.queue.launches import resting_until
from runners.launchers.need import DAY, spent, superfluous, wanted
from tests.runners.launchers.plans import GB, NOW, group, kind, launch, plan, standing, worker

SMALL, LARGE = kind("small", 1, 24), kind("large", 2, 160)


def test_the_cheapest_that_holds_it_is_asked_for_where_no_live_worker_does() -> None:
    of = plan(LARGE, SMALL)
    assert wanted(standing(), of) is None
    assert wanted(standing(group(20)), of) == SMALL
    assert wanted(standing(group(100)), of) == LARGE
    assert wanted(standing(group(500)), of) is None
    assert wanted(standing(group(20, dtype="float16")), of) is None
    assert wanted(standing(group(20), workers=(worker(24),)), of) is None
    assert wanted(standing(group(20), workers=(worker(16),)), of) == SMALL


def test_what_waits_too_long_for_a_worker_that_is_there_gets_another() -> None:
    busy = (worker(24),)
    assert wanted(standing(group(20, minutes=14), workers=busy), plan(SMALL)) is None
    assert wanted(standing(group(20, minutes=16), workers=busy), plan(SMALL)) == SMALL


def test_one_that_is_on_its_way_is_for_one_of_those_that_wait() -> None:
    coming = (launch(SMALL, "waiting"),)
    assert wanted(standing(group(20), launches=coming), plan(SMALL)) is None
    assert wanted(standing(group(20), group(20), launches=coming), plan(SMALL)) == SMALL
    assert wanted(standing(group(20), group(100), launches=coming), plan(SMALL, LARGE)) == LARGE


def test_one_that_nothing_waits_for_any_more_is_taken_back() -> None:
    coming = (launch(SMALL, "waiting"), launch(LARGE, "waiting"), launch(SMALL, "up"))
    left = superfluous(standing(group(20), launches=coming), plan(SMALL))
    assert [one.kind for one in left] == ["large"]
    assert superfluous(standing(launches=coming), plan(SMALL, LARGE)) == list(coming[:2])


def test_of_two_on_their_way_one_is_taken_back_when_one_model_is_left() -> None:
    newer, older = launch(SMALL, "waiting", minutes=1), launch(SMALL, "waiting", minutes=9)
    both = standing(group(20), group(20), launches=(newer, older))
    assert superfluous(both, plan(SMALL)) == []
    assert superfluous(replace(both, waiting=[group(20)]), plan(SMALL)) == [newer]
    # Who is being asked for, or has come and not yet said what it holds, serves one as well.
    for first in (launch(SMALL, "asking"), launch(SMALL, "up", claims=0)):
        more = replace(both, launches=(newer, older, first), arriving={first.pk})
        assert superfluous(more, plan(SMALL)) == [newer]
        assert wanted(more, plan(SMALL)) is None


def test_each_limit_of_the_budget_holds() -> None:
    up = (launch(LARGE, "up"),)
    for limit, fits, exceeds in (
        ("workers_at_once", 2, 1),
        ("gpus_at_once", 3, 2),
        ("gpu_hours_per_day", 12.0, 11.9),
        ("money_per_day", 24.0, 23.9),
    ):
        asked = standing(group(20), group(20), launches=up)
        assert wanted(asked, plan(SMALL, **{limit: fits})) == SMALL, limit
        assert wanted(asked, plan(SMALL, **{limit: exceeds})) is None, limit


def test_a_kind_that_fails_rests_twice_as_long_each_time_and_another_is_tried() -> None:
    came_for_nothing = launch(SMALL, "ended", claims=0)
    failures = (launch(SMALL, "failed"), came_for_nothing, launch(SMALL, "failed"))
    assert resting_until("small", failures[:1]) == NOW + timedelta(minutes=5)
    assert resting_until("small", failures) == NOW + timedelta(minutes=20)
    assert resting_until("small", failures * 20) == NOW + timedelta(hours=6)
    assert resting_until("small", (launch(SMALL, "ended"), *failures)) is None
    assert resting_until("large", failures) is None
    # Taken back before it came: nobody's fault.
    withdrawn = launch(SMALL, "ended", came=None, claims=0)
    assert resting_until("small", (withdrawn,)) is None

    asked = standing(group(20), launches=failures)
    assert wanted(asked, plan(SMALL)) is None
    assert wanted(asked, plan(SMALL, LARGE)) == LARGE
    assert wanted(replace(asked, now=NOW + timedelta(minutes=21)), plan(SMALL)) == SMALL


def test_what_a_worker_of_the_kind_found_free_counts_not_what_was_stated() -> None:
    assert wanted(standing(group(24)), plan(SMALL)) == SMALL
    assert wanted(standing(group(24), small=23 * GB), plan(SMALL)) is None


def test_only_the_hours_of_the_last_day_are_spent() -> None:
    long_ago = launch(LARGE, "ended", minutes=25 * 60)
    assert spent([long_ago], NOW) == (48.0, 96.0)
    never_came = launch(LARGE, "failed")
    assert spent([launch(SMALL, "up"), never_came], NOW) == (4.0, 8.0)


lives = st.lists(
    st.tuples(
        st.integers(0, 90),  # minutes until it comes
        st.integers(60, 240),  # minutes at work
        st.booleans(),  # whether it comes at all
        st.integers(5, 90),  # minutes until the next group is queued
        st.sampled_from([20, 100]),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(lives)
def test_no_two_days_side_by_side_cost_more_than_they_may(stories: list) -> None:
    """Played through in steps of minutes; what was really used is added up apart from the plan."""
    of = plan(SMALL, LARGE, gpus_at_once=3, gpu_hours_per_day=9.0, money_per_day=40.0)
    known: list[Launch] = []
    fates: list[tuple[Launch, int, int, bool]] = []
    clock, waiting = NOW, []
    for comes, works, shows_up, pause, gb in stories * 2:
        waiting.append(group(gb))
        clock += timedelta(minutes=pause)
        for one, after, minutes, will_come in fates:
            born = one.asked + timedelta(minutes=after)
            if one.state == "waiting" and clock >= born:
                one.state, one.came = ("up", born) if will_come else ("failed", None)
                one.ended = None if will_come else born
                one.claims = int(will_come)
            if one.state == "up" and clock >= born + timedelta(minutes=minutes):
                one.state, one.ended = "ended", born + timedelta(minutes=minutes)
        recent = [x for x in known if x.state in Launch.OPEN or x.ended > clock - DAY]
        asked = standing(*waiting, launches=tuple(reversed(recent)), now=clock)
        if (chosen := wanted(asked, of)) is not None:
            one = launch(chosen, "waiting", asked=clock)
            known.append(one)
            fates.append((one, comes, works, shows_up))
        assert sum(x.gpus for x in known if x.state in Launch.OPEN) <= 3
        used = sum(
            x.gpus * max((min(x.ended or clock, clock) - max(x.came, clock - DAY)), timedelta())
            / timedelta(hours=1)
            for x in known
            if x.came
        )  # fmt: skip
        assert used <= 9.0
