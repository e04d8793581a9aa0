"""Everybody can read every page: axe-core finds nothing, links within a page lead somewhere, and
the navigation fits a phone.

The walk takes every address of the sitemap, what the sitemap leaves out, and every error page.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.addresses import public, unlisted
from tests.browser.conftest import Open, Visit
from tests.browser.rules import broken, broken_unfolded

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
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


def in_every_look(page: Page) -> dict[str, list[Any]]:
    """What is wrong with it: in the light and in the dark, in a wide window and on a phone."""
    found = {"light": broken_unfolded(page), **page.evaluate(DEAD_ENDS)}
    page.emulate_media(color_scheme="dark")
    found["dark"] = broken(page, runOnly=COLOURS)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    found["phone"] = broken(page)
    page.emulate_media(color_scheme="dark")
    found["phone in the dark"] = broken(page, runOnly=COLOURS)
    page.emulate_media(color_scheme="light")
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
