"""Further states of the board in a browser: what fits, what stays in sight, keys, slow answers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from leaderboard.models import Suite
from tests.browser.conftest import Open, board_of_130
from tests.browser.looks import WIDE, broken, too_wide
from tests.shots import Shots

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("large_board"),
]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
# Where a row begins and ends.
ROWS = """() => [...document.querySelectorAll(".board tr.row")].map(row => {
  const box = row.getBoundingClientRect();
  return { top: box.top, bottom: box.bottom, height: box.height };
})"""
WORDS = """() => {
  const words = [...document.querySelectorAll("main .hero, main .bar")].map(one => one.innerText);
  return words.join(" ").split(/\\s+/).filter(Boolean).length;
}"""


def models(page: Page) -> list[str]:
    return page.locator(".board .model a").all_inner_texts()


def tick(page: Page, place: int) -> str:
    """Tick the row at this place; its model's name."""
    box = page.locator(".board .tick input").nth(place)
    box.check(force=True)
    return box.get_attribute("data-name") or ""


def size(of: Locator) -> tuple[float, float]:
    box = of.bounding_box()
    assert box is not None
    return box["width"], box["height"]


def test_a_newer_choice_does_not_wait_for_an_older_one(visit: Open) -> None:
    window = visit()
    page = window.go("/")
    page.evaluate("window.same = true")
    window.never_answers(re.compile("sort=model"))
    with page.expect_request(re.compile("sort=model")):
        page.locator("#by-model").click()
    page.locator("#by-average").click()
    expect(page).to_have_url(re.compile(r"/\?sort=-average$"))
    window.never_answers(re.compile("q=llama"))
    with page.expect_request(re.compile("q=llama")):
        page.get_by_label("Search models").fill("llama")
    page.locator("#style-own").click()
    expect(page).to_have_url(re.compile(r"/\?sort=-average$"))
    expect(page.locator("#rest").get_by_role("status")).to_have_text("130 models")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(
        """() => { window.sent = new Promise(done => addEventListener('htmx:confirm', event => {
            if (event.target.id === 'q') setTimeout(done);
        })); }"""
    )
    page.get_by_label("Search models").fill("llama")
    page.locator("#by-model").click()
    page.evaluate("window.sent")  # after its pause
    assert [re.sub(r".*/", "", url) for url in asked] == ["?sort=model"]
    assert page.evaluate("window.same")


def test_a_slider_sets_a_size_that_both_numbers_show(visit: Open) -> None:
    page = visit(viewport=WIDE).go("/")
    page.locator("#sheet > summary").click()
    page.get_by_role("slider", name="Largest size").fill("50")
    largest = page.locator("#size-high").input_value()
    assert 0 < float(largest) < 100
    page.locator("#show-models").click()
    expect(page).to_have_url(re.compile(rf"/\?size=-{largest}$"))
    expect(page.locator(".chip")).to_contain_text(f"Size: up to {largest} B")


def test_the_tray_keeps_names_over_pages_and_searches_takes_six_and_leads_to_the_comparison(
    visit: Open, shot: Shots
) -> None:
    page = visit(viewport=WIDE).go("/")
    tray = page.get_by_role("region", name="Comparison")
    expect(tray).to_be_hidden()
    names = [tick(page, 0)]
    expect(tray.get_by_role("button", name="Tick one more")).to_be_disabled()
    page.get_by_role("link", name="Page 2").click()
    expect(page).to_have_url(re.compile(r"page=2$"))
    expect(tray).to_contain_text(names[0])
    names.append(tick(page, 3))
    page.get_by_label("Search models").fill("llama")
    expect(page).to_have_url(re.compile(r"q=llama$"))
    expect(tray.locator("li")).to_have_count(2)
    page.goto(page.url.partition("?")[0])
    expect(tray.locator("li")).to_have_count(2)
    names += [tick(page, place) for place in (2, 4, 5, 6)]
    expect(tray.locator(".n-of")).to_have_text("6 chosen of 6")
    shot(page, "the tray with six")
    boxes = page.locator(".board .tick input")
    expect(boxes.nth(7)).to_be_disabled()
    expect(boxes.nth(6)).to_be_enabled()
    for _ in range(4):
        tray.locator("li").nth(2).get_by_role("button").click()
    expect(boxes.nth(7)).to_be_enabled()
    variants = {m.variant for m in board_of_130().models if m.repo_id.endswith(tuple(names[:2]))}
    with page.expect_request(re.compile("/compare")) as asked:
        tray.get_by_role("button", name="Compare 2").click()
    assert set(map(int, re.findall(r"m=(\d+)", asked.value.url))) == variants
    page = visit().go(f"/?page=2&m={'&m='.join(map(str, variants))}")
    expect(page.locator(".tray li")).to_have_count(2)
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".tray")).to_be_hidden()


