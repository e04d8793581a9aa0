"""The board in a browser: filters in place, keys, pins, and all of it without JavaScript."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from leaderboard.models import Suite
from tests.browser.conftest import Open
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
BOARD = synthetic_board(130, 12)


@pytest.fixture(autouse=True)
def board(site: Suite, settings: Any) -> None:
    """130 models on 12 benchmarks, beside the site's own suite."""
    settings.PLUMBLINE_SUITE = "synthetic"
    publish(BOARD, make.make_suite("synthetic"))


CUT_IN_ITSELF = "cell => cell.scrollWidth - cell.clientWidth"


def models(page: Page) -> list[str]:
    return page.locator(".board tbody .mid").all_inner_texts()


def test_typing_a_search_swaps_the_table_and_keeps_the_typing(visit: Open) -> None:
    window = visit()
    page = window.go("/")
    expect(page.locator("#hits")).to_have_text("130 models of 130")
    page.evaluate("window.same = true")
    search = page.get_by_label("Search")
    search.press_sequentially("llama", delay=30)
    expect(page).to_have_url(re.compile(r"/\?q=llama$"))
    found = sum("llama" in model.repo_id.lower() for model in BOARD.models)
    expect(page.locator("#hits")).to_have_text(f"{found} models of 130")
    expect(page.locator(".board tbody .mid")).to_have_count(found)
    page.keyboard.insert_text("-0")  # at once: a pause between two keys would be one more step back
    expect(page).to_have_url(re.compile(r"/\?q=llama-0$"))
    expect(search).to_be_focused()
    expect(search).to_have_value("llama-0")
    assert page.evaluate("window.same")
    page.go_back()
    expect(page).to_have_url(re.compile(r"/\?q=llama$"))
    expect(page.get_by_label("Search")).to_have_value("llama")
    assert window.complaints == []


def test_a_newer_choice_does_not_wait_for_an_older_one(visit: Open) -> None:
    window = visit()
    page = window.go("/")
    page.evaluate("window.same = true")
    window.never_answers(re.compile("sort=model"))
    with page.expect_request(re.compile("sort=model")):
        page.get_by_role("link", name="Model", exact=True).click()
    page.locator("#menu-type summary").click()
    page.locator("#menu-type").get_by_text("Chat").click()
    expect(page).to_have_url(re.compile(r"/\?type=chat$"))
    window.never_answers(re.compile("q=llama"))
    with page.expect_request(re.compile("q=llama")):
        page.get_by_label("Search").fill("llama")
    page.get_by_role("link", name="Remove filter: Type: Chat").click()
    expect(page).to_have_url(re.compile(r"/$"))
    expect(page.locator("#hits")).to_have_text("130 models of 130")
    assert page.evaluate("window.same")
    assert window.complaints == []


def test_filters_are_chosen_in_menus_and_dropped_with_one_click(visit: Open) -> None:
    page = visit().go("/")
    page.locator("#menu-type summary").click()
    page.locator("#menu-type").get_by_text("Chat").click()
    expect(page).to_have_url(re.compile(r"/\?type=chat$"))
    expect(page.locator("#menu-type summary")).to_contain_text("Chat")
    page.keyboard.press("Escape")
    expect(page.locator("#menu-type summary")).to_be_focused()
    page.get_by_role("link", name="Remove filter: Type: Chat").click()
    expect(page).to_have_url(re.compile(r"/$"))
    expect(page.locator("#menu-type summary")).to_contain_text("All")
    expect(page.locator("#results")).to_be_focused()


def test_a_slider_sets_a_size_that_both_numbers_show(visit: Open) -> None:
    page = visit().go("/")
    page.get_by_role("slider", name="Largest size").fill("50")
    expect(page).to_have_url(re.compile(r"/\?size=-[0-9.]+$"))
    largest = page.get_by_label("Largest size in billions of parameters").input_value()
    assert page.url.endswith(f"?size=-{largest}")
    expect(page.locator("#hits")).not_to_have_text("130 models of 130")


