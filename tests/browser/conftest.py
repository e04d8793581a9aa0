"""A real Chromium in front of the site with its real Hub."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from leaderboard.models import Run, Suite
from tests.hub import Orders
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import hub, hub_process

__all__ = ["hub", "hub_process"]

# Playwright's synchronous API runs an event loop in this thread, which Django takes for a mistake.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

LOOKS = [
    {"answered": 10, "documents": 40, "value": 0.4, "low": 0.05, "high": 0.9},
    {"answered": 20, "documents": 40, "value": 0.45, "low": 0.25, "high": 0.65},
]
"""Where the score of the running run stood so far."""


class Visit:
    """A browser window on the site; `complaints` is what its console had to say."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.url = url
        self.complaints: list[str] = []
        self.page.on(
            "console",
            lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None,
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, address: str) -> Page:
        self.page.goto(self.url + address, wait_until="load")
        return self.page

    def never_answers(self, pattern: re.Pattern[str]) -> None:
        """From now on requests for such addresses wait for ever, as on a slow server."""
        self.page.route(pattern, lambda route: None)


Open = Callable[..., Visit]


@pytest.fixture
def site(transactional_db: None, hub: Callable[[Orders], None], settings: Any) -> Suite:
    """A suite, two models of opposite skill, a failed, a running and a waiting run, a worker."""
    settings.PLUMBLINE_SUITE = "demo"
    settings.PLUMBLINE_OPEN_SUBMIT = True
    suite = make.make_suite(benchmarks=("facts",), notice="Scores mean nothing beyond the demo.")
    make.evaluated("lab/texts", suite, {"cloze": 0.9, "mmlu": 0.2, "hybrid": 0.5})
    make.evaluated("lab/letters", suite, {"cloze": 0.2, "mmlu": 0.9, "hybrid": 0.5})
    submission = make.make_submission(make.make_variant("lab/unlucky"), suite)
    failed, running, _ = submission.runs.order_by("task__name")
    make.fail(failed, "ModelError", "four tokens have no vector", "the last line of the log")
    make.start(running, 30, 160)
    Run.objects.filter(pk=running.pk).update(so_far={"metric": "acc", "looks": LOOKS})
    make.publish(suite)
    return suite


@pytest.fixture
def visit(site: Suite, live_server: Any, chromium: Browser) -> Iterator[Open]:
    """Opens windows on the site; options are those of a browser context."""
    contexts: list[BrowserContext] = []

    def open_window(**options: Any) -> Visit:
        contexts.append(chromium.new_context(**options))
        return Visit(contexts[-1], live_server.url)

    yield open_window
    for context in contexts:
        context.close()