def test_without_script_boxes_filters_and_menus_are_forms(visit: Open) -> None:
    page = visit(java_script_enabled=False, viewport=WIDE).go("/?page=2&m=7")
    tick(page, 0)
    expect(page.locator(".tray")).to_be_visible()
    with page.expect_request(re.compile("/compare")) as asked:
        page.get_by_role("button", name="Compare").click()
    assert len(re.findall(r"m=\d+", asked.value.url)) == 2, "one of them from the address"
    page = visit(java_script_enabled=False, viewport=WIDE).go("/")
    page.locator("#sheet > summary").click()
    page.locator("[name=type][value=chat]").check()
    page.locator("#show-models").click()
    expect(page).to_have_url(re.compile(r"/\?type=chat$"))
    page.locator(".view > summary").click()
    page.get_by_label("Compact").check()
    page.locator(".view").get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile(r"/\?type=chat&rows=compact$"))


def test_the_open_sheet_keeps_the_focus_and_escape_gives_it_back(visit: Open) -> None:
    page = visit(viewport=WIDE).go("/")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    button = page.locator("#sheet > summary")
    button.press("Enter")
    page.keyboard.press("Tab")
    for key in ("Tab", "Shift+Tab", "Shift+Tab", "Shift+Tab"):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.closest('.pane') !== null"), key
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    assert not page.locator("#sheet .pane").is_visible()


def test_a_menu_closes_when_the_focus_leaves_it_and_escape_gives_it_back(visit: Open) -> None:
    page = visit(viewport=WIDE).go("/")
    view = page.locator("details.view")
    button = view.locator("summary")
    button.press("Enter")
    page.keyboard.press("Tab")
    expect(view).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(view).not_to_have_attribute("open", "")
    expect(button).to_be_focused()
    button.press("Enter")
    view.get_by_role("button", name="Show").press("Tab")
    expect(page.get_by_label("Download the board")).to_be_focused()
    expect(view).not_to_have_attribute("open", "")


def test_head_and_first_columns_stay_in_sight(visit: Open) -> None:
    page = visit(viewport={"width": 1440, "height": 800}).go("/")
    page.mouse.wheel(0, 1500)
    page.wait_for_function("scrollY > 1000")
    box = page.locator(".board thead th").nth(2).bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 10
    page = visit(viewport={"width": 1000, "height": 800}).go("/")
    page.locator(".scroller").evaluate("frame => frame.scrollTo(400, 0)")
    model = page.locator(".board .row .model").first.bounding_box()
    assert model is not None
    assert 0 <= model["x"] < 100


def test_a_deep_link_brings_its_row_into_sight(visit: Open) -> None:
    model = board_of_130().models[77]
    page = visit(viewport={"width": 1440, "height": 800}).go(f"/?at_model={model.repo_id}")
    row = page.locator(f"#m{model.variant}")
    expect(row).to_be_in_viewport()
    expect(row).to_have_class(re.compile("marked"))


