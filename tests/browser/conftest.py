"""A real Chromium in front of the site with its real Hub."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page

from leaderboard.models import Role, Run, Submission, Suite, User, give
from leaderboard.submissions import precheck
from leaderboard.web import background
from tests.browser.looks import WIDE
from tests.hub import Orders
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.conftest import hub, hub_process

__all__ = ["hub", "hub_process"]

# Playwright's synchronous API runs an event loop in this thread, which Django takes for a mistake.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

TINY = "awkward/tiny-llama"
"""A model on the Hub that can be evaluated."""
SCORES_SO_FAR = [
    {"answered": 10, "documents": 40, "value": 0.4, "low": 0.05, "high": 0.9},
    {"answered": 20, "documents": 40, "value": 0.45, "low": 0.25, "high": 0.65},
]
"""Where the score of the running run stood so far."""


@cache
def board_of_130() -> Any:
    """A made-up board of 130 models on 12 benchmarks."""
    return synthetic_board(130, 12)


class Visit:
    """A browser window on the site; `complaints` is what its console had to say.

    The status of a page that is meant to fail is no complaint; what the content policy refuses is.
    """

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.url = url
        self.complaints: list[str] = []
        self.page.on("console", lambda m: self._hear(m.text, m.type))
        self.page.on("pageerror", lambda error: self._hear(str(error), "error"))

    def _hear(self, message: str, kind: str) -> None:
        if kind in ("error", "warning") and "responded with a status" not in message:
            self.complaints.append(message)

    def go(self, address: str) -> Page:
        self.page.goto(self.url + address, wait_until="load")
        return self.page

    def never_answers(self, pattern: re.Pattern[str]) -> None:
        """From now on requests for such addresses wait for ever, as on a slow server."""
        self.page.route(pattern, lambda route: None)


Open = Callable[..., Visit]


@pytest.fixture(scope="session", autouse=True)
def _no_haste() -> Iterator[None]:
    """A page comes whole, however busy the machine is; `slow_hub` has the site's own patience."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background, "PATIENCE_SECONDS", 120.0)
        yield


@pytest.fixture
def slow_hub(hub: Callable[[Orders], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer of the Hub takes longer than a request waits for it."""
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setitem(precheck.check.__kwdefaults__, "seconds", 120.0)
    hub([{"match": "*", "delay": 0.5}])


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
    Run.objects.filter(pk=running.pk).update(so_far={"metric": "acc", "looks": SCORES_SO_FAR})
    make.publish(suite)
    return suite


@pytest.fixture
def large_board(site: Suite, settings: Any) -> Suite:
    """130 models on 12 benchmarks, beside the site's own suite."""
    settings.PLUMBLINE_SUITE = "synthetic"
    suite = make.make_suite("synthetic")
    publish(board_of_130(), suite)
    return suite


@pytest.fixture
def three_benchmarks(site: Suite, settings: Any) -> Suite:
    """A suite beside the site's own with a flagged model and one that is half measured."""
    suite = make.make_suite("styles", benchmarks=("history", "riddles", "physics"))
    settings.PLUMBLINE_SUITE = "styles"
    skill = {"cloze": 0.7, "mmlu": 0.4, "hybrid": 0.6}
    make.evaluated("lab/steady-7b", suite, skill, n=12)
    make.evaluated("lab/letters-7b", suite, {**skill, "cloze": 0.2, "mmlu": 0.9}, n=12)
    flagged = make.evaluated("lab/copied-7b", suite, skill, n=12).hub_model
    flagged.flag_reason = "Trained on the questions"
    flagged.save()
    submission = make.make_submission(make.make_variant("lab/begun-7b"), suite)
    make.finish(submission.runs.get(task__name="history"), n=12)
    make.publish(suite)
    return suite


@pytest.fixture
def mail(settings: Any) -> None:
    settings.PLUMBLINE_MAIL_URL = "smtp://mail.example.org"


@pytest.fixture
def visit(site: Suite, live_server: Any, chromium: Browser) -> Iterator[Open]:
    """Opens windows on the site; options are those of a browser context.

    At its end no window has had anything to complain of.
    """
    contexts: list[BrowserContext] = []
    windows: list[Visit] = []

    def open_window(**options: Any) -> Visit:
        contexts.append(chromium.new_context(**options))
        windows.append(Visit(contexts[-1], live_server.url))
        return windows[-1]

    yield open_window
    complaints = [complaint for window in windows for complaint in window.complaints]
    for context in contexts:
        context.close()
    assert complaints == []


def signed_in(visit: Open, name: str, role: Role) -> Page:
    """A new account's window on the page of a model."""
    user = User.objects.create_user(name)
    give(user, role)
    client = Client()
    client.force_login(user)
    window = visit(viewport=WIDE)
    cookie = client.cookies[site_settings.SESSION_COOKIE_NAME].value
    window.page.context.add_cookies(
        [{"name": site_settings.SESSION_COOKIE_NAME, "value": cookie, "url": window.url}]
    )
    return window.go("/models/lab/texts")


def evaluate_the_rest(suite: Suite) -> None:
    """What the workers do with a submission of the tiny model."""
    for run in Submission.objects.get(variant__hub_model__repo_id=TINY).runs.exclude(state="done"):
        if run.state == "running":
            Run.objects.filter(pk=run.pk).update(state="queued", lease_token=None, attempt=0)
            run.refresh_from_db()
        make.finish(run, skill=0.7)
    make.publish(suite)
