"""Everybody can read every page: axe-core finds nothing, links within a page lead somewhere, and
the page fits its window with every fold open, a phone's and the paper's as well.

The walk takes every address of the sitemap, what the sitemap leaves out, and every error page.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from leaderboard import recalls
from leaderboard.models import Run, Suite
from tests.browser.addresses import public, unlisted
from tests.browser.conftest import Open, Visit
from tests.browser.rules import broken, broken_unfolded
from tests.leaderboard import factories as make

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PAPER = {"width": 718, "height": 1047}
"""A4 without its margins."""
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""The rules that a dark page can break where the light one does not."""

DEAD_ENDS = """() => {
  const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
  const links = [...document.querySelectorAll("a[href^='#']")].map(one => one.hash.slice(1));
  return {
    'leads nowhere': links.filter(id => !ids.includes(decodeURIComponent(id))),
    'two of a name': ids.filter((id, at) => ids.indexOf(id) < at),
  };
}"""


def too_wide(page: Page) -> list[int]:
    """By how many pixels the page is wider than its window; one may be a rounded half."""
    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [over] if over > 1 else []


def in_every_look(page: Page) -> dict[str, list[Any]]:
    """What is wrong with it: in the light, in the dark, in a wide window, on a phone, on paper."""
    found = {"light": broken_unfolded(page), **page.evaluate(DEAD_ENDS)}
    found["wider than its window"] = too_wide(page)
    page.emulate_media(color_scheme="dark")
    found["dark"] = broken(page, runOnly=COLOURS)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    found["phone"] = broken(page)
    found["wider than a phone"] = too_wide(page)
    page.emulate_media(color_scheme="dark")
    found["phone in the dark"] = broken(page, runOnly=COLOURS)
    page.set_viewport_size(PAPER)
    page.emulate_media(color_scheme="light", media="print")
    found["wider than paper"] = too_wide(page)
    page.emulate_media(media="screen")
    page.set_viewport_size(WIDE)
    return {look: rules for look, rules in found.items() if rules}


def expire(window: Visit) -> Page:
    """The page that says that a form has expired."""
    page = window.go("/accounts/login")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill("ada")
    page.context.clear_cookies()
    page.get_by_label("Password").press("Enter")
    page.get_by_role("heading", name="This form has expired").wait_for()
    return page


def with_a_recall() -> list[str]:
    """What says that a result was recalled, once one is."""
    run = Run.objects.filter(state="done").order_by("task__name")[0]
    made, _ = recalls.recall("runs", [str(run.pk)], reason="W" * 120, by="ada")
    make.publish(Suite.objects.get())
    own = [run.get_absolute_url(), made.get_absolute_url()]
    return ["/recalls", *own, run.variant.hub_model.get_absolute_url(), "/"]


def test_what_breaks_a_rule_is_found_again_and_again(chromium: Browser) -> None:
    page = chromium.new_page()
    for _ in range(2):
        page.set_content("<html lang=en><title>t</title><main><h1>t</h1><img src=a.png></main>")
        assert broken(page) == broken(page) == [("image-alt", ['<img src="a.png">'])]
        page.evaluate("document.querySelector('img').alt = 'a cat'")
        assert broken(page) == broken(page, within="h1") == []
    page.close()


def test_axe_finds_nothing_on_any_page(visit: Open, settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.browser.faults"
    window = visit(viewport=WIDE)
    found = {}
    for address, status in (dict.fromkeys(public(), 200) | unlisted()).items():
        answer = window.page.goto(window.url + address)
        assert answer is not None
        assert answer.status == status, address
        found[address] = in_every_look(window.page)
    found["an expired form"] = in_every_look(expire(window))
    for address in with_a_recall():
        found[f"{address}, recalled"] = in_every_look(window.go(address))
    assert {address: looks for address, looks in found.items() if looks} == {}
    # The browser reports the status of pages that are meant to fail; nothing else.
    assert [
        said for said in window.complaints if "the server responded with a status" not in said
    ] == []


def test_the_whole_navigation_fits_a_phone(visit: Open) -> None:
    page = visit(viewport=PHONE).go("/")
    links = page.get_by_role("navigation", name="Main").get_by_role("link").all()
    assert [link.inner_text() for link in links][:2] == ["Board", "Prompt styles"]
    for link in links:
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
        assert box["height"] >= 24
