"""Times in the reader's own zone, with UTC on hover; in UTC where no script runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from leaderboard.models import Run
from tests.browser.conftest import Open

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AT = datetime(2026, 11, 2, 3, 30, tzinfo=UTC)


@pytest.fixture
def run(site: Any) -> Run:
    """A run that began in the night of a Monday in UTC, which is Sunday in New York."""
    run = Run.objects.get(state="running")
    Run.objects.filter(pk=run.pk).update(created=AT, started=AT)
    return run


def moment(page: Page) -> Any:
    return page.locator(f'time[datetime="{AT.isoformat()}"]').first


def test_a_reader_in_new_york_sees_their_own_clock(run: Run, visit: Open) -> None:
    page = visit(timezone_id="America/New_York").go("/pool")
    clock = page.locator("#live time").first
    expect(clock).to_have_text(re.compile(r"^\d\d:\d\d:\d\d UTC−[45]$"))
    expect(clock).to_have_attribute("title", re.compile(r"^\d\d:\d\d:\d\d UTC$"))
    page = visit(timezone_id="America/New_York").go("/queue")
    expect(moment(page)).to_have_text("1 Nov 2026 22:30 UTC−5")
    expect(moment(page)).to_have_attribute("title", "2 Nov 2026 03:30 UTC")


def test_a_refreshed_part_has_local_times_as_well(run: Run, visit: Open) -> None:
    page = visit(timezone_id="Asia/Kolkata").go("/pool")
    clock = page.locator("#live time").first
    before = clock.inner_text()
    expect(clock).not_to_have_text(before)
    expect(clock).to_have_text(re.compile(r"UTC\+5:30$"))
    expect(clock).to_have_attribute("title", re.compile(r" UTC$"))


@pytest.mark.parametrize(
    "options",
    [{"java_script_enabled": False, "timezone_id": "Asia/Kolkata"}, {"timezone_id": "UTC"}],
)
def test_without_script_and_in_utc_the_time_is_as_the_server_wrote_it(
    run: Run, visit: Open, options: dict[str, Any]
) -> None:
    page = visit(**options).go("/queue")
    expect(moment(page)).to_have_text("2 Nov 2026 03:30 UTC")
    expect(moment(page)).not_to_have_attribute("title", re.compile("."))
