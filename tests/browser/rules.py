"""Which rules of accessibility a page breaks, as axe-core finds them."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

AXE: str = Axe().axe_script
WCAG_AA = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}

# What axe-core says of rules that are kept would take a fifth of the time on its way here.
LOOK = """([within, options]) => axe.run(within ?? document, options).then(
  found => found.violations.map(rule => [rule.id, rule.nodes.map(node => node.html.slice(0, 160))])
)"""


def broken(page: Page, within: str | None = None, **options: Any) -> list[tuple[str, list[str]]]:
    """Those that the page breaks, and where; all of axe-core's unless `options` name some.

    `within` is a selector of the part that is looked at.
    """
    page.wait_for_load_state()  # a form that was just sent leads to a page that is half there
    if page.evaluate("typeof axe") == "undefined":  # as on every page that was just opened
        page.evaluate(AXE)
    found = page.evaluate(LOOK, [within, {"resultTypes": ["violations"], **options}])
    return [(rule, places) for rule, places in found]


def broken_unfolded(page: Page, **options: Any) -> list[tuple[str, list[str]]]:
    """The same with every fold open."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    return broken(page, **options)
