"""What holds on SQLite holds on PostgreSQL: the same tests once more, where locks are real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg2
import pytest

ROOT = Path(__file__).resolve().parents[2]
URL = os.environ.get("PLUMBLINE_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")


@pytest.mark.services
def test_submissions_and_tasks_behave_the_same_on_postgresql() -> None:
    require_postgresql()
    names = (
        "submissions/test_submit",
        "catalogue/test_sync",
        "test_middleware",
        "queue/test_estimate",
    )
    run_there(*names, "queue/test_page")


@pytest.mark.services
def test_recalls_and_what_ends_beside_them_miss_each_other_on_no_database() -> None:
    require_postgresql()
    run_there("recalls/test_at_once")


def run_there(*names: str) -> None:
    files = [f"tests/leaderboard/{name}.py" for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env={**os.environ, "PLUMBLINE_DATABASE_URL": URL},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def require_postgresql() -> None:
    """Skip where there is none, but never on CI, where it belongs to the machine."""
    try:
        psycopg2.connect(URL, connect_timeout=3).close()
    except psycopg2.OperationalError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NO POSTGRESQL at {URL} (PLUMBLINE_TEST_POSTGRES): {error}")
