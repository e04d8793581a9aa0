"""The site behind its real server, gunicorn as the process tree starts it, for tests over HTTP."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import databases
from tests.runners.place import ROOT, STARTS_WITHIN
from tests.services import free_port


@dataclass(frozen=True)
class Site:
    port: int

    def open(self, sent: bytes = b"", receive: int | None = None) -> socket.socket:
        """A connection that has sent so much, and has room for `receive` bytes of an answer."""
        connection = socket.socket()
        if receive is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(sent)
        return connection

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=named)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()


@contextmanager
def running(home: Path, **variables: str) -> Iterator[Site]:
    """gunicorn with the configuration of the process tree; files and database in `home`."""
    port = free_port()
    inherited = {name: text for name, text in os.environ.items() if "PLUMBLINE" not in name}
    environment = {
        **inherited,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_HOME": str(home),
        "PLUMBLINE_PORT": str(port),
        "PLUMBLINE_SECRET_KEY": "of a test, and long enough for a key that signs sessions",
        **variables,
    }
    databases.begin_at(home)
    subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--noinput"],
        cwd=ROOT, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    gunicorn = [sys.executable, "-m", "gunicorn", "--config", "python:runners.web"]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(gunicorn, cwd=ROOT, env=environment, stdout=log, stderr=log)
    site = Site(port)
    try:
        deadline = time.monotonic() + STARTS_WITHIN
        while not _answers(site):
            assert server.poll() is None, (home / "server.log").read_text()[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield site
    finally:
        server.terminate()
        server.wait(60)


def _answers(site: Site) -> bool:
    try:
        return site.ask("GET", "/healthz")[0] == 200
    except OSError:
        return False
