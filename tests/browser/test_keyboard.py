"""The whole site with keys alone, without motion, and on paper.

The walks take every address of the sitemap, pages that it leaves out, and one that is not there.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.addresses import everywhere
from tests.browser.conftest import Open

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = {"width": 1440, "height": 900}
UPRIGHT = {"width": 718, "height": 1047}
ACROSS = {"width": 1047, "height": 718}
"""What is inside the margins of A4, in CSS pixels."""

FORMS = ("/submit", "/accounts/login", "/accounts/password")
"""Pages that are nothing but a form."""

# What has the focus; the ring around it or (a hidden radio) around its label, and the ring that is
# left around what had it before; whether any of it can be seen, beneath nothing else.
FOCUSED = """() => {
  const parts = one => [one, one.closest("label")].filter(Boolean);
  const ring = one => Math.max(...parts(one).map(part => getComputedStyle(part))
    .map(style => style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth)));
  const focused = document.activeElement, before = window.lastFocus;
  if (focused === document.body || focused === document.documentElement) return null;
  window.reached ??= new Set();
  const again = window.reached.has(focused);
  window.reached.add(focused);
  window.lastFocus = focused;
  const seen = parts(focused).some(part => [...part.getClientRects()].some(box =>
    [[.5, .5], [.1, .5], [.9, .5]].some(([x, y]) => {
      const on = document.elementFromPoint(box.x + x * box.width, box.y + y * box.height);
      return on && (part.contains(on) || on.contains(part));
    })));
  const apart = before && before !== focused && !parts(before).some(part => part.contains(focused));
  return {
    html: focused.outerHTML.slice(0, 160), again, seen, same: before === focused,
    ring: ring(focused), left: apart ? ring(before) : 0,
  };
}"""
# What a mouse can use and the keys did not reach; a radio stands for all of its group.
NOT_REACHED = """() => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary")]
  .filter(one => one.checkVisibility() && !one.disabled && !window.reached.has(one))
  .filter(one => one.type !== "radio" ||
    ![...window.reached].some(other => other.type === "radio" && other.name === one.name))
  // A dot among thousands is passed over where the table below it leads to the same page.
  .filter(one => one.tabIndex !== -1 ||
    ![...window.reached].some(other => other.getAttribute("href") === one.getAttribute("href")))
  .map(one => one.outerHTML.slice(0, 160))"""
OUT_OF_ORDER = """() => [...document.querySelectorAll("[tabindex]")]
  .filter(one => one.tabIndex > 0).map(one => one.outerHTML.slice(0, 160))"""
MOVING = """() => [...document.querySelectorAll("*")].filter(one =>
  [null, "::before", "::after"].some(part => {
    const style = getComputedStyle(one, part);
    const longest = times => Math.max(...times.split(",").map(parseFloat));
    return (style.animationName !== "none" && longest(style.animationDuration) > .01) ||
      longest(style.transitionDuration) > .01 || style.scrollBehavior === "smooth";
  })).map(one => one.outerHTML.slice(0, 120))"""
# On paper: what can only be clicked, what would stay at the edge of a window, what is cut off.
CONTROLS = """() => [...document.querySelectorAll(
    "button, input, select, textarea, .btn, .skip, .filters, .tray, nav[aria-label=Main], " +
    "nav[aria-label=More], nav[aria-label=Pages]")]
  .filter(one => one.checkVisibility() && one.getClientRects().length)
  .map(one => one.outerHTML.slice(0, 160))"""
STUCK = """() => [...document.querySelectorAll("body *")]
  .filter(one => one.checkVisibility())
  .filter(one => ["sticky", "fixed"].includes(getComputedStyle(one).position))
  .map(one => one.outerHTML.slice(0, 160))"""
CUT_OFF = """() => [...document.querySelectorAll("table")].filter(one => one.checkVisibility())
  .filter(table => {
    if (table.getBoundingClientRect().right > innerWidth + 1) return true;
    for (let around = table.parentElement; around; around = around.parentElement)
      if (getComputedStyle(around).overflowX !== "visible" &&
          (around.scrollWidth > around.clientWidth + 1 ||
           around.scrollHeight > around.clientHeight + 1)) return true;
    return false;
  }).map(table => table.outerHTML.slice(0, 160))"""


def walk(page: Page, address: str) -> None:
    """Tab once around: each stop is seen, nothing holds the focus, and nothing is left out."""
    begins = page.locator("[autofocus]").count()
    if begins:
        # It takes the focus when the page is first drawn: a key before that would begin elsewhere.
        page.wait_for_function("document.activeElement.matches('[autofocus]')")
    page.keyboard.press("Tab")
    stop = page.evaluate(FOCUSED)
    assert begins or 'class="skip"' in stop["html"], (address, stop)
    held = outside = 0
    while stop is None or not stop["again"] or stop["same"]:
        if stop is None:
            # Between the last stop and the first one the browser may take the focus, once.
            outside += 1
            assert outside == 1, (address, "the keys no longer lead into the page")
        else:
            assert stop["ring"] >= 2, (address, stop)
            assert stop["left"] == 0, (address, "what had the focus keeps its ring", stop)
            assert stop["seen"], (address, stop)
            # A date has a stop for each of its parts and one for its calendar.
            held = held + 1 if stop["same"] else 0
            assert held < 4, (address, "the focus is caught", stop)
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
    assert page.evaluate(NOT_REACHED) == [], address


def test_keys_alone_lead_through_every_page(visit: Open) -> None:
    window = visit(viewport=WIDE)
    for address in everywhere():
        page = window.go(address)
        assert page.evaluate(OUT_OF_ORDER) == [], address
        walk(page, address)
        page.locator(".skip").first.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main", address
        page.keyboard.press("Tab")
        stop = page.evaluate("document.activeElement.outerHTML")
        inside = "document.querySelector('main').contains(document.activeElement)"
        empty = "!document.querySelector('main').querySelector('a[href], button, input, summary')"
        assert page.evaluate(f"{inside} || {empty}"), (address, stop[:160])


def test_nothing_moves_for_who_wants_no_motion(visit: Open) -> None:
    assert visit(viewport=WIDE, reduced_motion="no-preference").go("/").evaluate(MOVING) != []
    window = visit(viewport=WIDE, reduced_motion="reduce")
    moving = {address: window.go(address).evaluate(MOVING) for address in everywhere()}
    assert {address: parts for address, parts in moving.items() if parts} == {}


@pytest.mark.parametrize("paper", [UPRIGHT, ACROSS], ids=["upright", "across"])
def test_on_paper_a_page_is_what_it_says(visit: Open, paper: dict[str, int]) -> None:
    window = visit(viewport=paper, color_scheme="dark")
    window.page.emulate_media(media="print")
    found: dict[str, list[str]] = {}
    for address in everywhere():
        page = window.go(address)
        checks = [STUCK, CUT_OFF, *([] if address.startswith(FORMS) else [CONTROLS])]
        found[address] = [part for check in checks for part in page.evaluate(check)]
        scheme = page.evaluate("getComputedStyle(document.documentElement).colorScheme")
        assert scheme == "light", address
        assert page.get_by_role("heading", level=1).is_visible(), address
        assert address != "/" or page.locator("table.board").is_visible()
    assert {address: parts for address, parts in found.items() if parts} == {}
