"""Names on charts as a browser writes them: legible, beside each other, within the picture."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from playwright.sync_api import Page

from leaderboard.models import Suite
from tests.browser.conftest import Open
from tests.browser.test_access import PHONE, WIDE, in_every_look
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

NAMES = """() => [...document.querySelectorAll('svg.chart text.name')]
  .filter(one => one.checkVisibility())
  .map(one => {
    const { x, y, width, height } = one.getBBox();
    const scale = one.getScreenCTM().a;
    return { text: one.textContent, x, y, right: x + width, bottom: y + height,
             letters: parseFloat(getComputedStyle(one).fontSize) * scale };
  })"""
"""In units of the picture; letters in pixels."""
DOTS = """() => [...document.querySelectorAll('svg.chart circle.dot')].map(one => {
  const { x, y, width, height } = one.getBBox();
  return { x, y, right: x + width, bottom: y + height };
})"""


@pytest.fixture(params=[60, 130, 900])
def board(site: Suite, settings: Any, request: pytest.FixtureRequest) -> int:
    settings.PLUMBLINE_SUITE = "synthetic"
    publish(synthetic_board(request.param, 3), make.make_suite("synthetic"))
    return int(request.param)


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    across = min(one["right"], other["right"]) - max(one["x"], other["x"])
    down = min(one["bottom"], other["bottom"]) - max(one["y"], other["y"])
    return across > 0.1 and down > 0.1


def checked(page: Page) -> int:
    """How many names are shown, of which none touches anything."""
    names, dots = page.evaluate(NAMES), page.evaluate(DOTS)
    assert [(a["text"], b["text"]) for a, b in combinations(names, 2) if overlap(a, b)] == []
    assert [name["text"] for name in names if any(overlap(name, dot) for dot in dots)] == []
    for name in names:
        assert name["x"] >= 56
        assert name["right"] <= 944
        assert name["y"] >= 16
        assert name["bottom"] <= 436
        assert name["letters"] >= 9, "legible"
    return len(names)


def test_names_on_charts_are_legible_and_touch_nothing(
    visit: Open, board: int, shot: Shots
) -> None:
    window = visit(viewport=WIDE)
    for axis in ("size", "time"):
        page = window.go("/charts" if axis == "size" else f"/charts?against={axis}")
        shown = {}
        for width in (1440, 1280, 810, 790, 390):
            page.set_viewport_size({"width": width, "height": 844})
            shown[width] = checked(page)
        assert shown[1440] == shown[810] >= shown[790] == shown[390] >= 2, shown
        shot(page, f"{board} models by {axis} on a phone")
        page.set_viewport_size(WIDE)
        page.emulate_media(media="print")
        assert len(page.evaluate(NAMES)) == shown[1440], "on paper all have room"
        page.emulate_media(media="screen")
        assert in_every_look(page) == {}
    assert window.complaints == []


def test_a_name_leads_to_its_model_as_its_dot_does(visit: Open, board: int) -> None:
    page = visit(viewport=WIDE).go("/charts")
    name = page.locator("text.name").first
    text = name.text_content()
    name.click()
    page.wait_for_url("**/models/**")
    assert text
    assert text in page.url


BEYOND = """() => [...document.querySelectorAll('table.plotted :is(td, th[scope=row])')]
  .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
  .map(one => one.textContent.trim())"""
"""Cells of the tables beside charts that lie outside the window."""


@pytest.mark.parametrize("board", [60], indirect=True)
def test_on_a_phone_every_number_of_a_chart_is_in_sight(visit: Open, board: int) -> None:
    window = visit(viewport=PHONE)
    for address in ("/charts", "/charts-agreement"):
        page = window.go(address)
        assert page.locator("table.plotted tbody td").count() > 2, address
        assert page.evaluate(BEYOND) == [], address
    page = window.go("/charts-agreement")
    assert page.get_by_role("row").nth(1).get_by_role("cell").count() >= 3, "still a table"
