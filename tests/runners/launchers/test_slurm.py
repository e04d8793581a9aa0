"""A real Slurm starts a worker for a run that waits, and the run is evaluated."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub import serve
from tests.runners import place
from tests.runners.launchers.slurm_cluster import slurm
from tests.runners.test_tree import STATES, SUBMIT
from tests.runners.test_worker import prepared

PLAN = """\
engine: slurm
budget: {workers_at_once: 2}
kinds:
  - {name: small, gpus: 0, memory_gb: 4, hours: 0.5, options: {partition: all}}
"""
LOOK = "from runners import launchers\nlaunchers.look()\n"
LAUNCHES = "print(*((l.state, l.claims, l.handle) for l in Launch.objects.all()))"
ENGINE = """
from pathlib import Path
from django.conf import settings
from runners import launchers
launch = Launch.objects.get()
engine = launchers.launcher_of(launchers.read(Path(settings.PLUMBLINE_LAUNCH)))
"""
LAUNCHES_OF_WORKERS = "print(*(w.launch.kind for w in Worker.objects.all()))"

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder, slurm(Path(folder)) as variables:
        yield variables


def test_the_script_for_workers_by_hand_is_one_that_slurm_takes(cluster: dict[str, str]) -> None:
    script = place.ROOT / "docs" / "deploy" / "slurm" / "worker.sbatch"
    # What is here of a cluster in place of what the script asks for.
    here = ["--partition=all", "--gres=none", "--cpus-per-task=1", "--mem=0"]
    tried = subprocess.run(
        ["sbatch", "--test-only", *here, str(script)],
        env={**os.environ, **cluster}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tried.returncode == 0, tried.stderr
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def test_slurm_starts_the_worker_that_is_missing_and_ends_it(
    tmp_path: Path, cluster: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "launch.yaml").write_text(PLAN)
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    with serve([place.write_content(tmp_path / "content", rows=12)]) as hub:
        _, onlooker = prepared(tmp_path, hub, PLUMBLINE_LAUNCH=str(tmp_path / "launch.yaml"))
        try:
            onlooker.ask(LOOK)
            assert onlooker.ask(LAUNCHES) == ""
            onlooker.ask(SUBMIT)
            onlooker.ask(LOOK)
            # The second look sees that one is on its way.
            onlooker.ask(LOOK)
            ((state, claims, job),) = [eval(onlooker.ask(LAUNCHES))]
            assert (state, claims) == ("waiting", 0), onlooker.ask(
                "print(Launch.objects.get().why)"
            )
            assert onlooker.ask(f"{ENGINE}print(engine.alive(launch.handle))") == "True"
            found = f"{ENGINE}print(engine.find(launchers.engine.name_of(launch.pk)))"
            assert onlooker.ask(found) == job
            assert onlooker.ask(f"{ENGINE}print(engine.find('none'))") == "None"
            logs = tmp_path / "home" / "launches" / job

            def told() -> str:
                return "".join(file.read_text() for file in logs.glob("*"))

            onlooker.wait_for(STATES, lambda said: said == "done done", told)
            assert eval(onlooker.ask(LAUNCHES)) == ("up", 1, job)
            assert onlooker.ask(LAUNCHES_OF_WORKERS) == "small"

            began = time.monotonic()
            onlooker.ask(f"{ENGINE}engine.cancel(launch.handle)")
            place.wait_until(
                lambda: onlooker.ask(f"{ENGINE}print(engine.alive(launch.handle))") == "False",
                30,
                lambda: "the job is still there",
            )
            assert time.monotonic() - began < 14, "it did not end by SIGTERM"
            assert eval(onlooker.ask(LAUNCHES)) == ("ended", 1, job)
            onlooker.ask(f"{ENGINE}engine.cancel('999999')\nassert engine.alive('999999') is False")
        finally:
            onlooker.end()