def test_columns_are_picked_and_the_page_says_what_that_costs(visit: Open) -> None:
    page = visit().go("/")
    expect(page.locator(".board .band").first).to_be_visible()
    page.locator("#menu-columns summary").click()
    for column in ("Bench 2", "Bench 3", "Bench 4"):
        page.locator(".picker").get_by_label(column).uncheck()
    page.get_by_role("button", name="Show these").click()
    expect(page.locator(".own-choice")).to_contain_text("It has no ranks and no bands")
    expect(page.locator(".board thead .score")).to_have_count(8)
    expect(page.locator(".board .band")).to_have_count(0)
    page.get_by_role("link", name="Back to the suite’s own average").click()
    expect(page.locator(".board thead .score")).to_have_count(11)
    expect(page).to_have_url(re.compile(r"/$"))


def test_rows_are_walked_pinned_and_ticked_by_keys(visit: Open) -> None:
    page = visit().go("/")
    names = page.locator(".board tbody .mid")
    second = names.nth(1).inner_text()
    page.locator(".boardscroll").focus()
    page.keyboard.press("j")
    expect(names.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(names.nth(1)).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator(".board tbody .c1 input:checked")).to_have_count(1)
    page.keyboard.press("p")
    expect(page.locator(".pinned .mid")).to_have_text(second)
    expect(page.locator(".pinned .mid")).to_be_focused()
    expect(page.locator(".pinned .c1 input")).to_be_checked()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("/j")
    expect(page.get_by_label("Search")).to_have_value("/j")


def test_single_keys_can_be_turned_off(visit: Open) -> None:
    page = visit().go("/")
    page.get_by_text("Keyboard").click()
    page.get_by_label("Single keys work on this site").uncheck()
    page.reload()
    page.locator(".board tbody .mid").first.focus()
    page.keyboard.press("j")
    page.keyboard.press("/")
    expect(page.locator(".board tbody .mid").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".board tbody .mid").nth(1)).to_be_focused()


def test_ticks_survive_other_pages_and_lead_to_the_comparison(visit: Open) -> None:
    page = visit().go("/")
    first = models(page)[0]
    page.get_by_label(f"Compare {first.partition('/')[2]}").check()
    page.get_by_role("link", name="Page 2").click()
    expect(page).to_have_url(re.compile(r"page=2&m=\d+$"))
    expect(page.get_by_role("link", name=f"Untick {first}")).to_be_visible()
    second = models(page)[3]
    page.get_by_label(f"Compare {second.partition('/')[2]}").check()
    ticked = {model.variant for model in BOARD.models if model.repo_id in (first, second)}
    with page.expect_request(re.compile("/compare")) as asked:
        page.get_by_role("button", name="Compare the ticked models").click()
    assert set(map(int, re.findall(r"m=(\d+)", asked.value.url))) == ticked


def test_an_unticked_model_of_another_page_is_gone(visit: Open) -> None:
    page = visit().go(f"/?page=2&m={BOARD.models[0].variant}")
    page.get_by_role("link", name=re.compile("^Untick")).click()
    expect(page).to_have_url(re.compile(r"/\?page=2$"))
    expect(page.get_by_role("link", name=re.compile("^Untick"))).to_have_count(0)


