"""A real Ray, with a GPU that is not there, starts a worker for a run that waits.

Run by `make test-backends`, which keeps Ray in an environment of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests import services
from tests.hub import serve
from tests.runners import place
from tests.runners.launchers.test_slurm import ENGINE, LAUNCHES, LOOK
from tests.runners.place import STATES, SUBMIT, prepared

RAY = Path(os.environ.get("PLUMBLINE_RAY", "ray"))
WHY = "print(*Launch.objects.values_list('why', flat=True))"
PLAN = """\
engine: ray
options: {{address: "{address}", python: {python}}}
budget: {{workers_at_once: 2, gpus_at_once: 1}}
kinds:
  - {{name: fake, gpus: 1, memory_gb: 4, hours: 0.5}}
"""


@contextmanager
def ray(variables: dict[str, str]) -> Iterator[str]:
    """A head of Ray that says it has one GPU; the address of its dashboard.

    Its folder stands at the top of the temporary folder: its sockets' paths may have 107 bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    ports = {name: services.free_port() for name in ("port", "dashboard-port")}
    options = [f"--{name}={port}" for name, port in ports.items()]
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_JOB_STOP_WAIT_TIME_S": "15"}
    command = [str(RAY), "start", "--head", "--block", "--num-gpus=1", "--num-cpus=2", *options]
    command += ["--include-dashboard=true", f"--temp-dir={folder}"]
    with (folder / "log").open("wb") as log:
        head = subprocess.Popen(
            command, env={**variables, **quiet}, stdout=log, stderr=subprocess.STDOUT
        )
    address = f"http://127.0.0.1:{ports['dashboard-port']}"
    try:
        deadline = time.monotonic() + place.STARTS_WITHIN
        while not _answers(address):
            has_ended = head.poll() is not None or time.monotonic() > deadline
            assert not has_ended, (folder / "log").read_text()[-3000:]
            time.sleep(0.5)
        yield address
    finally:
        head.terminate()
        head.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/api/jobs/", timeout=2).is_success
    except httpx2.HTTPError:
        return False


def test_ray_starts_the_worker_that_is_missing_and_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "launch.yaml"
    with serve([place.write_content(tmp_path / "content", rows=12)]) as hub:
        variables, onlooker = prepared(tmp_path, hub, PLUMBLINE_LAUNCH=str(file))
        try:
            with ray(variables) as address:
                file.write_text(PLAN.format(address=address, python=sys.executable))
                onlooker.ask(SUBMIT)
                onlooker.ask(LOOK)
                state, _, job = eval(onlooker.ask(LAUNCHES))
                assert state == "waiting", onlooker.ask(WHY)

                def log() -> str:
                    return httpx2.get(f"{address}/api/jobs/{job}/logs").text

                onlooker.wait_for(STATES, lambda said: said == "done done", log)
                assert eval(onlooker.ask(LAUNCHES)) == ("up", 1, job)
                assert onlooker.ask(f"{ENGINE}print(engine.alive(launch.handle))") == "True"
                onlooker.ask(f"{ENGINE}engine.cancel(launch.handle)")
                place.wait_until(
                    lambda: onlooker.ask(f"{ENGINE}print(engine.alive(launch.handle))") == "False",
                    30,
                    log,
                )
                assert eval(onlooker.ask(LAUNCHES)) == ("ended", 1, job)
                gone = onlooker.ask(f"{ENGINE}engine.cancel('none')\nprint(engine.alive('none'))")
                assert gone == "False"
            onlooker.ask(f"{ENGINE}launch.delete()\nRun.objects.update(state='queued')")
            # The first look after a long pause asks for nothing: workers that live speak first.
            place.wait_until(
                lambda: "Ray at http" in onlooker.ask(f"{LOOK}{WHY}"),
                30,
                lambda: onlooker.ask(WHY),
            )
        finally:
            onlooker.end()
