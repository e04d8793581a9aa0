"""How many more models somebody may submit today: told before, refused beyond, set by account."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.models import Quota, Role, Submission, Suite, User, give
from leaderboard.submissions.quota import Share
from leaderboard.submissions.submit import submit
from leaderboard.web import Refused
from tests.hub import Orders
from tests.leaderboard.conftest import worker

pytestmark = pytest.mark.django_db

TINY = "awkward/tiny-llama"


@pytest.fixture
def as_ada(client: Client, hub: Callable[[Orders], None], suite: Suite, ada: User) -> Client:
    worker(16 * 10**9)
    client.force_login(ada)
    return client


def said(client: Client) -> str:
    found = re.search(r'id="quota">(.*?)</span>', client.get("/submit").content.decode(), re.S)
    return " ".join(found[1].split()) if found else ""


def test_the_form_says_how_many_are_left_and_then_when_the_next_may_come(
    as_ada: Client, ada: User, settings: Any
) -> None:
    settings.PLUMBLINE_USER_QUOTA = 2
    assert said(as_ada) == "2 of 2 submissions left today."
    submit(TINY, user=ada)
    assert said(as_ada) == "1 of 2 submissions left today."
    submit(TINY, "v1", user=ada)
    assert said(as_ada).startswith("None of 2 submissions left today; the next at")
    refused = as_ada.post("/submit", {"model": TINY, "dtype": "float16"})
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 24 * 3600
    assert "The next one can be submitted at" in refused.content.decode()
    Submission.objects.update(created=timezone.now() - timedelta(hours=25))
    assert said(as_ada) == "2 of 2 submissions left today."


def test_who_may_not_submit_is_told_no_number(client: Client, suite: Suite, settings: Any) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = False
    assert said(client) == ""


def test_a_withdrawn_submission_counts_all_the_same(
    as_ada: Client, ada: User, settings: Any
) -> None:
    settings.PLUMBLINE_USER_QUOTA = 2
    made = submit(TINY, user=ada)
    as_ada.post(f"/submissions/{made.pk}/withdraw")
    assert said(as_ada) == "1 of 2 submissions left today."


def test_an_operator_gives_one_account_a_number_of_its_own(
    as_ada: Client, ada: User, bo: User, settings: Any
) -> None:
    settings.PLUMBLINE_USER_QUOTA = 1
    operator = User.objects.create_user("op")
    give(operator, Role.OPERATOR)
    office = Client()
    office.force_login(operator)
    typed = {"user": ada.pk, "most": 3, "why": "measures a whole family"}
    assert office.post("/admin/leaderboard/quota/add/", typed).status_code == 302
    assert said(as_ada) == "3 of 3 submissions left today."
    submit(TINY, user=ada)
    submit(TINY, "v1", user=ada)
    submit(TINY, user=bo, dtype="float16")
    with pytest.raises(Refused, match="account bo is 1 submission in"):
        submit(TINY, "v1", user=bo, dtype="float16")


def test_a_quota_of_none_for_one_account_is_no_word_on_the_site(
    as_ada: Client, ada: User, bo: User
) -> None:
    Quota.objects.create(user=ada, most=0)
    assert said(as_ada) == "None is taken at the moment."
    with pytest.raises(Refused, match=r"account ada is 0 submissions.*whom to ask"):
        submit(TINY, user=ada)
    assert submit(TINY, user=bo)


def test_an_account_has_one_quota_and_takes_it_along(ada: User) -> None:
    Quota.objects.create(user=ada, most=5)
    with pytest.raises(IntegrityError), transaction.atomic():
        Quota.objects.create(user=ada, most=6)
    ada.delete()
    assert not Quota.objects.exists()


@given(most=st.integers(0, 50), used=st.integers(0, 60))
def test_what_is_left_is_never_below_nothing_nor_above_the_limit(most: int, used: int) -> None:
    left = Share("anybody", most, used, None).left
    assert 0 <= left <= most
    assert (left == 0) == (used >= most)
