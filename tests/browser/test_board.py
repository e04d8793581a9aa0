"""Further states of the board in a browser: what fits, what stays in sight, keys, slow answers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from leaderboard.models import Suite
from tests.browser.conftest import Open, board_of_130
from tests.browser.looks import WIDE

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("large_board"),
]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
# Where a row begins and ends.
ROWS = """() => [...document.querySelectorAll(".board tbody tr:not(.band)")].map(row => {
  const box = row.getBoundingClientRect();
  return { top: box.top, bottom: box.bottom, height: box.height };
})"""


def models(page: Page) -> list[str]:
    return page.locator(".board tbody .mid").all_inner_texts()


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


def test_a_slider_sets_a_size_that_both_numbers_show(visit: Open) -> None:
    page = visit().go("/")
    page.get_by_role("slider", name="Largest size").fill("50")
    expect(page).to_have_url(re.compile(r"/\?size=-[0-9.]+$"))
    largest = page.get_by_label("Largest size in billions of parameters").input_value()
    assert page.url.endswith(f"?size=-{largest}")
    expect(page.locator("#hits")).not_to_have_text("130 models of 130")


def test_ticks_survive_other_pages_and_lead_to_the_comparison(visit: Open) -> None:
    page = visit().go("/")
    first = models(page)[0]
    page.get_by_label(f"Compare {first.partition('/')[2]}").check()
    page.get_by_role("link", name="Page 2").click()
    expect(page).to_have_url(re.compile(r"page=2&m=\d+$"))
    expect(page.get_by_role("link", name=f"Untick {first}")).to_be_visible()
    third = models(page)[4].partition("/")[2]
    page.get_by_label(f"Compare {third}").check()
    page.get_by_label(f"Compare {third}").uncheck()
    second = models(page)[3]
    page.get_by_label(f"Compare {second.partition('/')[2]}").check()
    ticked = {model.variant for model in board_of_130().models if model.repo_id in (first, second)}
    with page.expect_request(re.compile("/compare")) as asked:
        page.get_by_role("button", name="Compare the ticked models").click()
    assert set(map(int, re.findall(r"m=(\d+)", asked.value.url))) == ticked
    page = visit().go("/")
    boxes = page.locator(".board tbody [name=m]")
    for place in range(6):
        boxes.nth(place).check()
    expect(page.get_by_text("Six are ticked, the most that a page compares.")).to_be_visible()
    expect(boxes.nth(6)).to_be_disabled()
    expect(boxes.nth(5)).to_be_enabled()
    boxes.nth(5).uncheck()
    expect(boxes.nth(6)).to_be_enabled()
    expect(page.get_by_text("Six are ticked")).to_be_hidden()
    page = visit().go(f"/?page=2&m={ticked.pop()}&m={ticked.pop()}")
    page.get_by_role("link", name=f"Untick {first}").click()
    expect(page.get_by_role("link", name=re.compile("^Untick"))).to_have_count(0)


def test_head_and_pinned_rows_stay_in_sight(visit: Open) -> None:
    page = visit(viewport={"width": 1440, "height": 800}).go(
        f"/?pin={board_of_130().models[9].variant}"
    )
    page.mouse.wheel(0, 1500)
    page.wait_for_function("scrollY > 1000")
    for part in (".board thead", ".board .pinned tr"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 140, part


def test_a_deep_link_brings_its_row_into_sight(visit: Open) -> None:
    model = board_of_130().models[77]
    page = visit(viewport={"width": 1440, "height": 800}).go(f"/?at_model={model.repo_id}")
    row = page.locator(f"#m{model.variant}")
    expect(row).to_be_in_viewport()
    expect(row).to_have_class(re.compile("marked"))


def test_the_first_screen_shows_eight_models_and_a_phones_two(visit: Open, site: Suite) -> None:
    Suite.objects.filter(name="synthetic").update(notice="Every number here is made up.")
    for window, rows in ((visit(viewport=WIDE), 8), (visit(**PHONE), 2)):
        page = window.go("/")
        shown = page.evaluate(ROWS)
        assert shown[rows - 1]["bottom"] <= page.evaluate("innerHeight"), shown[: rows + 1]
        page.get_by_text("How to read a row").click()
        expect(page.get_by_text("a statistical tie").first).to_be_visible()
        expect(page.locator(".specimen > svg")).to_be_visible()


def test_no_menu_leaves_the_window(visit: Open) -> None:
    page = visit(viewport=WIDE).go("/")
    page.evaluate("document.querySelectorAll('.expander input').forEach(box => box.click())")
    menus = page.locator("details.menu").all()
    assert len(menus) >= 7
    for width in (1440, 1024, 900, 760, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for menu in menus:
            menu.evaluate("menu => { menu.open = true; }")
            box = menu.locator("> :not(summary)").bounding_box()
            assert box is not None
            assert box["x"] >= 0, (width, menu.get_attribute("id"))
            assert box["x"] + box["width"] <= width, menu.get_attribute("id")
            menu.evaluate("menu => { menu.open = false; }")


def test_keys_lead_to_the_first_model_list_themselves_and_can_be_turned_off(visit: Open) -> None:
    page = visit(viewport=WIDE).go("/")
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
    page.get_by_text("Keyboard").click()
    page.get_by_label("Single keys work on this site").uncheck()
    page.reload()
    names = page.locator(".board tbody .mid")
    names.first.focus()
    page.keyboard.press("j")
    page.keyboard.press("/")
    expect(names.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(names.nth(1)).to_be_focused()


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
