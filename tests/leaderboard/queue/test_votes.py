"""Votes move a turn forward, by no more than the page says, and nobody waits for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import caches
from django.db import IntegrityError, transaction
from django.test import Client

from leaderboard.models import Run, Submission, Suite, User, Vote
from leaderboard.models.run import MOST_VOTES
from leaderboard.queue import claims, estimate, fairness, votes
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

FAR = fairness.VOTE * MOST_VOTES
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    caches["throttle"].clear()


@pytest.fixture
def suite() -> Suite:
    return make.make_suite(benchmarks=("facts",), styles=("cloze",))


@pytest.fixture
def bo() -> User:
    return User.objects.create_user("bo", password="a long pass phrase")


def waiting(name: str, suite: Suite, later: timedelta = timedelta(0), **who: Any) -> Submission:
    """A submission of this model whose turn is so much later than that of the first."""
    submission = make.make_submission(make.make_variant(name), suite, **who)
    first = min(Run.objects.values_list("created", flat=True))
    submission.runs.update(due=first + later)
    return submission


def many_vote(submission: Submission, n: int) -> None:
    for number in range(n):
        voter = User.objects.create_user(f"{submission.pk}-{number}")
        votes.cast(submission, voter, "")


def order() -> list[str]:
    return [run.variant.hub_model.repo_id for run in estimate.in_order(Run.objects.all())]


def test_a_vote_brings_a_model_before_one_that_was_asked_for_a_little_earlier(
    suite: Suite, bo: User
) -> None:
    waiting("a/first", suite)
    liked = waiting("b/liked", suite, timedelta(minutes=10))
    assert order() == ["a/first", "b/liked"]
    votes.cast(liked, bo, "")
    assert order() == ["b/liked", "a/first"]
    claim = claims.claim_next(make.make_worker())
    assert claim is not None
    assert claim.runs[0].variant.hub_model.repo_id == "b/liked"


def test_nobody_is_overtaken_by_who_asked_more_than_two_hours_later(suite: Suite) -> None:
    waiting("a/first", suite)
    near, far = (waiting("b/near", suite, FAR - SECOND), waiting("c/far", suite, FAR + SECOND))
    for submission in (near, far):
        many_vote(submission, MOST_VOTES + 3)
    assert order() == ["b/near", "a/first", "c/far"]
    assert timedelta(hours=2) == FAR


def test_what_two_submissions_share_is_moved_no_further(suite: Suite) -> None:
    one = waiting("a/shared", suite)
    other = Submission.objects.create(
        variant=one.variant, suite=suite, requested_revision="main", visitor="somebody"
    )
    other.runs.set(one.runs.all())
    before = one.runs.get().due
    for submission in (one, other):
        many_vote(submission, MOST_VOTES)
    assert one.runs.get().due == before - FAR


def test_one_vote_of_each_account_and_each_visitor_counts(suite: Suite, bo: User) -> None:
    submission = waiting("a/one", suite)
    for _ in range(3):
        votes.cast(submission, bo, "ignored")
        votes.cast(submission, Client().get("/method").wsgi_request.user, "a visitor's digest")
    assert (submission.runs.get().votes, Vote.objects.count()) == (2, 2)
    with pytest.raises(IntegrityError), transaction.atomic():
        Vote.objects.create(submission=submission, voter=bo)


def test_votes_for_one_model_bring_no_other_of_its_submitter_forward(suite: Suite) -> None:
    ada = User.objects.create_user("ada")
    first = waiting("a/one", suite, submitter=ada)
    own = Submission.objects.filter(submitter=ada)
    before = fairness.due(own)
    many_vote(first, MOST_VOTES)
    assert fairness.due(own) == before


def test_who_asks_for_a_voted_model_as_well_leaves_it_its_votes(suite: Suite) -> None:
    liked = waiting("a/liked", suite, timedelta(hours=5))
    many_vote(liked, 4)
    before = liked.runs.get().due
    fairness.advance(liked.runs.all(), before + 4 * fairness.VOTE - timedelta(hours=1))
    assert liked.runs.get().due == before - timedelta(hours=1)


def test_the_button_works_by_a_plain_form_and_says_what_the_vote_did(
    suite: Suite, bo: User
) -> None:
    submission = waiting("a/one", suite, submitter=User.objects.create_user("ada"))
    client = Client(enforce_csrf_checks=True)
    address = f"{submission.get_absolute_url()}/vote"
    html = client.get(submission.get_absolute_url()).text
    assert f'action="{address}"' in html
    assert client.post(address).status_code == 403, "no token"
    token = client.cookies["csrftoken"].value
    done = client.post(address, {"csrfmiddlewaretoken": token}, follow=True)
    assert "1 vote: it counts as asked for 15 min earlier." in done.content.decode()
    assert "You have voted for it." in done.content.decode()
    assert f'action="{address}"' not in done.content.decode()
    queue = client.get("/queue").text
    assert "1 vote: it counts as asked for 15 min earlier." in queue
    assert "first eight votes count, which is two hours" in queue
    assert f"{submission.get_absolute_url()}#votes" in queue
    assert client.get(address).status_code == 405


def test_what_cannot_be_voted_for_is_refused_in_a_sentence(
    client: Client, suite: Suite, bo: User
) -> None:
    own = waiting("a/own", suite, submitter=bo)
    taken = waiting("a/taken", suite)
    taken.runs.update(state="cancelled")
    client.force_login(bo)
    for submission, says in ((own, "a vote is for the models of others"), (taken, "any more")):
        refused = client.post(f"{submission.get_absolute_url()}/vote")
        assert refused.status_code == 409
        assert "Your vote was not counted." in refused.content.decode()
        assert says in refused.content.decode()
    assert not Vote.objects.exists()


def test_votes_from_one_network_are_throttled(
    client: Client, suite: Suite, one_minute: None
) -> None:
    submission = waiting("a/one", suite)
    address = f"{submission.get_absolute_url()}/vote"
    answers = [client.post(address).status_code for _ in range(11)]
    assert answers == [302] * 10 + [429]
