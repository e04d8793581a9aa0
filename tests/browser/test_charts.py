"""Charts in Chromium: plotly draws them under the content policy, and what it draws can be read,
filtered, hovered, and saved with its title, source and date."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from leaderboard.models import Suite
from tests.browser.conftest import Open
from tests.browser.looks import PHONE, WIDE, in_every_look, too_wide
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

BOXES = """(selector) => [...document.querySelectorAll(selector)].map(one => {
  const { x, y, right, bottom } = one.getBoundingClientRect();
  return { text: one.textContent, x, y, right, bottom };
})"""
NAMES = "[data-figure] .annotation-text-g text"
BEST = "[data-figure] .trace:nth-child(n + 7) .point"
"""The dots of the line: the traces after those of the crowd and the line."""
BEYOND = """() => [...document.querySelectorAll('table.plotted :is(td, th[scope=row])')]
  .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
  .map(one => one.textContent.trim())"""
"""Cells of the table that lie outside the window."""


@pytest.fixture
def synthetic(site: Suite, settings: Any) -> Callable[..., None]:
    """Publishes a made-up board of so many models and benchmarks, with long names."""

    def show(models: int, columns: int) -> None:
        settings.PLUMBLINE_SUITE = "synthetic"
        board = synthetic_board(models, columns)
        named = (replace(one, title=f"MMLU-Pro Mathematics {one.title}") for one in board.columns)
        publish(replace(board, columns=tuple(named)), make.make_suite("synthetic"))

    return show


def drawn(page: Page) -> Page:
    expect(page.locator("[data-drawn]")).to_be_visible()
    return page


def touch(one: dict[str, Any], other: dict[str, Any]) -> bool:
    across = min(one["right"], other["right"]) - max(one["x"], other["x"])
    down = min(one["bottom"], other["bottom"]) - max(one["y"], other["y"])
    return across > 0.5 and down > 0.5


def names_of(page: Page) -> list[str]:
    """The names beside dots, of which none touches another or a dot of the line."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    names = [one for one in page.evaluate(BOXES, NAMES) if not re.search("[→↑]", one["text"])]
    dots = page.evaluate(BOXES, BEST)
    assert dots
    assert [(a["text"], b["text"]) for a, b in combinations(names, 2) if touch(a, b)] == []
    assert [name["text"] for name in names if any(touch(name, dot) for dot in dots)] == []
    return [name["text"] for name in names]


@pytest.mark.parametrize("against", ["size", "time"])
def test_every_model_is_a_dot_in_every_look_and_no_name_touches_another(
    visit: Open, synthetic: Callable[..., None], against: str, shot: Shots
) -> None:
    synthetic(900, 3)
    window = visit(viewport=WIDE)
    page = drawn(window.go("/charts" if against == "size" else f"/charts?against={against}"))
    models = int(page.locator(".many").inner_text().partition(" ")[0])
    assert page.locator("[data-figure] .point").count() == models > 600
    wide = names_of(page)
    shot(page, f"900 models by {against}")
    page.set_viewport_size(PHONE)
    expect(page.locator("[data-figure] .main-svg").first).to_have_attribute("width", "358")
    assert 1 <= len(names_of(page)) <= len(wide)
    assert too_wide(page) == []
    shot(page, f"900 models by {against} on a phone")
    assert in_every_look(page) == {}


def test_a_dots_card_says_its_row_and_a_click_leads_to_its_model(
    visit: Open, large_board: Suite, shot: Shots
) -> None:
    page = drawn(visit(viewport=WIDE).go("/charts"))
    box = page.evaluate(BOXES, BEST)[-1]
    x, y = (box["x"] + box["right"]) / 2, (box["y"] + box["bottom"]) / 2
    page.mouse.move(x - 30, y + 30)
    page.mouse.move(x, y, steps=3)
    card = page.locator("[data-card]")
    expect(card).to_contain_text("Best for its size")
    shot(page, "a card")
    name = card.locator("a").get_attribute("href")
    assert name
    row = page.locator(f'table.plotted tr:has(a[href="{name}"])')
    if row.count():
        expect(card).to_contain_text(row.locator("b").text_content() or "")
    page.mouse.click(x, y)
    page.wait_for_url(f"**{name}")


