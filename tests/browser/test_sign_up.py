"""An account by mail, with keys alone: made, confirmed, a password forgotten and chosen, a vote."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from playwright.sync_api import Page, expect

from leaderboard.models import Submission, User
from tests.browser.conftest import Open
from tests.browser.test_access import PHONE
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def follow(page: Page) -> None:
    """The link of the newest message."""
    found = re.search(r"http://\S+", str(mail.outbox[-1].body))
    assert found, mail.outbox[-1].body
    page.goto(found[0])


def sign_in(page: Page, password: str) -> None:
    page.get_by_label("User name or e-mail").fill("ada")
    page.get_by_label("Password").fill(password)
    page.get_by_label("Password").press("Enter")


def test_from_no_account_to_a_vote(visit: Open, settings: Any, shot: Shots) -> None:
    settings.PLUMBLINE_MAIL_URL = "smtp://mail.example.org"
    cache.clear()
    window = visit(viewport=PHONE, color_scheme="dark")
    page = window.go("/accounts/new")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("Password").fill("a long pass phrase")
    page.get_by_label("Password").press("Enter")
    page.wait_for_url("**/accounts/confirm")
    shot(page, "look at your mail")
    follow(page)
    shot(page, "confirm the address")
    page.locator("main").get_by_role("button").press("Enter")
    page.wait_for_url("**/accounts/login")
    cache.clear()  # one address is written to once in three minutes
    page.get_by_role("link", name="Forgotten password").press("Enter")
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("E-mail").press("Enter")
    page.wait_for_url("**/accounts/password/sent")
    shot(page, "sent")
    follow(page)
    fields = page.locator("main input[type=password]")
    fields.nth(0).fill("another pass phrase")
    fields.nth(1).fill("another pass phrase")
    shot(page, "choose another password")
    fields.nth(1).press("Enter")
    page.wait_for_url("**/accounts/password/changed")
    page.locator("main").get_by_role("link", name="Sign in").press("Enter")
    sign_in(page, "another pass phrase")
    expect(page.get_by_role("link", name="ada", exact=True)).to_be_visible()

    waits = Submission.objects.get(variant__hub_model__repo_id="lab/unlucky")
    page.goto(f"{window.url}{waits.get_absolute_url()}")
    page.get_by_role("button", name="Vote").press("Enter")
    expect(page.get_by_text("You have voted for it.")).to_be_visible()
    shot(page, "voted")
    assert [*waits.votes.values_list("voter", flat=True)] == [User.objects.get().pk]
    assert window.complaints == []
