"""The page of sisters in a browser: in every look, without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from leaderboard.models import Suite
from leaderboard.tasks import sisters
from tests.browser.conftest import Open
from tests.browser.rules import WCAG_AA, broken_unfolded
from tests.leaderboard.sisters import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture
def pair(site: Suite, settings: Any) -> Suite:
    """A suite beside the site's own; one of its models stands out."""
    made.an_hour_later()
    settings.PLUMBLINE_SUITE = "pairs"
    suite = made.make_suite("pairs")
    made.lift(made.measure(suite, 12)[2], 0.6)
    sisters.analyse_due()
    return suite


@pytest.mark.parametrize(
    "look",
    [
        pytest.param({}, id="wide"),
        pytest.param({"color_scheme": "dark"}, id="dark"),
        pytest.param({**PHONE, "color_scheme": "dark"}, id="phone in the dark"),
        pytest.param({**PHONE, "java_script_enabled": False}, id="phone without JavaScript"),
    ],
)
def test_it_breaks_no_rule_of_wcag_aa_and_fits_its_window(
    visit: Open, pair: Suite, look: dict[str, Any]
) -> None:
    window = visit(**look)
    page = window.go("/sisters")
    expect(page.get_by_role("row", name="m02")).to_contain_text("above what was expected")
    page.get_by_role("link", name="Most below first").click()
    expect(page.locator("table.forest tbody tr").first).not_to_contain_text("m02")
    if look.get("java_script_enabled", True):
        assert broken_unfolded(page, **WCAG_AA) == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.get_by_role("link", name="m02").last.click()
    expect(page.get_by_role("heading", name="Does it generalise?")).to_be_visible()
    if look.get("java_script_enabled", True):
        assert broken_unfolded(page, **WCAG_AA) == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert window.complaints == []