def test_the_legend_hides_a_type_and_a_drag_zooms_until_a_double_click(
    visit: Open, large_board: Suite
) -> None:
    page = drawn(visit(viewport=WIDE).go("/charts"))
    points = page.locator("[data-figure] .point")
    every = points.count()
    label = page.locator(".legend label").nth(1)
    hidden = int(label.locator("span").last.inner_text())
    label.locator("input").uncheck()
    expect(points).to_have_count(every - hidden)
    label.locator("input").check()
    expect(points).to_have_count(every)
    ticks = page.locator("[data-figure] .xtick text")
    before = ticks.all_text_contents()
    plot = page.locator("[data-figure] .nsewdrag").bounding_box()
    assert plot
    middle = plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 120, middle[1] + 120, steps=4)
    page.mouse.up()
    expect(ticks.first).not_to_have_text(before[0])
    # Where no dot is near, which a click would follow.
    page.mouse.dblclick(plot["x"] + plot["width"] - 4, plot["y"] + 4)
    expect(ticks).to_have_text(before)


def test_pictures_are_saved_with_title_source_and_date_also_in_the_dark(
    visit: Open, large_board: Suite, tmp_path: Path
) -> None:
    page = drawn(visit(viewport=WIDE, color_scheme="dark").go("/charts"))
    title = page.locator("h1").inner_text()
    page.get_by_text("PNG, SVG, CSV").click()
    saved = {}
    for form in ("svg", "png"):
        with page.expect_download() as download:
            page.get_by_role("button", name=form.upper()).click()
        saved[form] = tmp_path / download.value.suggested_filename
        assert saved[form].name == f"plumbline-synthetic-1.0-average-by-size.{form}"
        download.value.save_as(saved[form])
    texts = [one.text for one in ElementTree.parse(saved["svg"]).iter() if one.text]
    assert title in texts
    assert any(re.fullmatch(r"Synthetic 1\.0, \d+ \w+ 20\d\d · http://.*", text) for text in texts)
    image = Image.open(saved["png"]).convert("RGB")
    assert image.size[0] == 2400
    assert image.getpixel((4, 4)) == (17, 20, 23), "the paper of a dark page"
    colours = image.getcolors(maxcolors=1 << 24) or []
    assert len(colours) > 50, "something is drawn"


def test_a_change_of_theme_draws_the_chart_in_its_colours(visit: Open, large_board: Suite) -> None:
    page = drawn(visit(viewport=WIDE).go("/charts"))
    background = page.locator("[data-figure] .main-svg").first
    expect(background).to_have_css("background-color", "rgb(252, 252, 250)")
    page.emulate_media(color_scheme="dark")
    expect(background).to_have_css("background-color", "rgb(17, 20, 23)")
    page.get_by_role("button", name="Theme: system").click()
    expect(background).to_have_css("background-color", "rgb(252, 252, 250)")


def test_the_agreement_is_one_picture_and_its_names_stay_on_a_phone(
    visit: Open, synthetic: Callable[..., None], tmp_path: Path, shot: Shots
) -> None:
    synthetic(60, 20)
    page = visit(viewport=PHONE).go("/charts-agreement")
    names, fields = page.locator(".fields svg").all()
    page.locator(".fields").evaluate("one => { one.scrollLeft = 400; }")
    at = names.bounding_box()
    assert at
    assert at["x"] == 16
    assert fields.bounding_box() != at
    shot(page, "agreement on a phone")
    page.set_viewport_size(WIDE)
    page.get_by_text("PNG, SVG, CSV").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    download.value.save_as(tmp_path / "agreement.png")
    assert Image.open(tmp_path / "agreement.png").size[0] > 1600


def test_on_a_phone_every_number_of_a_table_is_in_sight(
    visit: Open, synthetic: Callable[..., None]
) -> None:
    synthetic(60, 3)
    window = visit(viewport=PHONE)
    for address in ("/charts", "/charts-agreement"):
        page = window.go(address)
        page.locator("details.fold > summary").click()
        assert page.locator("table.plotted tbody td").count() > 2, address
        assert page.evaluate(BEYOND) == [], address


def test_without_a_script_the_table_says_the_same(visit: Open, large_board: Suite) -> None:
    page = visit(viewport=WIDE, java_script_enabled=False).go("/charts")
    expect(page.get_by_text("The table below says the same")).to_be_visible()
    page.locator("details.fold > summary").click()
    expect(page.locator("table.plotted tbody tr")).to_have_count(50)
    page.get_by_label("Score").select_option("bench_01")
    page.get_by_role("button", name="Draw").click()
    expect(page).to_have_url(re.compile(r"/charts\?score=bench_01$"))
