"""Each path that a reader takes, from link to link and never by typing an address.

A picture of every step is kept: CONTRIBUTING.md says where.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from leaderboard.models import Run, Submission, Suite
from tests.browser.conftest import Open
from tests.leaderboard import factories as make
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TINY = "awkward/tiny-llama"
PHONE = {"viewport": {"width": 390, "height": 844}}


def rows(page: Page) -> list[str]:
    return page.locator(".board tbody .mid").all_inner_texts()


def navigate(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()


def evaluate_the_rest(suite: Suite) -> None:
    """What the workers do with a submission of the tiny model."""
    for run in Submission.objects.get(variant__hub_model__repo_id=TINY).runs.exclude(state="done"):
        if run.state == "running":
            Run.objects.filter(pk=run.pk).update(state="queued", lease_token=None, attempt=0)
            run.refresh_from_db()
        make.finish(run, skill=0.7)
    make.publish(suite)


def test_submit_and_follow(visit: Open, site: Suite, shot: Shots) -> None:
    window = visit()
    page = window.go("/")
    navigate(page, "Submit")
    page.get_by_label("Model ID").fill(TINY)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Ready to submit.")).to_be_visible()
    shot(page, "the form is checked")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("tiny-llama")
    expect(page.locator("#live")).to_contain_text("queued", ignore_case=True)
    shot(page, "it waits")
    submission = Submission.objects.get(variant__hub_model__repo_id=TINY)
    make.start(submission.runs.order_by("task__name")[0], 30, 160)
    expect(page.locator("#live")).to_contain_text("running", ignore_case=True)
    shot(page, "it runs")
    evaluate_the_rest(site)
    expect(page.locator("#live")).not_to_have_attribute("data-refreshed", "")
    shot(page, "it is done")
    navigate(page, "Queue")
    expect(page.get_by_role("main")).to_contain_text("tiny-llama")
    shot(page, "the queue")
    navigate(page, "Board")
    expect(page.locator(".board .mid").filter(has_text="tiny-llama")).to_have_count(1)
    shot(page, "its row")
    assert window.complaints == []


def test_browse(visit: Open, shot: Shots) -> None:
    window = visit()
    page = window.go("/")
    shot(page, "the board")
    page.locator(".board .mid").filter(has_text="texts").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("texts")
    shot(page, "a model")
    page.locator("main a[href^='/runs/']").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("texts")
    shot(page, "a run")
    page.locator("main a[href^='/tasks/']").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("facts", ignore_case=True)
    shot(page, "a task")
    for name in ("Method", "Workers", "Changelog", "About", "Suites"):
        page.get_by_role("navigation", name="More").get_by_role("link", name=name).click()
        expect(page).to_have_title(re.compile(f"{name}.* · Plumbline$"))
        shot(page, name.lower())
    page.get_by_role("link", name="Workshop").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Workshop")
    shot(page, "the suite")
    assert window.complaints == []


def test_filter(visit: Open, shot: Shots) -> None:
    window = visit()
    # A model whose every run of a style failed has no row in that style.
    everyone = rows(window.go("/?style=mmlu"))
    page = window.go("/")
    page.get_by_label("Search").press_sequentially("letters", delay=20)
    expect(page).to_have_url(re.compile(r"/\?q=letters$"))
    expect(page.locator(".board tbody .mid")).to_have_text(["lab/letters"])
    shot(page, "one model is left")
    page.get_by_label("MMLU-style").first.check(force=True)
    expect(page).to_have_url(re.compile("style=mmlu"))
    expect(page.locator(".board tbody .mid")).to_have_text(["lab/letters"])
    shot(page, "in another style")
    page.get_by_label("Search").fill("nobody")
    expect(page.locator(".board tbody .mid")).to_have_count(0)
    shot(page, "nothing is left")
    page.locator("#results").get_by_role("link", name="nobody").first.click()
    expect(page.locator(".board tbody .mid")).to_have_count(len(everyone))
    assert sorted(rows(page)) == sorted(everyone)
    shot(page, "the filter is gone")
    assert window.complaints == []


def test_share_a_url(visit: Open, shot: Shots) -> None:
    page = visit().go("/")
    page.get_by_label("Search").fill("lab")
    expect(page).to_have_url(re.compile(r"/\?q=lab$"))
    page.get_by_role("link", name="Pin letters").click()
    expect(page.locator(".pinned .mid")).to_have_text("lab/letters")
    page.locator("#menu-download summary").click()
    page.get_by_role("link", name="Link to exactly this view").click()
    page.wait_for_load_state()
    shot(page, "what is shared")
    mine = rows(page)
    window = visit(**PHONE, color_scheme="dark", java_script_enabled=False)
    other = window.go(page.url.removeprefix(window.url))
    assert rows(other) == mine
    expect(other.locator(".pinned .mid")).to_have_text("lab/letters")
    expect(other.get_by_label("Search")).to_have_value("lab")
    shot(other, "what somebody else sees")


def test_compare(visit: Open, shot: Shots) -> None:
    window = visit()
    page = window.go("/")
    for name in ("texts", "letters"):
        page.get_by_label(f"Compare {name}").check()
    shot(page, "two are ticked")
    page.get_by_role("button", name="Compare the ticked models").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("texts")
    shot(page, "the comparison")
    page.locator(".parting tbody th a").first.click()
    expect(page.get_by_role("heading", name=re.compile("^Question "))).to_be_visible()
    shot(page, "a question where they part")
    assert window.complaints == []


def test_styles(visit: Open, shot: Shots) -> None:
    window = visit()
    page = window.go("/")
    navigate(page, "Prompt styles")
    shot(page, "every style")
    page.get_by_label("To", exact=True).select_option(label="Hybrid")
    expect(page).to_have_url(re.compile("b=hybrid"))
    expect(page.locator("#order-head")).to_contain_text("Hybrid")
    shot(page, "another pair of styles")
    page.locator(".bystyle td.score a").first.click()
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-f-]{36}$"))
    shot(page, "the run behind a number")
    assert window.complaints == []


def test_download_the_samples(visit: Open, shot: Shots, tmp_path: Path) -> None:
    page = visit().go("/")
    page.locator(".board tbody td.score a").first.click()
    shot(page, "the run")
    with page.expect_download() as download:
        page.get_by_role("link", name="lm-evaluation-harness, samples as JSONL").click()
    file = tmp_path / "samples.jsonl"
    download.value.save_as(file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    right = sum(line["acc"] for line in lines)
    expect(page.locator("main")).to_contain_text(f"{100 * right / len(lines):.1f}")
    page.get_by_role("radio", name="Wrong").check()
    expect(page.get_by_role("status").filter(has_text="questions")).to_have_text(
        re.compile(rf"{len(lines) - int(right)}\s+of\s+{len(lines)} questions")
    )
    shot(page, "its wrong answers")


def test_without_javascript(visit: Open, site: Suite, shot: Shots, tmp_path: Path) -> None:
    page = visit(java_script_enabled=False).go("/")
    shot(page, "the board")
    navigate(page, "Submit")
    page.get_by_label("Model ID").fill("awkward/no-tokenizer")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#model-problem")).to_contain_text("no tokenizer files")
    expect(page.get_by_label("Model ID")).to_have_value("awkward/no-tokenizer")
    assert "token" not in page.url.replace("no-tokenizer", "")
    shot(page, "a model that cannot be evaluated")
    page.get_by_label("Model ID").fill(TINY)
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("tiny-llama")
    shot(page, "it waits")
    evaluate_the_rest(site)
    page.reload()
    expect(page.locator("#live")).not_to_contain_text("queued", ignore_case=True)
    shot(page, "it is done")
    navigate(page, "Board")
    page.get_by_label("Search").fill("texts; tiny")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile(r"/\?q=texts%3B\+tiny$"))
    assert sorted(rows(page)) == [TINY, "lab/texts"]
    shot(page, "two models are left")
    other = visit(java_script_enabled=False)
    assert rows(other.go(page.url.removeprefix(other.url))) == rows(page)
    for name in ("texts", "tiny-llama"):
        page.get_by_label(f"Compare {name}").check()
    page.get_by_role("button", name="Compare the ticked models").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("texts")
    shot(page, "the comparison")
    navigate(page, "Prompt styles")
    expect(page.locator(".bystyle tbody tr").filter(has_text="tiny-llama")).to_have_count(1)
    shot(page, "every style")
    navigate(page, "Board")
    page.locator(".board tbody tr").filter(has_text="lab/texts").locator("td.score a").first.click()
    page.get_by_role("radio", name="Wrong").check()
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#question")).to_contain_text("Wrong: picked")
    shot(page, "its wrong answers")
    with page.expect_download() as download:
        page.get_by_role("link", name="lm-evaluation-harness, samples").click()
    assert download.value.suggested_filename == "lab__texts_facts_samples.jsonl"
    download.value.save_as(tmp_path / "samples.jsonl")
    assert len((tmp_path / "samples.jsonl").read_text().splitlines()) == 40
