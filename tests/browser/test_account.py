"""The pages of one's own account: read by everybody, used without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.account.models import EmailAddress
from playwright.sync_api import Page, expect

from leaderboard.models import ApiToken, Notices, Role, User
from tests.browser.conftest import Open
from tests.browser.test_flags import looked_at, signed_in
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGES = ("/account", "/account/submissions", "/account/notices", "/account/tokens")


@pytest.fixture
def mail(settings: Any) -> None:
    settings.PLUMBLINE_MAIL_URL = "smtp://mail.example.org"


@pytest.mark.usefixtures("mail")
def test_the_pages_of_an_account_are_readable_in_every_look(visit: Open, shot: Shots) -> None:
    page = signed_in(visit, "ada", Role.SUBMITTER)
    ada = User.objects.get(username="ada")
    EmailAddress.objects.create(user=ada, email="ada@example.org", verified=True, primary=True)
    site = page.url.split("/", 3)
    found = {}
    for address in PAGES:
        page.goto(f"{site[0]}//{site[2]}{address}")
        found[address] = looked_at(page, shot, address.rpartition("/")[2])
        for name, made in (("Make a feed", "a[href*='/feeds/']"), ("Make a token", "#token")):
            button = page.get_by_role("button", name=name)
            if button.count():
                if name == "Make a token":
                    page.get_by_label("What it is for").fill("nightly job")
                button.click()
                page.locator(made).wait_for()
                found[name] = looked_at(page, shot, name)
    assert not any(found.values()), found


REFUSED = {
    "/account/tokens": {"What it is for": ""},
    "/account/delete": {"Type ada to say that you mean it": "W" * 60},
}


@pytest.mark.usefixtures("mail")
def test_a_form_that_is_refused_is_readable_in_every_look(visit: Open, shot: Shots) -> None:
    page = signed_in(visit, "ada", Role.SUBMITTER)
    site = page.url.removesuffix("/models/lab/texts")
    found = {}
    for address, fields in REFUSED.items():
        page.goto(site + address)
        found[address] = refused(page, fields, shot, address.rpartition("/")[2])
    page.goto(f"{site}/accounts/logout")
    found["sign out"] = looked_at(page, shot, "sign out")

    page = visit().page
    for address, fields in {
        "/accounts/login": {"User name": "ada", "Password": "wrong"},
        "/accounts/new": {"User name": "ada", "E-mail": "nonsense", "Password": "1"},
        "/accounts/password": {"E-mail": "nonsense"},
    }.items():
        page.goto(site + address)
        found[address] = refused(page, fields, shot, address.rpartition("/")[2])
    assert not any(found.values()), found


def refused(page: Page, fields: dict[str, str], shot: Shots, what: str) -> dict[str, Any]:
    """What is wrong with the form after it was sent with these; it says what has to change."""
    page.evaluate("document.querySelectorAll('form').forEach(one => { one.noValidate = true; })")
    for label, typed in fields.items():
        page.get_by_label(label).fill(typed)
    with page.expect_navigation():
        page.get_by_label(next(iter(fields))).press("Enter")
    assert page.locator("main :is(.problem:not(:empty), [role=alert])").count(), what
    return looked_at(page, shot, f"{what} refused")


def test_a_token_is_made_copied_and_revoked(visit: Open, shot: Shots) -> None:
    page = signed_in(visit, "ada", Role.SUBMITTER)
    page.get_by_role("link", name="ada").click()
    page.get_by_role("link", name="API tokens").click()
    page.get_by_label("What it is for").fill("nightly job")
    page.get_by_label("Ends after").select_option("a year")
    page.get_by_role("button", name="Make a token").press("Enter")
    expect(page.locator("#token")).to_contain_text("plumb_")
    shot(page, "made")
    page.get_by_role("button", name="Revoke nightly job").click()
    expect(page.get_by_role("button", name="Revoke nightly job")).to_have_count(0)
    assert not ApiToken.objects.exists()


def test_a_feed_is_made_and_ended(visit: Open) -> None:
    page = signed_in(visit, "ada", Role.USER)
    page.get_by_role("link", name="ada").click()
    page.get_by_role("link", name="Feed and messages").click()
    page.get_by_role("button", name="Make a feed").click()
    expect(page.get_by_role("link", name="/feeds/")).to_be_visible()
    page.get_by_role("button", name="End the feed").click()
    expect(page.get_by_role("button", name="Make a feed")).to_be_visible()
    assert Notices.objects.get().feed is None
