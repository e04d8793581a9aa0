"""What all tests share; `tests/settings.py` sets their environment."""

from __future__ import annotations

import gc
import json
import os
import shutil
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from demo.screenshots import FLAGS
from tests import databases, processes, shots, tiers
from tests.services import missing
from tests.tasks.exported import export_to

hypothesis.settings.register_profile(
    "patient",
    parent=hypothesis.settings.default,  # which is another on CI
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")
"""How long an example takes is a matter of the machine, and no failure."""

expect.set_options(timeout=30_000)
"""Milliseconds until a page must show what it is to: five seconds are few on a busy machine."""
PAGE_TIMEOUT = 120_000
"""Milliseconds until a page must be there, or what is to be pressed: the browser starts a process
for a site's first page, which has to wait its turn beside whatever else is tested."""

gc.set_threshold(10_000, 20, 50)
"""What a test process imports stays: to look for garbage among it took a tenth of its time."""


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of real benchmark data and models that PLUMBLINE_TEST_DATA names."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PLUMBLINE_TEST_DATA", default))
    if not folder.is_dir():
        missing(f"NO TEST DATA: {folder} is no folder; set PLUMBLINE_TEST_DATA")
    return folder


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our tasks as files that lm-evaluation-harness loads, written once for all test processes."""
    return export_to(shared_by_processes(tmp_path_factory) / "exported")


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where lm-evaluation-harness keeps what it knows of task files, for all test processes."""
    return shared_by_processes(tmp_path_factory) / "index"


def shared_by_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.getbasetemp()
    return made.parent if "PYTEST_XDIST_WORKER" in os.environ else made


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest) -> bool:
    """Whether the database has its tables already."""
    return databases.begin_here() or bool(request.config.getvalue("reuse_db"))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with databases.put_back_by_copy(django_db_blocker):
        yield


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One real browser for all tests: a second event loop of Playwright's would be refused."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        missing("NO BROWSER: there is no chromium on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        browser.on("context", lambda context: context.set_default_timeout(PAGE_TIMEOUT))
        yield browser
        browser.close()


@pytest.fixture
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has asked for anything yet, and no new minute begins while a test's requests count."""
    from django.core.cache import caches

    from leaderboard.web import throttle

    caches["throttle"].clear()
    now = time.time() // 60 * 60 + 20
    monkeypatch.setattr(throttle, "time", SimpleNamespace(time=lambda: now))


@pytest.fixture
def shot(request: pytest.FixtureRequest) -> shots.Shots:
    """Takes a picture of a page: `shot(page, "the board")`; CONTRIBUTING.md says where it lies."""
    return shots.Shots(shots.folder_of(request.node))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> processes.Scheduler:
    return processes.make_scheduler(config, log)


def pytest_xdist_auto_num_workers() -> int:
    return processes.number_of_processes()


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers_ = ("quick", "test", "all", "none")
    parser.addoption("--tier", choices=tiers_, default="all", help="see tests/tiers.py")
    parser.addoption("--group", action="append", default=[], choices=sorted(tiers.GROUPS))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    tier, groups = config.option.tier, config.option.group
    return True if tiers.left_out(collection_path, tier=tier, groups=groups) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.tier == "quick":
        slow = [item for item in items if not tiers.is_quick(item)]
        config.hook.pytest_deselected(items=slow)
        items[:] = filter(tiers.is_quick, items)
    # In each of several processes, after pytest-django has put them into its own order.
    if hasattr(config, "workerinput"):
        processes.sort_longest_first(items)


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.option.durations:
        processes.report_longest(terminalreporter)
    processes.report_missing(terminalreporter)
    if file := os.environ.get("PLUMBLINE_TESTS_FAILED"):  # for `python -m tests`
        reports = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
        # Of one in which its process ended, or was ended for its time, xdist makes the report.
        failed = {report.nodeid: not isinstance(report.longrepr, str) for report in reports}
        Path(file).write_text(json.dumps(failed))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "chromium" in getattr(item, "fixturenames", ()):
        shots.forget(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where a test fails, the pages that it has open are kept as pictures."""
    report = yield
    browser = getattr(item, "funcargs", {}).get("chromium")
    if report.when == "call" and report.failed and browser is not None:
        report.sections.append(("Pages", "\n".join(shots.keep_open_pages(item, browser))))
    return report
