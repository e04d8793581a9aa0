"""From the board to a single question of two models, in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from leaderboard.models import Suite, Variant
from leaderboard.snapshot import published
from tests.browser.conftest import Open
from tests.browser.rules import WCAG_AA, broken_unfolded

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PHONE = {"viewport": {"width": 390, "height": 844}}
LOOKS: list[Any] = [
    pytest.param({}, id="wide"),
    pytest.param({"color_scheme": "dark"}, id="dark"),
    pytest.param(PHONE, id="phone"),
]


@pytest.fixture
def built(site: Suite) -> Suite:
    """The site with its boards."""
    for style in published.styles_of(site):
        published.build(site, style)
    return site


def addresses() -> list[str]:
    """The page with nobody, one, two and three models, and with a question."""
    keys = [str(pk) for pk in Variant.objects.order_by("pk").values_list("pk", flat=True)]
    two = f"/compare?m={keys[0]}%2C{keys[1]}"
    return [
        "/compare",
        f"/compare?m={keys[0]}",
        f"/compare?m={keys[0]}&q=nothing",
        two,
        f"{two}&doc=3",
        f"/compare?m={'%2C'.join(keys)}%2C999",
    ]


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_from_the_board_to_a_question(built: Suite, visit: Open, script: bool) -> None:
    window = visit(java_script_enabled=script)
    page = window.go("/")
    for name in ("texts", "letters"):
        page.get_by_label(f"Compare {name}").check()
    page.get_by_role("button", name="Compare the ticked models").click()
    expect(page).to_have_url(re.compile(r"/compare\?m=\d+%2C\d+$"))
    expect(page.get_by_text(re.compile("Both were asked the same thing"))).to_be_visible()
    expect(page.get_by_text(re.compile("^texts is ahead of letters by"))).to_be_visible()
    filters = page.get_by_role("navigation", name="Which questions")
    only = filters.get_by_role("link", name="Only texts")
    only.click()
    expect(only).to_have_attribute("aria-current", "true")
    first = page.locator(".parting tbody th a").first
    label = first.text_content()
    first.click()
    expect(page.get_by_role("heading", name=f"Question {label}")).to_be_visible()
    expect(page.get_by_text("Both were sent the same prompt")).to_be_visible()
    expect(page.get_by_text(re.compile("^Right: picked"))).to_have_count(1)
    expect(page.get_by_text(re.compile("^Wrong: picked"))).to_have_count(1)
    page.get_by_role("link", name="Permalink").click()
    expect(page.get_by_role("heading", name=f"Question {label}")).to_be_visible()
    page.get_by_role("link", name="All of it on the run’s page").first.click()
    doc = int(label or "") - 1  # pages count from 1, documents from 0
    expect(page).to_have_url(re.compile(rf"/runs/[0-9a-f-]{{36}}\?doc={doc}#question"))
    assert window.complaints == []


def test_other_views_of_a_comparison_swap_the_page_in_place(built: Suite, visit: Open) -> None:
    keys = [str(pk) for pk in Variant.objects.order_by("pk").values_list("pk", flat=True)]
    window = visit()
    page = window.go(f"/compare?m={keys[0]}%2C{keys[1]}")
    page.evaluate("window.stayed = true")
    part = page.locator(".byparts tbody th a").first
    name = part.text_content()
    part.press("Enter")
    expect(page).to_have_url(re.compile(rf"&part={name}$"))
    heading = page.get_by_role("heading", name=f"Questions they answered differently, {name}")
    expect(heading).to_be_in_viewport()
    expect(heading).to_be_focused()
    page.get_by_role("link", name="Order of the file").click()
    expect(page).to_have_url(re.compile(rf"&part={name}&sort=file$"))
    expect(page.get_by_role("link", name="Order of the file")).to_be_focused()
    page.locator(".parting tbody th a").first.click()
    expect(page.get_by_role("heading", name=re.compile("^Question "))).to_be_in_viewport()
    page.get_by_role("link", name="Make baseline").click()
    expect(page).to_have_url(re.compile(rf"&base={keys[1]}&"))
    expect(page.locator(".sides li").nth(1)).to_contain_text("Baseline")
    assert page.evaluate("window.stayed")
    assert window.complaints == []


def test_a_newer_choice_does_not_wait_for_an_older_one(built: Suite, visit: Open) -> None:
    keys = [str(pk) for pk in Variant.objects.order_by("pk").values_list("pk", flat=True)]
    window = visit()
    page = window.go(f"/compare?m={keys[0]}%2C{keys[1]}")
    page.evaluate("window.stayed = true")
    window.never_answers(re.compile("sort=file"))
    with page.expect_request(re.compile("sort=file")):
        page.get_by_role("link", name="Order of the file").click()
    page.get_by_role("link", name="Make baseline").click()
    expect(page.locator(".sides li").nth(1)).to_contain_text("Baseline")
    assert page.evaluate("window.stayed")
    assert window.complaints == []


def test_another_model_is_found_by_keyboard(built: Suite, visit: Open) -> None:
    page = visit().go("/compare")
    page.get_by_label("Model ID, or part of it").focus()
    page.keyboard.type("lab/texts")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Compare with which?")).to_be_visible()
    page.get_by_label("Model ID, or part of it").focus()
    page.keyboard.type("lett")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="lab/letters").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("texts\\s+and\\s+letters"))


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_fits_its_window_and_breaks_no_rule(
    built: Suite, visit: Open, look: dict[str, Any]
) -> None:
    window = visit(**look)
    for address in addresses():
        page = window.go(address)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, (address, wider)
        assert broken_unfolded(page, **WCAG_AA) == [], address
    assert window.complaints == []
