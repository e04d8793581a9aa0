"""A real Ray, with a GPU that is not there, starts a worker for a run that waits.

Run by `make test-backends`, which keeps Ray in an environment of its own.
"""

from __future__ import annotations

import os
import re
import shlex
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
from tests.runners.place import STARTS_WITHIN, STATES, SUBMIT, prepared

RAY = Path(os.environ.get("PLUMBLINE_RAY", "ray"))
LIVE = "print(Worker.objects.filter(ended=None).count())"


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


def command() -> list[str]:
    """What docs/scaling.md has an operator call."""
    (found,) = re.findall(r"`ray (job submit [^`]+)`", (place.ROOT / "docs/scaling.md").read_text())
    return shlex.split(found)


def test_the_printed_command_starts_a_worker_that_computes_and_is_stopped(tmp_path: Path) -> None:
    with serve([place.write_content(tmp_path / "content", rows=12)]) as hub:
        variables, onlooker = prepared(tmp_path, hub)
        variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
        try:
            with ray(variables) as address:
                reached = {**variables, "RAY_ADDRESS": address}
                onlooker.ask(SUBMIT)
                place.printed([str(RAY), *command()], reached)
                (job,) = httpx2.get(f"{address}/api/jobs/").json()

                def log() -> str:
                    return httpx2.get(f"{address}/api/jobs/{job['submission_id']}/logs").text

                def status() -> str:
                    answer = httpx2.get(f"{address}/api/jobs/{job['submission_id']}")
                    return str(answer.json()["status"])

                onlooker.wait_for(STATES, lambda states: states == "done done", log)
                assert status() == "RUNNING"
                place.printed([str(RAY), "job", "stop", "--no-wait", job["submission_id"]], reached)
                place.wait_until(lambda: status() == "STOPPED", STARTS_WITHIN, log)
                assert onlooker.ask(LIVE) == "0", log()
        finally:
            onlooker.end()
