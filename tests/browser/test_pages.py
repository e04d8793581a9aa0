"""The site in a browser: what fits its window, what moves by itself, and what stays."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from leaderboard.models import Run, Submission, Suite
from leaderboard.queue import claims
from tests.browser.conftest import Open
from tests.leaderboard import factories as make

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TINY = "awkward/tiny-llama"
PHONE = {"viewport": {"width": 390, "height": 844}}


def addresses() -> dict[str, str]:
    done, failed, running = (
        Run.objects.filter(state=state).order_by("task__name").first()
        for state in ("done", "failed", "running")
    )
    submission = Submission.objects.first()
    assert done
    assert failed
    assert running
    assert submission
    return {
        "board": "/",
        "mmlu": "/?style=mmlu",
        "nothing found": "/?q=nothing",
        "styles": "/styles",
        "form": "/submit",
        "problem": "/submit?model=not+a+model",
        "ready": f"/submit?model={TINY}",
        "queue": "/queue",
        "model": "/models/lab/unlucky",
        "done": f"/runs/{done.pk}",
        "question": f"/runs/{done.pk}?outcome=wrong",
        "failed": f"/runs/{failed.pk}",
        "running": f"/runs/{running.pk}",
        "submission": f"/submissions/{submission.pk}",
        "sign in": "/accounts/login",
    }


LOOKS: list[Any] = [
    pytest.param({}, id="wide"),
    pytest.param({"color_scheme": "dark"}, id="dark"),
    pytest.param(PHONE, id="phone"),
    pytest.param({**PHONE, "color_scheme": "dark"}, id="phone in the dark"),
]


@pytest.mark.parametrize("look", LOOKS)
def test_no_page_is_wider_than_its_window_or_has_anything_to_complain_of(
    visit: Open, look: dict[str, Any]
) -> None:
    window = visit(**look)
    for name, address in addresses().items():
        page = window.go(address)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, (name, wider)
    assert window.complaints == []


def test_a_guess_how_long_runs_wait_fits_a_phone(visit: Open, site: Suite) -> None:
    Run.objects.all().delete()
    entry, began = site.entries.all()[0], timezone.now() - timedelta(days=3)
    old, *_ = (make.queued_run(make.make_variant(f"lab/m{n}"), entry) for n in range(3))
    Run.objects.filter(pk=old.pk).update(
        state="done",
        worker=make.make_worker(),
        started=began,
        finished=began + timedelta(minutes=12),
    )
    page = visit(**PHONE).go("/queue")
    waiting = page.locator("#waiting").locator("xpath=ancestor::section")
    expect(waiting.get_by_text("a guess: too few such runs are known").last).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_form_by_keyboard_from_check_to_submission(visit: Open) -> None:
    page = visit().go("/submit")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Model ID")).to_be_focused()
    page.keyboard.type("awkward/no-tokenizer")
    page.keyboard.press("Tab")
    expect(page.locator("#model-problem")).to_contain_text("no tokenizer files")
    expect(page.get_by_label("Model ID")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Revision")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type(TINY)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Ready to submit.")).to_be_visible()
    expect(page.locator("#model-problem")).to_be_empty()
    expect(page.get_by_label("Model ID")).not_to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Submit").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/submissions/[0-9a-f-]{36}$"))
    assert Submission.objects.filter(variant__hub_model__repo_id=TINY).exists()
    assert not [url for url in asked if "csrf" in url]


def test_progress_moves_by_itself_and_ends_with_a_way_to_the_result(visit: Open) -> None:
    run = Run.objects.get(state="running")
    page = visit().go(f"/runs/{run.pk}")
    expect(page.get_by_text("30 of 160 requests answered")).to_be_visible()
    assert run.lease_token is not None
    claims.report(run.lease_token, run, phase="evaluate", done=90, total=160)
    expect(page.get_by_text("90 of 160 requests answered")).to_be_visible()
    claims.fail(run.lease_token, run, error_class="ModelError", message="token 9 has no vector")
    expect(page.get_by_text("token 9 has no vector").first).to_be_visible()


def test_a_refresh_waits_while_somebody_is_in_the_part_that_changes(visit: Open) -> None:
    run = Run.objects.get(state="running")
    page = visit().go("/queue")
    link = page.locator("#refresh")
    link.focus()
    assert run.lease_token is not None
    claims.report(run.lease_token, run, phase="evaluate", done=90, total=160)
    page.wait_for_timeout(5000)
    expect(link).to_be_focused()
    expect(page.get_by_text("30 of 160 requests")).to_be_visible()
    page.get_by_role("link", name="Board").focus()
    expect(page.get_by_text("90 of 160 requests")).to_be_visible()


def test_the_theme_is_remembered_without_an_account(visit: Open) -> None:
    page = visit().go("/")
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_on_a_phone_every_control_can_be_hit(visit: Open) -> None:
    page = visit(**PHONE).go("/submit")
    for control in page.locator("main :is(.in, .btn)").all():
        box = control.bounding_box()
        assert box is not None
        assert box["height"] >= 44


def test_one_click_selects_a_whole_digest(visit: Open) -> None:
    page = visit().go(addresses()["done"])
    digest = page.locator("code.digest").first
    digest.click()
    selected = page.evaluate("getSelection().toString()")
    assert selected == digest.get_attribute("title")
    assert len(selected) == 64
