"""The heat map of many benchmarks: on a phone every column is reached, and its names stay."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page

from leaderboard.models import Suite
from tests.browser.conftest import Open
from tests.browser.test_access import PAPER, PHONE, WIDE, in_every_look
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PLACES = """() => {
  const box = document.querySelector('.chartbox').getBoundingClientRect();
  const middle = one => { const r = one.getBoundingClientRect(); return r.y + r.height / 2; };
  const names = [...document.querySelectorAll('.heatmap .names text')].map(one => {
    const r = one.getBoundingClientRect();
    return { text: one.innerHTML, left: r.left - box.left, right: r.right - box.left,
             y: middle(one), font: parseFloat(getComputedStyle(one).fontSize) };
  });
  const edge = document.querySelector('.heatmap .names').getBoundingClientRect().right - box.left;
  const fields = [...document.querySelectorAll('.heat')].map(one => {
    const r = one.getBoundingClientRect();
    return { left: r.left - box.left, right: r.right - box.left, y: middle(one) };
  });
  const numbers = [...document.querySelectorAll('.heatmap [role=img] .labels text')].map(one => {
    const r = one.getBoundingClientRect();
    return { text: one.textContent, left: r.left, right: r.right };
  });
  return { width: box.width, names, fields, edge, numbers };
}"""
"""In pixels, across from the frame's left edge."""


@pytest.fixture(params=[5, 60])
def columns(site: Suite, settings: Any, request: pytest.FixtureRequest) -> int:
    settings.PLUMBLINE_SUITE = "synthetic"
    board = synthetic_board(60, request.param)
    named = (replace(one, title=f"MMLU-Pro Mathematics {one.title}") for one in board.columns)
    publish(replace(board, columns=tuple(named)), make.make_suite("synthetic"))
    return int(request.param)


def placed(page: Page, columns: int) -> dict[str, Any]:
    """Where everything is; each name beside its fields, whole, and at the frame's left edge."""
    found: dict[str, Any] = page.evaluate(PLACES)
    assert len(found["names"]) == columns
    rows = sorted({round(field["y"]) for field in found["fields"]})
    for name, row in zip(found["names"][1:], rows, strict=True):
        assert name["y"] == pytest.approx(row, abs=2.5), "in the line of its fields"
    for one, other in pairwise(found["numbers"]):
        assert other["left"] - one["right"] > 0.1 * (one["right"] - one["left"]), "apart"
    for name in found["names"]:
        assert 0 <= name["left"] < name["right"] <= found["edge"], name["text"]
    return found


def test_on_a_phone_every_column_is_reached_by_keys_and_the_names_stay(
    visit: Open, columns: int, shot: Shots
) -> None:
    window = visit(viewport=PHONE)
    page = window.go("/charts-agreement")
    before = placed(page, columns)
    frame = page.get_by_role("group", name="benchmarks of Synthetic")
    frame.focus()
    shot(page, f"{columns} benchmarks on a phone")
    page.keyboard.press("End")
    for _ in range(200):
        if frame.evaluate("one => one.scrollLeft + one.clientWidth >= one.scrollWidth - 1"):
            break
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(30)
    after = placed(page, columns)
    shot(page, f"{columns} benchmarks on a phone, at the end")
    last = max(after["fields"], key=lambda field: field["right"])
    assert after["edge"] <= last["left"]
    assert last["right"] <= after["width"] + 1
    assert [name["left"] for name in after["names"]] == [name["left"] for name in before["names"]]
    assert after["width"] - after["edge"] > 0.6 * after["width"], "most of it is for the fields"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    moved = before["fields"][0]["left"] - after["fields"][0]["left"]
    assert (moved > 500) == (columns > 5), "five have room without it"
    assert window.complaints == []


def test_it_is_whole_in_wider_windows_and_on_paper(visit: Open, columns: int, shot: Shots) -> None:
    page = visit(viewport=WIDE).go("/charts-agreement")
    for width in (1440, 1280, 801):
        page.set_viewport_size({"width": width, "height": 900})
        placed(page, columns)
    page.set_viewport_size(PAPER)
    page.emulate_media(media="print")
    paper = placed(page, columns)
    assert max(field["right"] for field in paper["fields"]) <= paper["width"]
    shot(page, f"{columns} benchmarks on paper")
    page.emulate_media(media="screen")
    page.set_viewport_size(WIDE)
    assert in_every_look(page) == {}