def test_head_and_pinned_rows_stay_in_sight(visit: Open) -> None:
    page = visit(viewport={"width": 1440, "height": 800}).go(f"/?pin={BOARD.models[9].variant}")
    page.mouse.wheel(0, 1500)
    page.wait_for_function("scrollY > 1000")
    for part in (".board thead", ".board .pinned tr"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 140, part


def test_a_deep_link_brings_its_row_into_sight(visit: Open) -> None:
    model = BOARD.models[77]
    page = visit(viewport={"width": 1440, "height": 800}).go(f"/?at_model={model.repo_id}")
    row = page.locator(f"#m{model.variant}")
    expect(row).to_be_in_viewport()
    expect(row).to_have_class(re.compile("marked"))


# Where a row begins and ends, and how far its contents reach beyond its cells.
ROWS = """() => [...document.querySelectorAll(".board tbody tr:not(.band)")].map(row => {
  const box = row.getBoundingClientRect();
  return { top: box.top, bottom: box.bottom, height: box.height };
})"""
CUT = """part => [...document.querySelectorAll(part)].map(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return range.getBoundingClientRect().right - cell.getBoundingClientRect().right;
}).reduce((most, one) => Math.max(most, one), -999)"""


def test_the_first_screen_shows_eight_models_and_a_phones_two(visit: Open, site: Suite) -> None:
    Suite.objects.filter(name="synthetic").update(notice="Every number here is made up.")
    for window, rows in ((visit(viewport={"width": 1440, "height": 900}), 8), (visit(**PHONE), 2)):
        page = window.go("/")
        shown = page.evaluate(ROWS)
        assert shown[rows - 1]["bottom"] <= page.evaluate("innerHeight"), shown[: rows + 1]
        page.get_by_text("How to read a row").click()
        expect(page.get_by_text("a statistical tie").first).to_be_visible()
        expect(page.locator(".specimen > svg")).to_be_visible()


@pytest.mark.parametrize("models", [140, 1100, 10_100])
@pytest.mark.parametrize("rows", ["normal", "compact"])
def test_the_longest_range_of_ranks_fits_its_column(visit: Open, models: int, rows: str) -> None:
    board = synthetic_board(models, 3)
    ranks, cut = board.ranks, board.ranks.rank > 0
    wide = np.full_like(ranks.rank, board.ranked)
    low = np.maximum(wide - 1, 1)
    cuts = (cut, cut) if models > 1000 else (ranks.cut_low, ranks.cut_high)
    ranks = replace(ranks, rank=low * cut, low=low, high=wide, cut_low=cuts[0], cut_high=cuts[1])
    later = BOARD.built + timedelta(hours=models)
    suite = Suite.objects.get(name="synthetic")
    publish(replace(board, ranks=ranks, built=later, data_version=f"wide {models}"), suite)
    page = visit(viewport={"width": 1440, "height": 900}).go(f"/?rows={rows}")
    assert f"{board.ranked - 1:,}–" in page.locator(".board tbody .c2").first.inner_text()
    assert page.evaluate(CUT, ".board tbody .c2") <= 0


def test_a_missing_score_makes_no_row_higher(visit: Open) -> None:
    page = visit(viewport={"width": 1440, "height": 900}).go("/?page=3")
    heights = page.evaluate(
        """() => [...document.querySelectorAll(".board tbody tr:not(.band)")].map(row =>
          [row.querySelectorAll("td .none").length > 0, row.getBoundingClientRect().height])"""
    )
    plain = {height for missing, height in heights if not missing}
    lacking = {height for missing, height in heights if missing}
    assert lacking
    assert max(lacking) <= max(plain)


def test_compact_rows_have_one_line_of_thirty_pixels(visit: Open) -> None:
    page = visit(viewport={"width": 1440, "height": 900}).go("/?rows=compact")
    page.evaluate(
        "document.querySelector('.board .nm').textContent = 'A-model-of-a-very-long-name'.repeat(4)"
    )
    assert {round(row["height"]) for row in page.evaluate(ROWS)} == {30}
    first = page.locator(".board tbody .c3").first
    style = first.evaluate("cell => [getComputedStyle(cell).textOverflow, cell.scrollWidth]")
    assert style[0] == "ellipsis"
    assert style[1] > first.evaluate("cell => cell.clientWidth")


def test_a_sorted_column_shows_its_arrow_however_long_its_name(visit: Open) -> None:
    page = visit(viewport={"width": 1440, "height": 900}).go("/?sort=bench_03")
    link = page.locator("#by-bench_03")
    link.evaluate("a => { a.textContent = 'A benchmark whose name has many more words than fit'; }")
    arrow = link.evaluate("a => getComputedStyle(a, '::before').content")
    assert "↓" in arrow
    # What is cut ends in an ellipsis, for which there is room within the link.
    cut = link.evaluate("a => [a.scrollHeight > a.clientHeight, getComputedStyle(a).paddingRight]")
    assert cut[0]
    assert float(cut[1].removesuffix("px")) >= 9


@pytest.mark.parametrize("width", [1440, 1024, 900, 760, 390])
def test_no_menu_leaves_the_window(visit: Open, width: int) -> None:
    page = visit(viewport={"width": width, "height": 900}).go("/")
    page.evaluate("document.querySelectorAll('.expander input').forEach(box => box.click())")
    menus = page.locator("details.menu").all()
    assert len(menus) >= 7
    for menu in menus:
        menu.evaluate("menu => { menu.open = true; }")
        box = menu.locator("> :not(summary)").bounding_box()
        assert box is not None
        assert box["x"] >= 0, menu.get_attribute("id")
        assert box["x"] + box["width"] <= width, menu.get_attribute("id")
        menu.evaluate("menu => { menu.open = false; }")


def test_keys_lead_to_the_first_model_from_anywhere_and_list_themselves(visit: Open) -> None:
    page = visit(viewport={"width": 1440, "height": 900}).go("/")
    names = page.locator(".board tbody .mid")
    page.keyboard.press("j")
    expect(names.nth(0)).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys dl")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.locator("#keys dl")).to_be_hidden()
    expect(names.nth(0)).to_be_focused()
    page = visit().go("/")
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator(".board tbody .c1 input").first).to_be_focused()