def test_the_first_screen_shows_ten_models_and_a_phones_two_in_few_words(
    visit: Open, site: Suite
) -> None:
    Suite.objects.filter(name="synthetic").update(notice="Every number here is made up.")
    for window, rows in ((visit(viewport=WIDE), 10), (visit(**PHONE), 2)):
        page = window.go("/")
        shown = page.evaluate(ROWS)
        assert shown[rows - 1]["bottom"] <= page.evaluate("innerHeight"), shown[: rows + 1]
        assert page.evaluate(WORDS) <= 150
        expect(page.get_by_text("Every number here is made up")).to_be_visible()


def test_no_menu_leaves_the_window(visit: Open) -> None:
    page = visit(viewport=WIDE).go("/")
    menus = page.locator("details.sheet, details.pop").all()
    assert len(menus) == 3
    for width in (1440, 1024, 900, 760, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for menu in menus:
            menu.evaluate("menu => { menu.open = true; }")
            box = menu.locator("> :not(summary)").bounding_box()
            if box:
                assert box["x"] >= 0, (width, menu.get_attribute("class"))
                assert box["x"] + box["width"] <= width, (width, menu.get_attribute("class"))
            menu.evaluate("menu => { menu.open = false; }")


def test_keys_lead_to_the_first_model_list_themselves_and_can_be_turned_off(visit: Open) -> None:
    page = visit(viewport=WIDE).go("/")
    names = page.locator(".board .model a")
    page.keyboard.press("j")
    expect(names.nth(0)).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys p")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.locator("#keys p")).to_be_hidden()
    expect(names.nth(0)).to_be_focused()
    page = visit().go("/")
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator(".board .tick input").first).to_be_focused()
    page.get_by_text("Keyboard").click()
    page.get_by_label("Single keys work on this site").uncheck()
    page.reload()
    names = page.locator(".board .model a")
    names.first.focus()
    page.keyboard.press("j")
    page.keyboard.press("/")
    expect(names.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(names.nth(1)).to_be_focused()


def test_on_a_phone_a_model_is_a_card_with_all_its_scores(visit: Open, shot: Shots) -> None:
    page = visit(**PHONE).go("/")
    row = page.locator(".board .row").first
    for cell in row.locator(".n").all():
        box = cell.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    for label in page.locator(".board .tick").all()[:5]:
        box = label.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 44
    page.locator("#sheet > summary").click()
    expect(page.get_by_label("Order by")).to_be_visible()
    shot(page, "filters on a phone")


@pytest.mark.parametrize(("address", "menus"), [("/", 2), ("/charts", 1)])
def test_on_a_phone_menus_come_from_below_and_a_tap_outside_closes_them(
    visit: Open, shot: Shots, address: str, menus: int
) -> None:
    page = visit(**PHONE).go(address)
    found = page.locator("details.pop")
    assert found.count() == menus
    for menu in found.all():
        assert min(size(menu.locator("summary"))) >= 44
        menu.locator("summary").tap()
        shot(page, "a menu on a phone")
        pane = menu.locator(".pop-pane").bounding_box()
        assert pane is not None
        assert (pane["x"], pane["width"], pane["y"] + pane["height"]) == (0, 390, 844)
        for target in menu.locator(".pop-pane").locator("a, label, button").all():
            if target.is_visible():
                assert size(target)[1] >= 43.9, target.inner_text()
        assert too_wide(page) == []
        page.touchscreen.tap(100, 20)
        expect(menu).not_to_have_attribute("open", "")


@pytest.mark.parametrize("view", ["/gpu/24", "/?gpu=24&bits=4&cols=all", "/?q=nobody&type=chat"])
def test_cards_wide_tables_and_empty_ones_break_no_rule_in_any_width(
    visit: Open, view: str
) -> None:
    page = visit(viewport=WIDE).go(view)
    assert broken(page) == []
    for width in (1440, 900, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert too_wide(page) == [], width
