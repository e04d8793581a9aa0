"""No page asks the database more often because it has more rows: 14 models against 1,000."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.urls import get_resolver

from tests import generated

ROOT = Path(__file__).resolve().parents[2]
LARGE = ("--models", "1000", "--tasks", "4", "--largest", "1400", "--files", "2")
FORMS = {
    *("submission-again", "submission-vote", "submission-withdraw", "pool-orders"),
    *(
        "flag-new",
        "task-key-rule",
        "ruling-end",
        "flag-answer",
        "flag-decide",
        "departure-change",
        "api-submissions",
    ),
}
OF_ONE = {
    *("account", "account-submissions", "account-export", "account-delete", "account-deleted"),
    *("account-notices", "account-tokens", "feed"),
    *("account_logout", "account_confirm_email", "account_reset_password_from_key"),
    *("socialaccount_signup", "socialaccount_connections"),
    *("openid_connect_login", "openid_connect_callback"),
}
"""Pages of one person, or of one attempt to sign in."""
NO_PAGES = FORMS | OF_ONE | {"logout", "favicon", "cell"}
"""Addresses that take forms or lead elsewhere."""

FURTHER = 2
"""A page may have more to say: of questions with a likely wrong key there are none in the small
site. What is asked row by row is asked dozens of times more."""

COUNT = "import django; django.setup(); from tests.leaderboard.counting import main; main()"
Counts = dict[str, list[int | str]]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    home = tmp_path_factory.mktemp("small")
    generated.copy_to(home)
    return counts(home)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    home = tmp_path_factory.mktemp("large")
    generated.make(home, LARGE)
    return counts(home)


def counts(home: Path) -> Counts:
    """By page the queries of each of its addresses, on the site in this folder."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_HOME": str(home),
        "PLUMBLINE_SUITE": "generated",
        "PLUMBLINE_METRICS_TOKEN": "of a test",
        "PLUMBLINE_DEBUG": "1",  # pages are rendered each time, not kept
        "PLUMBLINE_DOWNLOADS_PER_MINUTE": "1000",  # one visitor looks at every address
        "PLUMBLINE_PAGES_PER_MINUTE": "1000",
    }
    environment.pop("PLUMBLINE_DATABASE_URL", None)
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: Counts = json.loads(done.stdout)
    return found


def pages() -> list[str]:
    names = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    return sorted(names - NO_PAGES)


@pytest.mark.parametrize("page", pages())
def test_queries_do_not_grow_with_the_rows(page: str, small: Counts, large: Counts):
    assert page in small, f"add an address of {page} to PAGES in tests/leaderboard/counting.py"
    assert all(isinstance(count, int) for count in small[page]), small[page]
    pairs = zip(small[page], large[page], strict=True)
    assert all(many <= few + FURTHER for few, many in pairs), (small[page], large[page])