def test_pages_have_a_gap_and_a_next(visit: Open) -> None:
    publish(
        replace(synthetic_board(700, 3), built=BOARD.built + timedelta(days=1)),
        Suite.objects.get(name="synthetic"),
    )
    page = visit().go("/")
    pager = page.get_by_role("navigation", name="Pages of models")
    said = pager.inner_text().replace("Page", "").split()
    assert said == ["1", "2", "3", "…", "14", "Next"]
    pager.get_by_role("link", name="Next").click()
    expect(page).to_have_url(re.compile(r"page=2$"))
    expect(pager.get_by_role("link", name="Previous")).to_be_visible()


def test_sizes_are_hinted_in_round_numbers(visit: Open) -> None:
    page = visit().go("/")
    hints = [page.locator(f"#size-{end}").get_attribute("placeholder") for end in ("low", "high")]
    assert all(hint and len(hint.replace(".", "").strip("0")) <= 2 for hint in hints), hints


def test_on_a_phone_every_score_of_one_model_opens_in_place(visit: Open) -> None:
    page = visit(**PHONE).go("/?cols=all")
    height = page.evaluate("document.documentElement.scrollHeight")
    row = page.locator(".board tbody tr:not(.band)").first
    row.get_by_label("Scores of").check()
    scores = row.locator(".score:not(.avg)").all()
    assert len(scores) == 12
    for score in scores:
        # The name ends before the number begins, and the number inside the window.
        parts = score.locator("> a, > .pm").all()
        boxes = [part.bounding_box() for part in parts]
        assert all(box is not None and box["x"] + box["width"] <= 390 for box in boxes)
        assert score.evaluate(CUT_IN_ITSELF) <= 0.5
    grown = page.evaluate("document.documentElement.scrollHeight") - height
    assert 0 < grown < 300


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("address", ["/", "/?cols=all", "/?rows=tall", "/?cols=bench_01"])
def test_the_table_never_widens_the_page(visit: Open, width: int, address: str) -> None:
    page = visit(viewport={"width": width, "height": 800}).go(address)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_on_a_phone_a_model_is_a_block_and_tasks_come_on_request(visit: Open) -> None:
    page = visit(**PHONE).go("/")
    scores = page.locator(".board tbody .score:not(.avg)")
    expect(scores.first).to_be_hidden()
    page.get_by_label("Show 10 of 12 benchmarks").check()
    expect(scores.first).to_be_visible()
    assert page.locator(".board tbody .score:not(.avg)").first.get_attribute("data-l") == "Bench 0"
    for tick in page.locator(".board tbody .c1 label").all()[:5]:
        box = tick.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 44
    expect(page.locator("#filters")).to_be_hidden()
    page.get_by_label("Show filters and prompt style").check()
    expect(page.get_by_label("Search")).to_be_visible()


def test_everything_works_without_javascript(visit: Open) -> None:
    page = visit(java_script_enabled=False).go("/")
    page.get_by_label("Search").fill("llama; qwen")
    page.locator("#menu-precision summary").click()
    page.locator("#menu-precision").get_by_text("bfloat16").click()
    page.get_by_label("Smallest size in billions of parameters").fill("1")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile(r"/\?q=llama%3B\+qwen&precision=bfloat16&size=1-$"))
    page.get_by_role("link", name="Bench 3", exact=True).click()
    expect(page.locator('[aria-sort="descending"]')).to_contain_text("Bench 3")
    first = models(page)[0]
    page.get_by_role("link", name=f"Pin {first.partition('/')[2]}").click()
    expect(page.locator(".pinned .mid")).to_have_text(first)
    page.locator("#menu-columns summary").click()
    page.locator(".picker").get_by_label("Bench 3").uncheck()
    page.get_by_role("button", name="Show these").click()
    expect(page.locator(".own-choice")).to_be_visible()
    page.get_by_label("From chance").check(force=True)
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("score=chance"))
    expect(page.locator(".pinned .mid")).to_have_text(first)
    page.locator("#menu-download summary").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename.endswith(".csv")
