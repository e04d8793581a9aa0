"""Pictures that browser tests leave: of the steps of each path, and of every page where one fails.

They lie in the folder that PLUMBLINE_ARTIFACTS names, by default `var/screenshots/tests`, in a
folder for each test.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("PLUMBLINE_ARTIFACTS") or ROOT / "var" / "screenshots" / "tests")
PATIENCE = 5_000
"""Milliseconds that a page has for its picture once its test has failed."""


class Shots:
    """The pictures of one test, numbered in the order in which they were taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken = 0

    def __call__(self, page: Page, step: str) -> Path:
        """Take the whole page, once its typefaces are there; `step` names the file."""
        self._taken += 1
        path = self._folder / f"{self._taken:02d}-{step.replace(' ', '-')}.png"
        page.evaluate("document.fonts.ready.then(() => true)")
        # Hiding the caret would leave an empty `style` on each field: where HTMX copies that, the
        # site's content policy complains.
        page.screenshot(path=path, full_page=True, caret="initial")
        return path


def folder_of(item: pytest.Item) -> Path:
    """Where this test's pictures lie: its file's name, and its own."""
    test = re.sub(r"\W+", "-", item.name.removeprefix("test_")).strip("-")
    return FOLDER / item.path.stem.removeprefix("test_") / test


def forget(item: pytest.Item) -> None:
    """Remove what an earlier run of this test left."""
    shutil.rmtree(folder_of(item), ignore_errors=True)


def keep_open_pages(item: pytest.Item, browser: Browser) -> list[str]:
    """Take each page that is open, as a failing test left it; a line for each."""
    pages = [page for context in browser.contexts for page in context.pages]
    said = []
    for number, page in enumerate(pages, start=1):
        path = folder_of(item) / f"failed-{number}.png"
        try:
            page.screenshot(path=path, full_page=True, timeout=PATIENCE)
            said.append(f"{page.url}: {path}")
        except Error as error:
            said.append(f"{page.url}: no picture: {error}")
    return said
