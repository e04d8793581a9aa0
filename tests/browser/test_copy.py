"""A button that copies commands and citations; without scripts the text is there to select."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ALLOWED = ["clipboard-read", "clipboard-write"]


def test_a_citation_is_copied_whole(site: Any, visit: Open) -> None:
    opened = visit(permissions=ALLOWED)
    page = opened.go("/suites/demo")
    shown = page.locator("pre[aria-label='BibTeX entry'] code").inner_text()
    page.locator("pre[aria-label='BibTeX entry']").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").strip() == shown.strip()
    assert not opened.complaints, json.dumps(opened.complaints)


def test_without_scripts_no_button_is_offered(site: Any, visit: Open) -> None:
    page = visit(java_script_enabled=False).go("/suites/demo")
    expect(page.get_by_text("@misc{plumbline-demo-1.0")).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
