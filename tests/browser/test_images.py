"""Questions with images in Chromium: wide, narrow and dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Open
from tests.browser.rules import broken
from tests.leaderboard import engine_runs

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LOOKS = {
    "wide": {"viewport": {"width": 1280, "height": 900}},
    "narrow": {"viewport": {"width": 390, "height": 844}},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}


@pytest.mark.parametrize("look", LOOKS)
def test_images_are_seen_and_fit(
    visit: Open, tmp_path: Path, look: str, shot: Callable[[Page, str], None]
) -> None:
    run = engine_runs.seen(tmp_path)
    window = visit(**LOOKS[look])
    for doc in (1, 2):
        page = window.go(f"/runs/{run.pk}?doc={doc}#question")
        images = page.locator(".seen img")
        assert images.count() == doc
        for place in range(doc):
            drawn = images.nth(place).evaluate("i => [i.complete, i.naturalWidth, i.clientWidth]")
            assert drawn[0]
            assert drawn[1] == drawn[2] > 0
        assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth")
        assert broken(page, within="#question") == []
        page.locator(".seen").scroll_into_view_if_needed()
        shot(page, f"question {doc}")
    assert window.complaints == []
