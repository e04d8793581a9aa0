"""The administration in a browser, by keyboard: each order an operator gives does what it says."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from leaderboard.models import Recall, Role, Run
from leaderboard.models.run import State
from tests.browser.conftest import Open
from tests.browser.rules import AXE
from tests.browser.test_access import PHONE, WIDE, too_wide
from tests.browser.test_flags import signed_in
from tests.shots import Shots

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WITHDRAW = "Withdraw, and stop the runs that nobody else wants"
RUNS = "/admin/leaderboard/run/"
# It would else read the sheets that Django's own import, by ways that the content policy forbids.
WORST = """() => axe.run(document, { preload: false }).then(found => found.violations
  .filter(rule => ["serious", "critical"].includes(rule.impact))
  .map(rule => [rule.id, rule.nodes.map(node => node.html.slice(0, 160))]))"""


def give(page: Page, order: str, *runs: Run, reason: str = "") -> None:
    """An order for these runs, as an operator gives it with keys."""
    page.goto(page.url.split("/admin")[0] + RUNS)
    for run in runs:
        page.locator(f"input[name=_selected_action][value='{run.pk}']").press("Space")
    page.get_by_label("Action:").select_option(label=order)
    if reason:
        page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Go", exact=True).press("Enter")


def states() -> dict[Any, str]:
    return dict(Run.objects.values_list("pk", "state"))


LOOKED_AT = ("", "run/", "recall/add/", "user/", "flag/", "hubmodel/", "submission/", "ruling/")


def hear(page: Page) -> list[str]:
    """What the console says from now on, of the content policy too."""
    said: list[str] = []
    page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


def test_its_pages_are_readable_in_every_look(visit: Open, shot: Shots) -> None:
    page = signed_in(visit, "op", Role.OPERATOR)
    said, wrong = hear(page), {}
    page.get_by_role("link", name="Administration").press("Enter")
    page.wait_for_url("**/admin/")
    done = Run.objects.filter(state=State.DONE)[0]
    for scheme, size in (("light", WIDE), ("dark", WIDE), ("light", PHONE)):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for part in (*LOOKED_AT, f"run/{done.pk}/change/"):
            page.goto(f"{page.url.split('/admin/')[0]}/admin/leaderboard/{part}")
            page.evaluate(AXE)
            name = f"{part.partition('/')[0] or 'all'} {scheme} {size['width']}"
            wrong[f"{part} {scheme} {size['width']}"] = page.evaluate(WORST) + too_wide(page)
            shot(page, name)
        if size == PHONE:
            page.goto(f"{page.url.split('/admin/')[0]}{RUNS}")
            for label in ("Action:", "Reason"):
                box = page.get_by_label(label).bounding_box()
                assert box is not None
                assert box["width"] > 120, label
                assert box["height"] < 60, label
    assert {name: found for name, found in wrong.items() if found} == {}
    assert said == []


def test_each_order_does_what_it_says(visit: Open, shot: Shots) -> None:
    page = signed_in(visit, "op", Role.OPERATOR)
    said = hear(page)
    site = page.url.removesuffix("/models/lab/texts")
    page.goto(f"{site}/admin/")
    waits = Run.objects.get(state=State.QUEUED)
    done = Run.objects.filter(state=State.DONE)[0]
    give(page, "Put before all others that wait", waits)
    expect(page.get_by_text("1 of 1 runs were moved.")).to_be_visible()
    waits.refresh_from_db()
    assert waits.priority == 100
    give(page, "Cancel, whoever wants them", waits, done)
    expect(page.get_by_text("1 of 2 runs were cancelled. 1 could not be")).to_be_visible()
    assert states()[waits.pk] == State.CANCELLED
    give(page, "Try again what failed or was cancelled", waits)
    expect(page.get_by_text("1 of 1 runs were queued again.")).to_be_visible()
    assert states()[waits.pk] == State.QUEUED
    give(page, "Run again, and replace what is done", done)
    expect(page.get_by_text("Nothing is queued.")).to_be_visible()
    give(page, "Run again, and replace what is done", done, reason="A fault of the engine.")
    expect(page.get_by_text("1 of 1 runs were queued again.")).to_be_visible()
    shot(page, "ordered")
    page.goto(f"{site}/admin/leaderboard/submission/")
    page.locator("tr", has_text="lab/unlucky").locator("input[type=checkbox]").press("Space")
    page.get_by_label("Action:").select_option(label=WITHDRAW)
    page.get_by_role("button", name="Go", exact=True).press("Enter")
    expect(page.get_by_text("runs were stopped.")).to_be_visible()
    assert states()[waits.pk] == State.CANCELLED

    page.goto(f"{site}/admin/leaderboard/recall/add/")
    page.get_by_label("Kind").select_option("runs")
    page.get_by_label("Names").fill(str(done.pk))
    page.get_by_label("Reason").fill("Its answers were cut off.")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("Nothing was recalled. Concerned: 1 result of 1 model")).to_be_visible()
    shot(page, "looked first")
    page.get_by_label("Only look").press("Space")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("are recalled")).to_be_visible()
    shot(page, "recalled")
    made = Recall.objects.get()
    page.goto(f"{site}/recalls/{made.pk}")
    expect(page.get_by_text("Its answers were cut off.").first).to_be_visible()
    assert said == []
