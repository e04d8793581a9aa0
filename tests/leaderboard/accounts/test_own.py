"""One's own submissions, all of it as a file, and what stays of an account that is deleted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.test import Client

from leaderboard.models import Quota, Role, RunEvent, Submission, User, Vote, give
from leaderboard.submissions.submit import submit
from tests.leaderboard import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hub", "suite")]
TINY = "awkward/tiny-llama"


@pytest.fixture
def page(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def test_who_has_submitted_nothing_is_told_how_to(page: Client) -> None:
    assert "You have submitted nothing yet." in page.get("/account/submissions").text


def test_own_submissions_are_listed_and_nobody_elses(page: Client, ada: User, bo: User) -> None:
    submit(TINY, user=ada)
    assert "1 submission, the newest first." in page.get("/account/submissions").text
    listed = page.get("/account/submissions").text
    assert TINY in listed
    assert "0 of 2 done" in listed
    other = Client()
    other.force_login(bo)
    assert TINY not in other.get("/account/submissions").text


def test_the_hundredth_submission_is_on_a_page_of_its_own(
    page: Client, ada: User, suite: Any
) -> None:
    variant = make.make_variant("lab/many")
    Submission.objects.bulk_create(
        Submission(variant=variant, suite=suite, submitter=ada) for _ in range(101)
    )
    assert page.get("/account/submissions").text.count("lab/many") == 50
    assert page.get("/account/submissions?page=3").text.count("lab/many") == 1


def test_all_that_is_ones_own_comes_as_a_file(page: Client, ada: User, bo: User) -> None:
    EmailAddress.objects.create(user=ada, email="ada@example.org", verified=True, primary=True)
    submission = submit(TINY, user=ada)
    of_another = Submission.objects.create(
        variant=submission.variant, suite=submission.suite, submitter=bo
    )
    Vote.objects.create(submission=of_another, voter=ada)
    Quota.objects.create(user=ada, most=7)
    answer = page.get("/account/export.json")
    told = answer.json()
    assert answer["Content-Disposition"].startswith("attachment")
    assert (told["account"]["name"], told["account"]["role"]) == ("ada", "submitter")
    assert told["addresses"] == [{"email": "ada@example.org", "verified": True, "primary": True}]
    assert [(one["id"], one["model"]) for one in told["submissions"]] == [
        (str(submission.pk), TINY)
    ]
    assert [vote["submission"] for vote in told["votes"]] == [str(of_another.pk)]
    assert told["quota"] == 7


def test_an_account_that_is_deleted_leaves_its_evaluations_without_the_name(
    page: Client, ada: User, bo: User
) -> None:
    submission = submit(TINY, user=ada)
    of_another = Submission.objects.create(
        variant=submission.variant, suite=submission.suite, submitter=bo
    )
    Vote.objects.create(submission=of_another, voter=ada)
    assert set(RunEvent.objects.values_list("by", flat=True)) == {"ada"}
    answer = page.post("/account/delete", {"name": "ada"}, follow=True)
    assert "The account is deleted" in answer.text
    assert not User.objects.filter(username="ada").exists()
    assert not Vote.objects.exists()
    submission.refresh_from_db()
    assert submission.submitter is None
    assert submission.runs.count() == 2
    assert set(RunEvent.objects.values_list("by", flat=True)) == {"a deleted account"}
    # As a word: an address of a run may have these letters in its middle.
    assert not re.search(r"\bada\b", Client().get(submission.get_absolute_url()).text)
    assert page.get("/account").status_code == 302


def test_nothing_is_deleted_by_looking_or_by_another_name(page: Client, ada: User) -> None:
    assert "Type ada to say that you mean it" in page.get("/account/delete").text
    answer = page.post("/account/delete", {"name": "bo"})
    assert answer.status_code == 422
    assert "That is not the name of this account: type ada." in answer.text
    assert User.objects.filter(username="ada").exists()


def test_an_operator_does_not_delete_the_own_account_by_accident(page: Client, ada: User) -> None:
    give(ada, Role.OPERATOR)
    answer = page.post("/account/delete", {"name": "ada"})
    assert (answer.status_code, User.objects.filter(username="ada").exists()) == (422, True)
    assert "deleted in the administration" in answer.text
