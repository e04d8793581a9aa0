"""The great paths of a reader, from link to link: each page that they pass breaks no rule of
accessibility, and nothing on the way is refused by the content policy.

A picture of many a step is kept: `tests/shots.py` says where.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from evalcore.verify import recount as verify
from leaderboard.models import Run, Suite
from leaderboard.web import background
from tests.browser.conftest import TINY, Open, board_of_130, evaluate_the_rest
from tests.browser.looks import PHONE, WIDE, broken, look_once
from tests.leaderboard import engine_runs
from tests.leaderboard.boards import publish, synthetic_board
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def names_of_rows(page: Page) -> list[str]:
    return page.locator(".board .model a").evaluate_all("links => links.map(link => link.title)")


def navigate(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()


def step_back(page: Page) -> None:
    """Back loads the page anew: for Playwright's own step that is a load that broke off."""
    page.evaluate("document.documentElement.dataset.left = ''; setTimeout(() => history.back())")
    expect(page.locator("html[data-left]")).to_have_count(0)
    page.wait_for_load_state()


def test_the_board_is_searched_filtered_and_walked_with_keys_without_loading_anew(
    visit: Open, large_board: Suite, shot: Shots
) -> None:
    publish(synthetic_board(130, 12, style="mmlu"), large_board)
    page = visit(viewport=WIDE).go("/")
    count = page.locator("#rest").get_by_role("status")
    expect(count).to_have_text("130 models")
    look_once(page, "the board")
    page = visit(viewport=WIDE).go("/")
    count = page.locator("#rest").get_by_role("status")
    page.evaluate("window.notReloaded = true")
    search = page.get_by_label("Search models")
    search.press_sequentially("llama", delay=30)
    expect(page).to_have_url(re.compile(r"/\?q=llama$"))
    found = sum("llama" in model.repo_id.lower() for model in board_of_130().models)
    expect(count).to_have_text(f"{found} of 130")
    expect(page.locator(".board .row")).to_have_count(found)
    page.keyboard.insert_text("-0")  # at once: a pause between two keys would be one more step back
    expect(page).to_have_url(re.compile(r"/\?q=llama-0$"))
    expect(search).to_be_focused()
    expect(search).to_have_value("llama-0")
    page.get_by_role("link", name="MMLU-style").press("Enter")
    expect(page).to_have_url(re.compile(r"/\?style=mmlu&q=llama-0$"))
    expect(page.locator("#style-mmlu")).to_have_attribute("aria-current", "true")
    assert page.evaluate("window.notReloaded")
    step_back(page)
    expect(page.locator("#style-own")).to_have_attribute("aria-current", "true")
    step_back(page)
    expect(page).to_have_url(re.compile(r"/\?q=llama$"))
    expect(search).to_have_value("llama")
    shot(page, "a search")

    filters = page.locator("#sheet > summary")
    filters.press("Enter")
    sheet = page.get_by_role("form", name="Filters")
    sheet.locator("[name=type][value=chat]").check()
    expect(sheet.get_by_role("button", name=re.compile(r"^Show \d+ models?$"))).not_to_have_text(
        f"Show {found} models"
    )
    shot(page, "the filters")
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(filters).to_be_focused()
    filters.press("Enter")
    sheet.get_by_role("button", name="Show").press("Enter")
    expect(page).to_have_url(re.compile(r"/\?q=llama&type=chat$"))
    expect(page.locator("#sheet .count")).to_have_text("1")
    page.evaluate("window.notReloaded = true")
    page.get_by_role("link", name="Type: Chat").press("Enter")
    expect(page).to_have_url(re.compile(r"/\?q=llama$"))
    expect(page.locator("#sheet .count")).to_have_count(0)
    expect(page.locator("#results")).to_be_focused()
    assert page.evaluate("window.notReloaded")

    names = page.locator(".board .model a")
    second = names.nth(1).inner_text()
    page.keyboard.press("j")
    expect(names.nth(0)).to_be_focused()
    for key in ("ArrowDown", "j", "k"):
        page.keyboard.press(key)
    expect(names.nth(1)).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator(".board .tick input:checked")).to_have_count(1)
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile(r"pin=\d+"))
    expect(names.nth(0)).to_have_text(second)
    expect(page.locator(".board .row").nth(0).get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    page.keyboard.type("/j")
    expect(search).to_have_value(re.compile("/j"))
    shot(page, "a pinned model")

    page.get_by_role("link", name="Cloze").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("This board is being built")


def test_the_pages_of_a_model_a_run_a_task_and_of_the_site_lead_to_each_other(
    visit: Open, shot: Shots
) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"]).go("/")
    page.locator(".board .model a").filter(has_text="texts").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("texts")
    look_once(page, "a model")
    shot(page, "a model")
    page.locator("main a[href^='/runs/']:not([data-recount])").first.click()
    expect(page).to_have_title(re.compile("lab/texts on "))
    page.get_by_text("Versions, settings, digests").click()
    page.locator("#pins a[href^='/tasks/']").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("facts", ignore_case=True)
    look_once(page, "a task")
    shot(page, "a task")
    for name, title in (
        ("How it works", "Method"),
        ("Corrections", "Corrections"),
        ("Queue and workers", "Queue"),
        ("Data and API", "About"),
        ("About", "About"),
    ):
        page.get_by_role("navigation", name="More").get_by_role("link", name=name).click()
        expect(page).to_have_title(re.compile(f"{title}.* · Plumbline$"))
    page.get_by_role("link", name="What a board asks").click()
    expect(page).to_have_title("Suites · Plumbline")
    page.get_by_role("link", name="Workshop").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Workshop")
    citation = page.locator("pre[aria-label='BibTeX entry']")
    citation.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == citation.locator("code").inner_text().strip()
    look_once(page, "a suite")


def test_the_questions_of_a_run_are_searched_walked_with_keys_passed_on_and_downloaded(
    visit: Open, shot: Shots, tmp_path: Path
) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"]).go("/")
    page.locator("#style-hybrid").click()
    expect(page).to_have_url(re.compile("style=hybrid"))
    row = page.locator(".board .row").filter(has_text="texts")
    row.locator(".n a").first.click()
    page.evaluate("window.notReloaded = true")
    page.get_by_label("Words in the question").fill("tool number 3")
    page.keyboard.press("Enter")
    expect(page.locator("#browser").get_by_role("status")).to_have_text(
        re.compile(r"11\s+of\s+40 questions")
    )
    expect(page).to_have_url(re.compile(r"\?q=tool\+number\+3(#questions)?$"))
    expect(page.get_by_label("Words in the question")).to_be_focused()
    page.get_by_role("link", name=re.compile("^✗ Wrong")).click()
    expect(page).to_have_url(re.compile(r"q=tool\+number\+3&outcome=wrong"))
    page.locator(".sheet summary").click()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Order")).to_be_hidden()
    expect(page.locator(".sheet summary")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_label("Order").select_option("Most clearly wrong first")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile("sort=wrong"))
    expect(page.locator("#question")).to_contain_text("Wrong: picked")
    shot(page, "its wrong answers")
    page.go_back()
    expect(page).not_to_have_url(re.compile("sort=wrong"))
    expect(page.locator("#sort")).to_have_value("file")
    assert page.evaluate("window.notReloaded")

    page.get_by_role("link", name="Link", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    link = page.evaluate("navigator.clipboard.readText()")
    assert re.search(r"\?doc=\d+#question$", link)
    heading = page.locator("#question-h")
    other = visit()
    elsewhere = other.go(link.removeprefix(other.url))
    expect(elsewhere.locator("#question-h")).to_have_text(heading.inner_text())
    expect(elsewhere.locator("#browser").get_by_role("status")).to_have_text(
        re.compile("^\\s*40 questions")
    )
    elsewhere.goto(elsewhere.url.partition("?")[0] + "?doc=10")
    walk_the_questions(elsewhere)
    look_once(elsewhere, "a run")

    download_the_samples(page, tmp_path)


def walk_the_questions(page: Page) -> None:
    heading, label = page.locator("#question-h"), page.locator("#question .label")
    following = page.get_by_role("link", name="Next:")
    expect(label).to_contain_text("Question 11 ·")
    page.keyboard.press("ArrowRight")
    expect(label).to_contain_text("Question 12 ·")
    expect(heading).to_be_focused()
    following.focus()
    page.keyboard.press("ArrowRight")
    expect(label).to_contain_text("Question 13 ·")
    expect(following).to_be_focused()
    page.keyboard.press("Enter")
    expect(label).to_contain_text("Question 14 ·")
    expect(following).to_be_focused()
    page.get_by_label("Words in the question").focus()
    page.keyboard.press("ArrowLeft")
    expect(label).to_contain_text("Question 14 ·")
    page.get_by_role("link", name="Previous:").focus()
    page.keyboard.press("ArrowLeft")
    expect(label).to_contain_text("Question 13 ·")
    expect(page).to_have_url(re.compile(r"doc=12"))


def download_the_samples(page: Page, folder: Path) -> None:
    names = {
        "Every answer": "lab__texts_facts_hybrid_samples.parquet",
        "lm-evaluation-harness, samples": "lab__texts_facts_hybrid_samples.jsonl",
    }
    for link, name in names.items():
        with page.expect_download() as download:
            page.get_by_role("link", name=link).click()
        assert download.value.suggested_filename == name
        download.value.save_as(folder / name)
    lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    assert [line["doc_id"] for line in lines] == list(range(40))
    score = 100 * sum(line["acc"] for line in lines) / len(lines)
    expect(page.locator("main")).to_contain_text(f"{score:.1f}")


def test_two_models_are_compared_from_the_board_to_a_single_question(
    visit: Open, shot: Shots
) -> None:
    page = visit().go("/")
    for name in ("texts", "letters"):
        page.get_by_label(f"Compare {name}").check()
    page.locator("[data-go]").click()
    expect(page).to_have_url(re.compile(r"/compare\?m=\d+%2C\d+$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(
        re.compile(r"^texts leads letters by [\d.]+ points on Facts$")
    )
    expect(page.get_by_text("Asked the same way")).to_be_visible()
    shot(page, "the comparison")
    only = page.get_by_role("navigation", name="Which questions").get_by_role(
        "link", name=re.compile("^Only A")
    )
    only.click()
    expect(only).to_have_attribute("aria-current", "true")
    label = page.locator(".qs .q-name").first.text_content()
    page.locator(".qs a").first.click()
    expect(page.get_by_role("heading", name=f"Question {label}")).to_be_visible()
    page.get_by_text("Both were sent the same prompt").click()
    expect(page.locator("pre.prompt").first).to_be_visible()
    expect(page.get_by_text(re.compile("^Right: picked"))).to_have_count(1)
    expect(page.get_by_text(re.compile("^Wrong: picked"))).to_have_count(1)
    page.get_by_role("link", name="Permalink").click()
    # The heading stood there before: a permalink is without the filter.
    expect(page).to_have_url(re.compile(r"/compare\?m=\d+%2C\d+&doc=\d+$"))
    expect(page.get_by_role("heading", name=f"Question {label}")).to_be_visible()
    look_once(page, "a question of two models")
    page.get_by_role("link", name="All of it on the run’s page").first.click()
    doc = int(label or "") - 1  # pages count from 1, documents from 0
    expect(page).to_have_url(re.compile(rf"/runs/[0-9a-f-]{{36}}\?doc={doc}#question"))


def test_prompt_styles_are_compared_with_keys_alone(
    visit: Open, three_benchmarks: Suite, shot: Shots
) -> None:
    page = visit().go("/")
    navigate(page, "Prompt styles")
    page.get_by_label("To", exact=True).focus()
    page.keyboard.type("Hybrid")
    page.get_by_label("Ordered by").focus()
    page.keyboard.type("Riddles")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/styles\?benchmark=riddles&b=hybrid$"))
    expect(page.get_by_role("heading", name="from Cloze to Hybrid")).to_be_visible()
    page.get_by_label("Search models").focus()
    page.keyboard.type("letters")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?benchmark=riddles&b=hybrid&q=letters$"))
    expect(page.locator(".bystyle tbody tr")).to_have_count(1)
    page.get_by_role("link", name="split the variance of letters-7b").press("Enter")
    expect(page.get_by_role("heading", name="Where letters-7b’s answers differ")).to_be_visible()
    look_once(page, "styles")
    shot(page, "one model in two styles")
    page.locator(".bystyle td.n a").first.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-f-]{36}$"))


def test_the_images_of_a_question_are_seen_and_fit_a_wide_and_a_narrow_window(
    visit: Open, tmp_path: Path, shot: Shots
) -> None:
    run = engine_runs.seen(tmp_path)
    window = visit(viewport=WIDE)
    for doc in (1, 2):
        page = window.go(f"/runs/{run.pk}?doc={doc}#question")
        for size in (WIDE, PHONE):
            page.set_viewport_size(size)
            images = page.locator(".media img")
            assert images.count() == doc
            for image in images.all():
                complete, own_width, width = image.evaluate(
                    "i => [i.complete, i.naturalWidth, i.clientWidth]"
                )
                assert complete
                assert own_width == width > 0
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert broken(page, within="#question") == []
            shot(page, f"question {doc}, {size['width']} wide")
        page.set_viewport_size(WIDE)


def test_all_of_it_works_without_javascript(
    visit: Open, site: Suite, shot: Shots, tmp_path: Path
) -> None:
    page = visit(java_script_enabled=False).go("/")
    navigate(page, "Submit")
    page.get_by_label("Model on the Hub").fill("awkward/no-tokenizer")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#model-problem")).to_contain_text("no tokenizer files")
    expect(page.get_by_label("Model on the Hub")).to_have_value("awkward/no-tokenizer")
    assert "token" not in page.url.replace("no-tokenizer", "")
    page.get_by_label("Model on the Hub").fill(TINY)
    page.locator("#unusual > summary").click()
    page.get_by_label("Revision").fill("v9")
    page.locator("#submit-button").click()
    expect(page).to_have_title("Not submitted: Submit a model · Plumbline")
    expect(page.get_by_label("Revision")).to_be_focused()
    page.get_by_label("Revision").fill("")
    page.locator("#submit-button").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("tiny-llama")
    evaluate_the_rest(site)
    page.reload()
    expect(page.locator("#live")).not_to_contain_text("waits")

    navigate(page, "Board")
    page.get_by_label("Search models").fill("texts; tiny")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/\?q=texts%3B\+tiny$"))
    assert sorted(names_of_rows(page)) == [TINY, "lab/texts"]
    shot(page, "two models are left")
    page.locator("summary[aria-label='Download the board']").click()
    page.get_by_role("link", name="Link to exactly this view").click()
    other = visit(viewport=PHONE, color_scheme="dark")
    assert names_of_rows(other.go(page.url.removeprefix(other.url))) == names_of_rows(page)
    for name in ("texts", "tiny-llama"):
        page.get_by_label(f"Compare {name}").first.check()
    page.locator("[data-go]").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("texts")
    navigate(page, "Prompt styles")
    expect(page.locator(".bystyle tbody tr").filter(has_text="tiny-llama")).to_have_count(1)

    navigate(page, "Board")
    page.locator(".board .row").filter(has_text="texts").locator(".n a").first.click()
    page.get_by_role("link", name=re.compile("^✗ Wrong")).click()
    expect(page.locator("#question")).to_contain_text("Wrong: picked")
    with page.expect_download() as download:
        page.get_by_role("link", name="lm-evaluation-harness, samples").click()
    assert download.value.suggested_filename == "lab__texts_facts_samples.jsonl"
    download.value.save_as(tmp_path / "samples.jsonl")
    assert len((tmp_path / "samples.jsonl").read_text().splitlines()) == 40


def test_a_count_that_takes_long_comes_to_its_page_with_and_without_script(
    visit: Open, site: Suite, monkeypatch: pytest.MonkeyPatch, shot: Shots
) -> None:
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 0.1)
    count = verify.recount

    def count_slowly(*arguments: Any, **options: Any) -> Any:
        time.sleep(2.5)
        return count(*arguments, **options)

    monkeypatch.setattr(verify, "recount", count_slowly)
    first, second = Run.objects.filter(state="done").order_by("pk")[:2]
    for run, script in ((first, True), (second, False)):
        page = visit(java_script_enabled=script).go(f"/runs/{run.pk}/recount")
        expect(page.locator("#counted")).to_contain_text("Counting the stored answers")
        if script:
            shot(page, "it is being counted")
        expect(page.locator("#counted")).to_contain_text("What was counted")
        expect(page.locator("#counted")).not_to_contain_text("Counting")
