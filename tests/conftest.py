"""What all tests share; `tests/settings.py` sets their environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from demo.screenshots import FLAGS
from tests.services import missing


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of real benchmark data and models that PLUMBLINE_TEST_DATA names."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PLUMBLINE_TEST_DATA", default))
    if not folder.is_dir():
        missing(f"NO TEST DATA: {folder} is no folder; set PLUMBLINE_TEST_DATA")
    return folder


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One real browser for all tests: a second event loop of Playwright's would be refused."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        missing("NO BROWSER: there is no chromium on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
