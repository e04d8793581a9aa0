"""The site as its operator starts it: by gunicorn with `leaderboard/gunicorn_config.py`."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from runners.supervisor import ROOT, CannotStart

START_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A running site."""

    port: int
    process: subprocess.Popen[bytes]

    def memory(self) -> int:
        """Resident bytes of all its processes; what they share counts for each."""
        return sum(process.memory_info().rss for process in self._processes())

    def cpu(self) -> float:
        """Seconds that its processes have computed so far."""
        return computed(self._processes())

    def _processes(self) -> list[Any]:
        master = psutil.Process(self.process.pid)
        return [master, *master.children(recursive=True)]


def computed(processes: Iterable[Any]) -> float:
    """Seconds that these processes have computed so far."""
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


@contextmanager
def started(variables: Mapping[str, str]) -> Iterator[Server]:
    """The site on PLUMBLINE_PORT; raises CannotStart where it does not answer within a minute."""
    command = [sys.executable, "-m", "gunicorn", "--config", "python:leaderboard.gunicorn_config"]
    port = int(variables["PLUMBLINE_PORT"])
    process = subprocess.Popen(command, env=dict(variables), cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        _wait(port, process)
        yield Server(port, process)
    finally:
        process.terminate()
        process.wait(30)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise CannotStart(f"the site does not answer at port {port}; its last lines are above")
        time.sleep(0.1)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
