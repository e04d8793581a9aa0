"""The form as people use it: what is typed last counts, and remarks are no mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from leaderboard.models import Suite, User
from tests.browser.conftest import Open
from tests.hub import Orders
from tests.leaderboard import factories as make

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


def test_a_name_alone_leads_to_its_model_and_the_black_button_is_what_helps(visit: Open) -> None:
    page = visit().go("/submit")
    expect(page.locator("#what")).to_be_visible()
    page.get_by_label("Model ID").fill("tiny-llama")
    page.keyboard.press("Tab")
    expect(page.locator("#check-button")).to_have_class("btn primary")
    expect(page.locator("#submit-button")).to_have_class("btn")
    expect(page.locator("#what")).to_have_count(0)
    page.get_by_role("link", name=TINY).click()
    expect(page.get_by_label("Model ID")).to_have_value(TINY)
    expect(page.get_by_text("Ready to submit.")).to_be_visible()
    expect(page.locator("#submit-button")).to_have_class("btn primary")
    expect(page.locator("#what")).to_be_visible()


def test_the_live_check_says_when_it_has_to_wait(
    visit: Open, settings: Any, one_minute: None
) -> None:
    settings.PLUMBLINE_CHECKS_PER_MINUTE = 1
    page = visit().go(f"/submit?model={TINY}")
    page.get_by_label("Model ID").fill("awkward/sharded")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Not now.")).to_be_visible()
    expect(page.get_by_label("Model ID")).to_have_value("awkward/sharded")


def test_the_title_of_a_submission_follows_its_runs(visit: Open, site: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/followed"), site)
    window = visit()
    page = window.go(f"/submissions/{submission.pk}")
    expect(page).to_have_title(re.compile(r"^0 of 3 done: lab/followed"))
    for run in submission.runs.all():
        make.finish(run, skill=0.9)
    expect(page).to_have_title(re.compile(r"^Done: lab/followed"))
    make.publish(site)
    expect(page).to_have_title(re.compile(r"^Rank \d+: lab/followed"))
    expect(page.get_by_text(re.compile(r"^\s*Rank \d+ \("))).to_be_visible()
    assert window.complaints == []
