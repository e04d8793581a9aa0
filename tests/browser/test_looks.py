"""Forms, accounts, what people decide and the administration in every look; themes and times; views
of a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from allauth.account.models import EmailAddress
from django.core.cache import cache
from playwright.sync_api import Page, expect

from leaderboard.models import Role, Run, Suite, User, Variant
from leaderboard.models.run import State
from tests.browser.conftest import TINY, Open, signed_in
from tests.browser.journeys import leave_the_ranking_and_come_back, report_a_key, report_a_model
from tests.browser.looks import (
    AXE,
    PHONE,
    WIDE,
    Look,
    look_everywhere,
    too_wide,
)
from tests.leaderboard.accounts.provider import CLIENT, Provider, serve, settings_of
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def look(shot: Shots) -> Look:
    return look_everywhere(shot)


def test_a_name_alone_leads_to_its_model_and_the_black_button_is_what_helps(visit: Open) -> None:
    page = visit().go("/submit")
    page.get_by_label("Model on the Hub").fill("tiny-llama")
    page.keyboard.press("Tab")
    expect(page.locator("#check-button")).to_have_class("btn first")
    expect(page.locator("#submit-button")).to_have_class("btn")
    page.locator("#model-problem").get_by_role("link", name=TINY).click()
    expect(page.get_by_label("Model on the Hub")).to_have_value(TINY)
    expect(page.get_by_text("Ready to submit.")).to_be_visible()
    expect(page.locator("#submit-button")).to_have_class("btn first")


def test_a_name_is_completed_by_a_suggestion_while_it_is_typed(visit: Open) -> None:
    page = visit().go("/submit")
    page.get_by_label("Model on the Hub").press_sequentially("tiny-ll")
    page.locator("#suggestions").get_by_role("link", name=TINY).press("Enter")
    expect(page.get_by_label("Model on the Hub")).to_have_value(TINY)
    expect(page.get_by_text("Ready to submit.")).to_be_visible()


@pytest.mark.usefixtures("mail")
def test_the_pages_of_an_account_are_readable_in_every_look(visit: Open, look: Look) -> None:
    page = signed_in(visit, "ada", Role.SUBMITTER)
    ada = User.objects.get(username="ada")
    EmailAddress.objects.create(user=ada, email="ada@example.org", verified=True, primary=True)
    site = page.url.removesuffix("/models/lab/texts")
    for address in ("/account", "/account/submissions"):
        page.goto(site + address)
        look(page, address.rpartition("/")[2])
    page.goto(f"{site}/account/notices")
    look(page, "notices")
    page.get_by_role("button", name="Make a feed").click()
    page.locator("a[href*='/feeds/']").wait_for()
    look(page, "a feed")
    page.goto(f"{site}/account/tokens")
    look(page, "tokens")
    page.get_by_label("What it is for").fill("nightly job")
    page.get_by_role("button", name="Make a token").click()
    page.locator("#token").wait_for()
    look(page, "a token")
    page.goto(f"{site}/accounts/logout")
    look(page, "sign out")


def refuse(page: Page, address: str, fields: dict[str, str], look: Look) -> None:
    """Send the form with these; it says what has to change."""
    page.goto(address)
    page.evaluate("document.querySelectorAll('form').forEach(one => { one.noValidate = true; })")
    for label, typed in fields.items():
        page.get_by_label(label).fill(typed)
    with page.expect_navigation():
        page.get_by_label(next(iter(fields))).press("Enter")
    assert page.locator("main :is(.problem:not(:empty), [role=alert])").count(), address
    look(page, f"{urlsplit(address).path.rpartition('/')[2]} refused")


@pytest.mark.usefixtures("mail")
def test_a_form_that_is_refused_is_readable_in_every_look(visit: Open, look: Look) -> None:
    page = signed_in(visit, "ada", Role.SUBMITTER)
    site = page.url.removesuffix("/models/lab/texts")
    refuse(page, f"{site}/account/tokens", {"What it is for": ""}, look)
    mean_it = {"Type ada to say that you mean it": "W" * 60}
    refuse(page, f"{site}/account/delete", mean_it, look)
    page = visit(viewport=WIDE).page
    wrong = {"User name": "ada", "Password": "wrong"}
    refuse(page, f"{site}/accounts/login", wrong, look)
    nonsense = {"User name": "ada", "E-mail": "nonsense", "Password": "1"}
    refuse(page, f"{site}/accounts/new", nonsense, look)
    refuse(page, f"{site}/accounts/password", {"E-mail": "nonsense"}, look)


@pytest.fixture
def provider(site: Suite, live_server: Any, settings: Any) -> Iterator[Provider]:
    settings.PLUMBLINE_OIDC_CLIENT_ID = CLIENT
    settings.OIDC_ID, settings.OIDC_NAME = "identity", "The identity"
    with serve(f"{live_server.url}/accounts/identity/callback") as provider:
        settings.SOCIALACCOUNT_PROVIDERS = settings_of(provider, settings.SOCIALACCOUNT_PROVIDERS)
        cache.clear()
        yield provider


def test_signing_in_at_the_provider_leads_back_to_where_one_was(
    visit: Open, provider: Provider, look: Look
) -> None:
    page = visit(viewport=WIDE).go("/queue")
    page.get_by_role("link", name="Sign in").press("Enter")
    button = page.get_by_role("button", name="Sign in with The identity")
    button.wait_for()
    look(page, "the way to the provider")
    button.press("Enter")
    expect(page.get_by_role("link", name="ada", exact=True)).to_be_visible()
    assert urlsplit(page.url).path == "/queue"
    page.get_by_role("link", name="ada", exact=True).press("Enter")
    expect(page.get_by_text("With The identity, as ada")).to_be_visible()
    look(page, "the account that came of it")


def test_reports_are_readable_in_every_look(visit: Open, look: Look) -> None:
    report_a_model(visit, look)


def test_departures_are_readable_in_every_look(visit: Open, look: Look) -> None:
    leave_the_ranking_and_come_back(visit, look)


def test_reports_on_keys_are_readable_in_every_look(visit: Open, look: Look) -> None:
    report_a_key(visit, look)


LISTS = ("run/", "user/", "report/", "hubmodel/", "submission/", "ruling/")
# It would else read the sheets that Django's own import, by ways that the content policy forbids.
WORST = """() => axe.run(document, { preload: false }).then(found => found.violations
  .filter(rule => ["serious", "critical"].includes(rule.impact))
  .map(rule => [rule.id, rule.nodes.map(node => node.html.slice(0, 160))]))"""


def test_the_administration_is_readable_in_every_look(visit: Open, shot: Shots) -> None:
    page = signed_in(visit, "op", Role.OPERATOR)
    wrong = {}
    page.get_by_role("link", name="Administration").press("Enter")
    page.wait_for_url("**/admin/")
    done = Run.objects.filter(state=State.DONE)[0]
    for scheme, size in (("light", WIDE), ("dark", WIDE), ("light", PHONE)):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for part in ("", *LISTS, "recall/add/", f"run/{done.pk}/change/"):
            page.goto(f"{page.url.split('/admin/')[0]}/admin/leaderboard/{part}")
            page.evaluate(AXE)
            name = f"{part.partition('/')[0] or 'all'} {scheme} {size['width']}"
            wrong[f"{part} {scheme} {size['width']}"] = page.evaluate(WORST) + too_wide(page)
            shot(page, name)
        if size == PHONE:
            page.goto(f"{page.url.split('/admin/')[0]}/admin/leaderboard/run/")
            for label, role in (("Action:", "combobox"), ("Reason:", "textbox")):
                box = page.get_by_role(role, name=label).bounding_box()
                assert box is not None
                assert box["width"] > 120, label
                assert box["height"] < 60, label
    assert {name: found for name, found in wrong.items() if found} == {}


def test_the_theme_is_remembered_without_an_account(visit: Open) -> None:
    page = visit().go("/")
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"timezone_id": "America/New_York"}, "1 Nov 2026 22:30 UTC−5"),
        ({"timezone_id": "UTC"}, "2 Nov 2026 03:30 UTC"),
        ({"java_script_enabled": False, "timezone_id": "Asia/Kolkata"}, "2 Nov 2026 03:30 UTC"),
    ],
)
def test_a_time_is_the_readers_own_and_utc_without_a_script(
    visit: Open, options: dict[str, Any], shown: str
) -> None:
    """The run began in the night of a Monday in UTC, which is Sunday in New York."""
    at = datetime(2026, 11, 2, 3, 30, tzinfo=UTC)
    Run.objects.filter(state="running").update(created=at, started=at)
    page = visit(**options).go("/queue")
    moment = page.locator(f'time[datetime="{at.isoformat()}"]').first
    expect(moment).to_have_text(shown)
    if "UTC−" in shown:
        expect(moment).to_have_attribute("title", "2 Nov 2026 03:30 UTC")
    else:
        expect(moment).not_to_have_attribute("title", re.compile("."))


# Comparisons


def address_of_a_comparison() -> str:
    keys = Variant.objects.order_by("pk").values_list("pk", flat=True)
    return f"/compare?m={keys[0]}%2C{keys[1]}"


def test_other_views_of_a_comparison_swap_the_page_in_place(visit: Open) -> None:
    window = visit()
    page = window.go(address_of_a_comparison())
    page.evaluate("window.stayed = true")
    part = page.locator(".byparts tbody th a").first
    name = part.text_content()
    part.press("Enter")
    expect(page).to_have_url(re.compile(rf"&part={name}$"))
    heading = page.get_by_role("heading", name=f", {name}: the questions that decide it")
    expect(heading).to_be_in_viewport()
    expect(heading).to_be_focused()
    page.get_by_role("link", name="Order of the file").click()
    expect(page).to_have_url(re.compile(rf"&part={name}&sort=file$"))
    expect(page.get_by_role("link", name="Order of the file")).to_be_focused()
    page.locator(".qs a").first.click()
    expect(page.get_by_role("heading", name=re.compile("^Question "))).to_be_in_viewport()
    page.get_by_text("Add a model", exact=True).click()
    page.get_by_label("Model ID, or part of it").fill("nobody")
    expect(page.locator("#q-problem")).to_contain_text("no other model on this board has “nobody”")
    assert page.evaluate("window.stayed")
