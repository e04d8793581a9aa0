"""The form as people use it: what is typed last counts, and remarks are no mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from leaderboard.models import User
from tests.browser.conftest import Open
from tests.hub import Orders

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TINY = "awkward/tiny-llama"


def test_signing_in_right_after_typing_loses_nothing(visit: Open, settings: Any) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = False
    User.objects.create_user("ada", password="plumb and line")
    page = visit().go("/submit")
    page.get_by_label("Model ID").fill(TINY)
    page.get_by_label("Precision").select_option("float16")
    page.get_by_role("button", name="Sign in to submit").click()
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill("plumb and line")
    page.get_by_label("Password").press("Enter")
    expect(page.get_by_label("Model ID")).to_have_value(TINY)
    expect(page.get_by_label("Precision")).to_have_value("float16")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_visible()


def test_the_live_check_tells_of_the_hubs_trouble_without_blaming_the_field(
    visit: Open, hub: Callable[[Orders], None]
) -> None:
    hub([{"match": "/api/models/*", "status": 503}])
    page = visit().go("/submit")
    page.get_by_label("Model ID").fill(TINY)
    page.keyboard.press("Tab")
    expect(page.locator("#model-problem")).to_contain_text("answered with an error (503)")
    expect(page.get_by_label("Model ID")).not_to_have_attribute("aria-invalid", "true")


def test_the_live_check_leads_to_what_is_here_already(visit: Open) -> None:
    window = visit()
    page = window.go("/submit")
    page.get_by_label("Model ID").fill(TINY)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/submissions/"))
    submission = page.url
    page = window.go("/submit")
    page.get_by_label("Model ID").fill(TINY)
    page.keyboard.press("Tab")
    expect(page.get_by_label("Model ID")).not_to_have_attribute("aria-invalid", "true")
    page.locator("#model-problem").get_by_role("link").click()
    expect(page).to_have_url(submission)


@pytest.mark.parametrize("script", [True, False])
def test_a_refused_form_has_the_focus_where_something_has_to_change(
    visit: Open, script: bool
) -> None:
    page = visit(java_script_enabled=script).go("/submit")
    page.get_by_label("Model ID").fill(TINY)
    page.get_by_label("Revision").fill("v9")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_title("Not submitted: Submit a model · Plumbline")
    expect(page.get_by_label("Revision")).to_be_focused()
