"""API tokens: made by their owner, shown once, kept as digests, ended and revoked."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from leaderboard.models import ApiToken, User
from leaderboard.models.token import digest_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def made(page: Client, name: str = "nightly job", days: str = "90") -> str:
    answer = page.post("/account/tokens", {"name": name, "days": days})
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    found = re.search(r'id="token">(plumb_[\w-]{43})<', answer.text)
    assert found is not None
    return found[1]


def test_a_token_is_shown_once_and_kept_as_a_digest(page: Client, ada: User) -> None:
    token = made(page)
    row = ApiToken.objects.get()
    assert (row.user, row.name, row.digest) == (ada, "nightly job", digest_of(token))
    assert token not in str(vars(row))
    later = page.get("/account/tokens").text
    assert token not in later
    assert row.prefix in later
    assert "nightly job" in later
    assert "never" in later


def test_it_ends_after_the_days_that_were_chosen(page: Client) -> None:
    made(page, days="30")
    left = ApiToken.objects.get().expires - timezone.now()
    assert timedelta(days=29) < left <= timedelta(days=30)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "", "days": "30"}, "Say what it is for"),
        ({"name": " \t", "days": "30"}, "Say what it is for"),
        ({"name": "x" * 61, "days": "30"}, "longer than 60 characters"),
        ({"name": "a\0b", "days": "30"}, ""),
        ({"name": "job", "days": "36500"}, "30, 90 or 365 days"),
        ({"name": "job", "days": "never"}, "30, 90 or 365 days"),
        ({"name": "job"}, "Choose after how many days"),
    ],
)
def test_a_form_that_is_wrong_makes_no_token_and_says_why(
    page: Client, fields: dict[str, str], said: str
) -> None:
    answer = page.post("/account/tokens", fields)
    assert answer.status_code in (400, 422)
    assert said in answer.text
    assert not ApiToken.objects.exists()


def test_a_name_is_text_and_no_markup(page: Client) -> None:
    made(page, "<script>alert(1)</script>")
    assert "<script>alert(1)" not in page.get("/account/tokens").text


def test_a_revoked_token_is_gone_and_nobody_revokes_anothers(
    page: Client, ada: User, bo: User
) -> None:
    made(page)
    row = ApiToken.objects.get()
    other = Client()
    other.force_login(bo)
    other.post("/account/tokens", {"revoke": str(row.pk)})
    assert ApiToken.objects.exists()
    for wrong in ("", "x", "-1", "9" * 40, "²"):
        assert page.post("/account/tokens", {"revoke": wrong}).status_code == 302
    assert ApiToken.objects.exists()
    page.post("/account/tokens", {"revoke": str(row.pk)})
    assert not ApiToken.objects.exists()


def test_an_account_has_twenty_at_most(page: Client, ada: User) -> None:
    for number in range(20):
        ApiToken.make(ada, f"job {number}", timezone.now() + timedelta(days=1))
    answer = page.post("/account/tokens", {"name": "one more", "days": "30"})
    assert answer.status_code == 422
    assert "20 tokens at most" in answer.text
    assert ApiToken.objects.count() == 20


def test_the_export_lists_tokens_without_what_they_are(page: Client, ada: User) -> None:
    token = made(page)
    answer = page.get("/account/export.json")
    [told] = answer.json()["tokens"]
    assert told["name"] == "nightly job"
    assert token not in answer.text
    assert digest_of(token) not in answer.text


def test_tokens_go_with_their_account(page: Client, ada: User) -> None:
    made(page)
    ada.delete()
    assert not ApiToken.objects.exists()
