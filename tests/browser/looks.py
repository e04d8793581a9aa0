"""What is wrong with a page: which rules of accessibility it breaks, as axe-core finds them, and
what does not fit; in the light, in the dark, on a phone and on paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.shots import Shots

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PAPER = {"width": 718, "height": 1047}
"""A4 without its margins."""

AXE: str = Axe().axe_script
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""The rules that a dark page can break where the light one does not."""

# What axe-core says of rules that are kept would take a fifth of the time on its way here.
RUN_AXE = """([within, options]) => axe.run(within ?? document, options).then(
  found => found.violations.map(rule => [rule.id, rule.nodes.map(node => node.html.slice(0, 160))])
)"""
DEAD_ENDS = """() => {
  const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
  const links = [...document.querySelectorAll("a[href^='#']")].map(one => one.hash.slice(1));
  return {
    'leads nowhere': links.filter(id => !ids.includes(decodeURIComponent(id))),
    'two of a name': ids.filter((id, at) => ids.indexOf(id) < at),
  };
}"""

Look = Callable[[Page, str], None]
"""Examines a page, which the text names, and fails where something is wrong with it."""


def broken(page: Page, within: str | None = None, **options: Any) -> list[tuple[str, list[str]]]:
    """The rules that the page breaks, and where; all of axe-core's unless `options` name some.

    `within` is a selector of the part that is looked at.
    """
    page.wait_for_load_state()  # a form that was just sent leads to a page that is half there
    if page.evaluate("typeof axe") == "undefined":  # as on every page that was just opened
        page.evaluate(AXE)
    found = page.evaluate(RUN_AXE, [within, {"resultTypes": ["violations"], **options}])
    return [(rule, places) for rule, places in found]


def too_wide(page: Page) -> list[int]:
    """By how many pixels the page is wider than its window; one may be a rounded half."""
    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [over] if over > 1 else []


def look_once(page: Page, what: str) -> None:
    """With every fold open, as the window is."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert broken(page) == [], what
    assert too_wide(page) == [], what


def in_every_look(page: Page) -> dict[str, list[Any]]:
    """What is wrong with it: in the light, in the dark, in a wide window, on a phone, on paper."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    found = {"light": broken(page), **page.evaluate(DEAD_ENDS)}
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
    if not page.locator("h1").is_visible():
        found["on paper"] = ["no heading"]
    page.emulate_media(media="screen")
    page.set_viewport_size(WIDE)
    return {look: rules for look, rules in found.items() if rules}


def look_everywhere(shot: Shots) -> Look:
    """Examines in every look, and keeps a picture of three of them."""

    def look(page: Page, what: str) -> None:
        assert in_every_look(page) == {}, what
        for width, scheme in ((1280, "light"), (390, "light"), (1280, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            shot(page, f"{what} {width} {scheme}")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(WIDE)

    return look
