"""Everybody can use every page: axe-core finds nothing, keys alone suffice, nothing moves unasked.

The walk takes every address of the sitemap, what the sitemap leaves out, and every error page.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.test import Client
from playwright.sync_api import Page

from leaderboard import snapshots
from leaderboard.models import Run, Submission, Suite
from tests.browser.conftest import Open, Visit

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""The rules that a dark page can break where the light one does not."""

# What has the focus; the ring around it or (a hidden radio) around its label; whether any of it
# can be seen, beneath nothing else.
FOCUSED = """() => {
  const focused = document.activeElement;
  if (focused === document.body || focused === document.documentElement) return null;
  const shown = [focused, focused.closest("label")].filter(Boolean);
  const ring = Math.max(...shown.map(getComputedStyle)
    .map(style => style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth)));
  const seen = shown.some(element => [...element.getClientRects()].some(box =>
    [[.5, .5], [.1, .5], [.9, .5]].some(([x, y]) => {
      const on = document.elementFromPoint(box.x + x * box.width, box.y + y * box.height);
      return on && (element.contains(on) || on.contains(element));
    })));
  return { html: focused.outerHTML.slice(0, 160), ring, seen };
}"""
# How many stops there can be: a date has one for each of its parts and one for its calendar.
FOCUSABLE = """() => [...document.querySelectorAll(
  "a[href], button, input, select, textarea, summary, [tabindex]")]
  .reduce((stops, one) => stops + (one.type === "date" ? 4 : 1), 0)"""


@pytest.fixture
def built(site: Suite) -> Suite:
    """The site with its boards."""
    for style in snapshots.styles_of(site):
        snapshots.build(site, style)
    return site


def public() -> list[str]:
    """Every address of the sitemap."""
    client = Client()
    files = re.findall(r"<loc>(.+?)</loc>", client.get("/sitemap.xml").content.decode())
    pages = [client.get(urlsplit(file).path).content.decode() for file in files]
    return [urlsplit(url).path for page in pages for url in re.findall(r"<loc>(.+?)</loc>", page)]


def one_of_each_kind() -> list[str]:
    """A page of every template that reads well: those of a task look like those of another."""
    shown = [*public(), *(address for address, status in unlisted().items() if status == 200)]
    kinds = {re.sub(r"(?<=.)/.*", "/", address.partition("?")[0]): address for address in shown}
    return [*kinds.values(), "/nosuch"]


def unlisted() -> dict[str, int]:
    """The status of pages that the sitemap leaves out, and of other states of those it has."""
    done, failed, running = (
        Run.objects.filter(state=state).order_by("task__name")[0]
        for state in ("done", "failed", "running")
    )
    submission = Submission.objects.filter(runs=failed)[0]
    others = Run.objects.filter(task=done.task, state="done").exclude(pk=done.pk)
    shown = [
        *("/?style=mmlu", "/?q=nothing", "/?at=2020-01-01", "/submit?model=not+a+model"),
        *(f"/runs/{run.pk}" for run in (done, failed, running)),
        *(f"/runs/{done.pk}?outcome=wrong", f"/submissions/{submission.pk}", "/models/lab/unlucky"),
        *(f"/compare?run={done.pk},{others[0].pk}", "/accounts/login"),
    ]
    faults = {"/?q=%00": 400, "/fault/forbidden": 403, "/models/lab/nosuch": 404}
    return {**dict.fromkeys(shown, 200), **faults, "/fault/broken": 500}


def violations(page: Page, **options: Any) -> list[tuple[str, list[str]]]:
    """The rules that the page breaks, best practices among them, and where."""
    found = Axe().run(page, options={"resultTypes": ["violations"], **options})
    return [
        (rule["id"], [node["html"][:160] for node in rule["nodes"]])
        for rule in found.response["violations"]
    ]


def in_every_look(page: Page) -> dict[str, list[tuple[str, list[str]]]]:
    """What axe-core finds: in the light, in the dark, and on a phone."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    found = {"light": violations(page)}
    page.emulate_media(color_scheme="dark")
    found["dark"] = violations(page, runOnly=COLOURS)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    found["phone"] = violations(page)
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


def test_axe_finds_nothing_on_any_page(built: Suite, visit: Open, settings: Any) -> None:
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


def test_keys_alone_lead_through_every_page(built: Suite, visit: Open) -> None:
    window = visit(viewport=WIDE)
    for address in one_of_each_kind():
        page = window.go(address)
        page.keyboard.press("Tab")
        first = page.evaluate(FOCUSED)
        # Signing in begins in its first field.
        assert 'class="skip"' in first["html"] or address == "/accounts/login", address
        stop, stops, most = first, 1, page.evaluate(FOCUSABLE)
        # After the last stop the browser takes the focus, or gives it to the first one again.
        while stop is not None and (stops == 1 or stop["html"] != first["html"]):
            assert stop["ring"] >= 2, (address, stop)
            assert stop["seen"], (address, stop)
            assert stops <= most, (address, "the focus is caught", stop)
            page.keyboard.press("Tab")
            stop = page.evaluate(FOCUSED)
            stops += 1
        assert stops > 5, address


def test_the_skip_link_leads_past_the_navigation(built: Suite, visit: Open) -> None:
    page = visit(viewport=WIDE).go("/method")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_nothing_moves_for_who_wants_no_motion(built: Suite, visit: Open) -> None:
    moving = """() => [...document.querySelectorAll("*")].filter(one => {
      const style = getComputedStyle(one);
      return style.animationName !== "none" || style.scrollBehavior === "smooth" ||
        style.transitionDuration.split(",").some(time => parseFloat(time) > 0);
    }).map(one => one.outerHTML.slice(0, 120))"""
    window = visit(viewport=WIDE, reduced_motion="reduce")
    for address in ("/", "/queue", "/method"):
        assert window.go(address).evaluate(moving) == []


def test_the_whole_navigation_fits_a_phone(built: Suite, visit: Open) -> None:
    page = visit(viewport=PHONE).go("/")
    links = page.get_by_role("navigation", name="Main").get_by_role("link").all()
    assert [link.inner_text() for link in links][:2] == ["Board", "Prompt styles"]
    for link in links:
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
        assert box["height"] >= 24
