"""The sample browser in Chromium: browse, filter, pass on, download; without JavaScript, too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from leaderboard.models import Run
from tests.browser.conftest import Open
from tests.browser.rules import WCAG_AA, broken_unfolded

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def address() -> str:
    """A run with 20 or so wrong answers of 40."""
    run = Run.objects.filter(state="done", variant__hub_model__repo_id="lab/texts")
    return f"/runs/{run.get(task__style='hybrid').pk}"


def first_listed(page: Page) -> str:
    number = page.get_by_role("navigation", name="Questions").locator("li .meta").first
    return number.inner_text()


def test_a_search_swaps_the_list_in_place_and_goes_into_the_address(visit: Open) -> None:
    window = visit()
    page = window.go(address())
    page.evaluate("window.notReloaded = true")
    page.get_by_label("Words in the question").fill("tool number 3")
    page.keyboard.press("Enter")
    expect(page.locator("#browser").get_by_role("status")).to_have_text(
        re.compile(r"11\s+of\s+40 questions")
    )
    expect(page).to_have_url(re.compile(r"\?q=tool\+number\+3(#questions)?$"))
    expect(page.get_by_label("Words in the question")).to_be_focused()
    page.get_by_text("Wrong", exact=False).locator("visible=true").first.click()
    expect(page).to_have_url(re.compile(r"q=tool\+number\+3&outcome=wrong"))
    page.get_by_label("Order").select_option("Most clearly wrong first")
    expect(page).to_have_url(re.compile("sort=wrong"))
    expect(page.locator("#question")).to_contain_text("Wrong: picked")
    assert page.evaluate("window.notReloaded")
    page.go_back()
    expect(page).not_to_have_url(re.compile("sort=wrong"))
    expect(page.get_by_label("Order")).to_have_value("file")
    assert window.complaints == []


def test_from_the_list_to_a_permalink_that_somebody_else_can_open(visit: Open) -> None:
    page = visit().go(f"{address()}?outcome=wrong&sort=close")
    page.get_by_role("link", name="Next:").click()
    expect(page.locator("#question")).to_contain_text("2 of")
    asked = page.locator("#question-h").inner_text()
    page.get_by_role("link", name="Permalink").click()
    expect(page).to_have_url(re.compile(r"\?doc=\d+#question$"))
    other = visit().go(page.url.removeprefix(visit().url))
    expect(other.locator("#question-h")).to_have_text(asked)
    expect(other.locator("#browser").get_by_role("status")).to_have_text(
        re.compile("^\\s*40 questions")
    )


def test_keys_lead_from_question_to_question_and_the_focus_stays(visit: Open) -> None:
    window = visit()
    page = window.go(f"{address()}?doc=10")
    page.evaluate("window.notReloaded = true")
    heading = page.locator("#question-h")
    expect(heading).to_have_text("Question 11")
    page.keyboard.press("ArrowRight")
    expect(heading).to_have_text("Question 12")
    expect(heading).to_be_focused()
    page.get_by_role("link", name="Next:").focus()
    page.keyboard.press("ArrowRight")
    expect(heading).to_have_text("Question 13")
    expect(page.get_by_role("link", name="Next:")).to_be_focused()
    page.keyboard.press("Enter")
    expect(heading).to_have_text("Question 14")
    expect(page.get_by_role("link", name="Next:")).to_be_focused()
    page.get_by_label("Words in the question").focus()
    page.keyboard.press("ArrowLeft")
    expect(heading).to_have_text("Question 14")
    page.get_by_role("link", name="Previous:").focus()
    page.keyboard.press("ArrowLeft")
    expect(heading).to_have_text("Question 13")
    expect(page).to_have_url(re.compile(r"doc=12"))
    assert page.evaluate("window.notReloaded")
    assert window.complaints == []


def test_who_goes_on_at_once_stays_on_the_page(visit: Open) -> None:
    window = visit()
    page = window.go(f"{address()}?doc=10")
    page.evaluate(
        """() => {
          window.notReloaded = true;
          const goOn = () => document.getElementById('question-after').click();
          const shown = () => queueMicrotask(goOn);
          document.addEventListener('htmx:afterSwap', shown, { once: true });
        }"""
    )
    page.keyboard.press("ArrowRight")
    expect(page.locator("#question-h")).to_have_text("Question 13")
    assert page.evaluate("window.notReloaded")
    assert window.complaints == []


def test_every_download_arrives_under_its_name(visit: Open, tmp_path: Path) -> None:
    page = visit().go(address())
    names = {
        "Every answer as Parquet": "lab__texts_facts_hybrid_samples.parquet",
        "lm-evaluation-harness, samples as JSONL": "lab__texts_facts_hybrid_samples.jsonl",
    }
    for link, name in names.items():
        with page.expect_download() as download:
            page.get_by_role("link", name=link).click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
    lines = (tmp_path / names.popitem()[1]).read_text().splitlines()
    assert [json.loads(line)["doc_id"] for line in lines] == list(range(40))


def test_the_same_without_javascript(visit: Open) -> None:
    page = visit(java_script_enabled=False).go(address())
    page.get_by_label("Words in the question").fill("beside the")
    page.get_by_label("Part", exact=True).select_option("tools")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile(r"\?q=beside\+the&subset=tools#questions$"))
    expect(page.locator("#browser").get_by_role("status")).to_have_text(
        re.compile(r"14\s+of\s+40 questions")
    )
    page.get_by_role("link", name="Show white space").click()
    expect(page.locator("#question")).to_contain_text("number·0·hangs")
    page.get_by_text("2 worked examples").click()
    expect(page.get_by_text("Worked·example·1")).to_be_visible()
    page.get_by_text("Loglikelihoods token by token").click()
    expect(page.get_by_text("where its text was not kept")).to_be_visible()
    page.get_by_role("link", name="Remove the filter “beside the”").click()
    expect(page).to_have_url(re.compile(r"\?subset=tools&spaces=1#questions$"))
    page.get_by_label("At least so many tokens").fill("9999")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="No question passes all 2 filters")).to_be_visible()
    page.get_by_role("link", name="Drop from 9999 tokens").click()
    assert first_listed(page) == "1"


@pytest.mark.parametrize("look", [{}, {"viewport": {"width": 390, "height": 844}}])
@pytest.mark.parametrize("query", ["q=zebra&outcome=wrong&from=x", "spaces=1&q=hangs&sort=close"])
def test_no_state_of_the_browser_breaks_a_rule_of_wcag_aa(
    visit: Open, look: dict[str, object], query: str
) -> None:
    for scheme in ("light", "dark"):
        window = visit(**look, color_scheme=scheme)
        page = window.go(f"{address()}?{query}")
        assert broken_unfolded(page, **WCAG_AA) == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert window.complaints == []
