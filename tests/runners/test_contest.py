"""Many worker processes and one queue, on each database that the site runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import services
from tests.runners.place import ROOT

WORKERS, MODELS, TASKS = 4, 12, 3
SETUP = "import django; django.setup()\n"
FILL = f"""
from django.core.management import call_command
call_command("migrate", verbosity=0)
from tests.runners import rows
for number in range({MODELS}):
    variant = rows.variant(commit=f"{{number:040x}}")
    rows.queued(*[f"task{{n}}" for n in range({TASKS})], variant=variant)
"""
TAKE_ALL = """
import sys
from leaderboard.queue import claims
from tests.runners import rows
me = rows.worker(sys.argv[1])
sys.stdin.readline()
while claim := claims.claim_next(me):
    for run in claim.runs:
        assert claims.report(claim.token, run, phase="evaluate", done=1, total=2)
        claims.complete(claim.token, run, rows.record(run), rows.files())
        print(run.pk, flush=True)
"""
COUNT = """
from leaderboard.models import Run, Result
print(Run.objects.filter(state="done", attempt=1).count(), Result.objects.count())
"""


@pytest.fixture
def database() -> Iterator[str]:
    """The address of an empty PostgreSQL database of the test's own."""
    with services.postgresql() as address:
        yield address


def environment(home: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_DEBUG": "1",
        "PLUMBLINE_HOME": str(home),
        **more,
    }


def start(code: str, variables: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SETUP + code, *arguments],
        cwd=ROOT,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], said: str = "") -> str:
    output, _ = process.communicate(said, timeout=300)
    assert process.returncode == 0
    return output


def contest(variables: dict[str, str]) -> None:
    finish(start(FILL, variables))
    workers = [start(TAKE_ALL, variables, f"worker{number}") for number in range(WORKERS)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    taken = [line for worker in workers for line in finish(worker).split()]
    assert len(taken) == len(set(taken)) == MODELS * TASKS
    assert finish(start(COUNT, variables)).split() == [str(MODELS * TASKS)] * 2


def test_every_run_has_one_winner_on_sqlite(tmp_path: Path) -> None:
    contest(environment(tmp_path, PLUMBLINE_DATABASE_URL=f"sqlite:///{tmp_path / 'db.sqlite3'}"))


@pytest.mark.services
def test_every_run_has_one_winner_on_postgresql(tmp_path: Path, database: str) -> None:
    contest(environment(tmp_path, PLUMBLINE_DATABASE_URL=database))


@pytest.mark.services
def test_the_queue_keeps_its_promises_on_postgresql(tmp_path: Path, database: str) -> None:
    here = Path(__file__).parent
    tests = [here / "test_queue.py", here / "launchers" / "test_launching.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--create-db", *map(str, tests)],
        cwd=ROOT,
        env=environment(tmp_path, PLUMBLINE_DATABASE_URL=database),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:]
