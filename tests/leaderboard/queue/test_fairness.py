"""Whose turn it is: nobody waits behind all that one submitter asked for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.models import Run, Submission, Suite, User
from leaderboard.queue import claims, fairness
from leaderboard.queue.estimate import in_order
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def suite() -> Suite:
    return make.make_suite(benchmarks=("facts",), styles=("cloze",))


def ask(model: str, who: User, suite: Suite, parameters: int = 10**9) -> Run:
    """As the form does, without the Hub."""
    others = Submission.objects.filter(submitter=who)
    variant = make.make_variant(model, parameters=parameters)
    run = make.queued_run(variant, suite.entries.get(), due=fairness.due(others))
    submission = Submission.objects.create(
        submitter=who, variant=variant, suite=suite, requested_revision="main"
    )
    submission.runs.add(run)
    return run


def order() -> list[str]:
    return [run.variant.hub_model.repo_id for run in in_order(Run.objects.all())]


def test_who_comes_later_waits_behind_one_model_of_another_not_behind_all(suite: Suite) -> None:
    ada, bo = User.objects.create_user("ada"), User.objects.create_user("bo")
    for name in ("a/one", "a/two", "a/three"):
        ask(name, ada, suite)
    ask("b/one", bo, suite)
    ask("b/two", bo, suite)
    assert order() == ["a/one", "b/one", "a/two", "b/two", "a/three"]
    worker = make.make_worker()
    taken = [claims.claim_next(worker).runs[0].variant.hub_model.repo_id for _ in range(5)]
    assert taken == ["a/one", "b/one", "a/two", "b/two", "a/three"]


def test_the_next_counts_as_asked_for_later_by_the_size_of_the_one_before(suite: Suite) -> None:
    ada = User.objects.create_user("ada")
    sizes = (10**9, 7 * 10**9, 70 * 10**9, 10**9)
    turns = [ask(f"a/{n}", ada, suite, size).due for n, size in enumerate(sizes)]
    assert [later - turns[0] for later in turns[1:]] == [HOUR, 3 * HOUR, 7 * HOUR]


def test_what_is_taken_already_puts_nothing_off(suite: Suite) -> None:
    ada = User.objects.create_user("ada")
    ask("a/one", ada, suite)
    claims.claim_next(make.make_worker())
    assert ask("a/two", ada, suite).due <= timezone.now()


def test_nobody_is_overtaken_by_who_comes_hours_later(suite: Suite) -> None:
    ada, bo = User.objects.create_user("ada"), User.objects.create_user("bo")
    ask("a/one", ada, suite)
    late = ask("a/two", ada, suite)
    Run.objects.update(due=late.due - 2 * HOUR)
    ask("b/one", bo, suite)
    assert order()[-1] == "b/one"


def test_the_page_says_why_a_model_counts_as_later(client: Client, suite: Suite) -> None:
    ada = User.objects.create_user("ada")
    ask("a/one", ada, suite)
    assert "Its submitter had others waiting" not in client.get("/queue").text
    ask("a/two", ada, suite)
    html = client.get("/queue").text
    assert html.count("Its submitter had others waiting: it counts as asked for") == 1
    assert "each further one counts as asked" in html


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_larger_model_never_puts_the_next_off_by_less(one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert HOUR <= fairness.gap(small) <= fairness.gap(large) <= 4 * HOUR
