"""The real process tree on a home folder of its own: it evaluates, recovers, and ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runners import supervisor
from tests import databases
from tests.hub import serve
from tests.runners import place

SUBMIT = f"""
from django.contrib.auth.models import AnonymousUser
from leaderboard.submissions import submit
submit.submit({place.MODEL!r}, user=AnonymousUser())
"""
STATES = "print(*sorted(Run.objects.values_list('state', flat=True)))"
ANSWERING = "print(Run.objects.filter(phase='evaluate', progress_done__gt=0).count())"
LET_LEASES_RUN_OUT = """
from datetime import timedelta
from django.db.models.functions import Now
Run.objects.filter(state="running").update(lease_until=Now() - timedelta(seconds=1))
"""
SLOW, ENDLESS = 3000, 5000
"""Questions that keep the engine busy for long enough to be interrupted, and for longer: seconds
after the first answers. All are read and made to prompts before these."""

WORDS = 30
"""By which each of them is longer: the engine is quick with short ones."""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return place.write_tasks(tmp_path_factory.mktemp("tasks") / "tasks")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve([place.write_content(tmp_path_factory.mktemp("content"), rows=12)]) as url:
        yield url


@pytest.fixture(scope="module")
def slow_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(
        [place.write_content(tmp_path_factory.mktemp("slow"), rows=SLOW, words=WORDS)]
    ) as url:
        yield url


@pytest.fixture(scope="module")
def endless_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(
        [place.write_content(tmp_path_factory.mktemp("endless"), rows=ENDLESS, words=WORDS)]
    ) as url:
        yield url


def gone(processes: list[psutil.Process], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_submission_is_evaluated_and_everything_ends_together(
    tmp_path: Path, tasks: Path, hub: str
) -> None:
    variables = place.environment(tmp_path / "home", tasks, hub)
    with place.tree(variables, tmp_path / "log") as tree:
        tree.wait_for_site()
        tree.ask(SUBMIT)
        tree.wait_for(STATES, "done done")
        numbers = tree.ask("print(Result.objects.filter(subset='', n=12).count())")
        assert numbers == "2"
        assert "tiny-llama" in tree.ask("print(Run.objects.first())")

        again = subprocess.run(
            [sys.executable, "-m", "runners"],
            cwd=place.ROOT, env=variables, capture_output=True, text=True,
            timeout=place.STARTS_WITHIN,
        )  # fmt: skip
        assert again.returncode == 1
        assert f"already running at http://127.0.0.1:{variables['PLUMBLINE_PORT']}" in again.stderr

        everything = tree.everything()
        tree.process.send_signal(signal.SIGINT)
        assert gone(everything, 10)
    home = tmp_path / "home"
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in (home, *home.iterdir())}
    assert modes["home"] == "0o700"
    assert {modes[name] for name in modes if name.startswith(("secret", "db."))} == {"0o600"}


def test_a_killed_worker_loses_its_child_and_its_run_ends_well_all_the_same(
    tmp_path: Path, tasks: Path, slow_hub: str
) -> None:
    databases.begin_at(tmp_path / "home")
    variables = place.environment(tmp_path / "home", tasks, slow_hub)
    with place.tree(variables, tmp_path / "log") as tree:
        tree.wait_for_site()
        tree.ask(SUBMIT)
        wait_for_progress(tree)
        worker = tree.part("worker", "--devices")
        below = worker.children(recursive=True)
        assert below
        worker.kill()
        assert gone(below, 30)
        assert tree.ask(STATES) == "running running"
        tree.ask(LET_LEASES_RUN_OUT)
        tree.wait_for(STATES, "done done")
        assert tree.process.poll() is None
        assert tree.part("worker", "--devices").pid != worker.pid
        # What the worker had not yet begun is not charged with its death.
        assert "2" in tree.ask("print(*Run.objects.values_list('attempt', flat=True))")
        assert int(tree.ask(JOURNALLED)) > 0


def test_a_stopped_tree_gives_its_runs_back(tmp_path: Path, tasks: Path, endless_hub: str) -> None:
    databases.begin_at(tmp_path / "home")
    variables = place.environment(tmp_path / "home", tasks, endless_hub)
    with place.tree(variables, tmp_path / "log") as tree:
        tree.wait_for_site()
        tree.ask(SUBMIT)
        wait_for_progress(tree)
        everything = tree.everything()
        tree.process.send_signal(signal.SIGTERM)
        assert gone(everything, 10)
        assert tree.ask(STATES) == "queued queued"
        assert tree.ask("print(*Run.objects.values_list('attempt', flat=True))") == "0 0"


def test_nothing_survives_a_killed_supervisor(
    tmp_path: Path, tasks: Path, endless_hub: str
) -> None:
    databases.begin_at(tmp_path / "home")
    variables = place.environment(tmp_path / "home", tasks, endless_hub)
    with place.tree(variables, tmp_path / "log") as tree:
        tree.wait_for_site()
        tree.ask(SUBMIT)
        wait_for_progress(tree)
        everything = tree.everything()
        tree.process.kill()
        assert gone(everything, 10)


def test_a_port_that_is_taken_is_named_with_its_variable(tmp_path: Path, tasks: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        variables = place.environment(tmp_path, tasks, "http://127.0.0.1:9", PLUMBLINE_PORT=port)
        refused = subprocess.run(
            [sys.executable, "-m", "runners"],
            cwd=place.ROOT, env=variables, capture_output=True, text=True,
            timeout=place.STARTS_WITHIN,
        )  # fmt: skip
    assert refused.returncode == 1
    assert f"port {port} is taken" in refused.stderr
    assert "PLUMBLINE_PORT" in refused.stderr


def test_a_port_that_a_killed_site_still_holds_is_waited_for() -> None:
    with socket.socket() as leaving:
        leaving.bind(("127.0.0.1", 0))
        leaving.listen()
        timer = threading.Timer(1.0, leaving.close)
        timer.start()
        supervisor.check_port(leaving.getsockname()[1], "PLUMBLINE_PORT")
        timer.join()


JOURNALLED = """
import json
from leaderboard.samples import store as artifacts
records = [json.load(artifacts.open(a.sha256)) for a in Artifact.objects.filter(kind="record")]
print(sum(record["requests"]["journalled"] for record in records))
"""


def wait_for_progress(tree: place.Tree) -> None:
    """Until some requests are answered, and with them in the journal, and many are not."""
    tree.onlooker.wait_for(ANSWERING, lambda said: said != "0", tree.told)
    assert tree.ask(STATES) == "running running"
