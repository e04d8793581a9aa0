"""PostgreSQL, Redis and a Hub of our own, which can be stopped and come back where they were."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg2

from tests.hub import ROOT
from tests.services import free_port, missing

STARTS_WITHIN = 120.0


class PostgreSQL:
    """A cluster of its own, for as long as the `with` statement lasts.

    Other hosts may enter as well: workers in other network namespaces are such.
    """

    def __init__(self, host: str) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        on_path = shutil.which("pg_ctl")
        if not programs and not on_path:
            missing("NO POSTGRESQL: there is no pg_ctl in /usr/lib/postgresql or on the PATH")
        self._programs = programs[-1] if programs else Path(str(on_path)).parent
        # Not below a folder of a test's, which its other user could not enter.
        self._data = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self._host, self._port = host, free_port()
        # It refuses to run as root.
        self._as_other = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{self._host}:{self._port}/postgres"

    def __enter__(self) -> PostgreSQL:
        if self._as_other:
            shutil.chown(self._data, "postgres")
        self._run("initdb", "-U", "postgres", "-A", "trust", "--no-sync")
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.0.0.0/8 trust\n")
        self._run("pg_ctl", *self._options(), "-w", "start")
        return self

    def __exit__(self, *_: object) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self._data, ignore_errors=True)

    def restart(self) -> None:
        """As after a power cut: whoever is connected is not."""
        self._run("pg_ctl", *self._options(), "-m", "immediate", "-w", "restart")

    def cut_connections(self) -> int:
        """End everybody's connection; how many there were."""
        with psycopg2.connect(self.url) as own, own.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            (ended,) = cursor.fetchone() or (0,)
        own.close()
        return int(ended)

    def _options(self) -> list[str]:
        settings = f"-p {self._port} -k /tmp -c listen_addresses=* -c max_connections=200"
        return ["-l", str(self._data / "log"), "-o", settings]

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_other, str(self._programs / program), "-D", str(self._data)]
        subprocess.run(
            [*command, *arguments],
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=STARTS_WITHIN,
        )


class Server:
    """A program that listens on a port of its own and is started there again and again."""

    def __init__(self, command: Callable[[int], Sequence[str]], host: str) -> None:
        self.host, self.port = host, free_port()
        self._command = list(command(self.port))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + STARTS_WITHIN
        while not _answers(self.host, self.port):
            assert time.monotonic() < deadline, f"{self._command} does not listen"
            time.sleep(0.05)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)


def redis(folder: Path, host: str) -> Server:
    program = shutil.which("redis-server")
    if program is None:
        missing("NO REDIS: there is no redis-server on the PATH")
    fixed = ["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", str(folder)]
    return Server(lambda port: [program, "--port", str(port), *fixed], host)


def hub(content: Path, host: str) -> Server:
    return Server(
        lambda port: [
            *(sys.executable, "-m", "demo.hub", str(content)),
            # Faults are told to it from 127.0.0.1 alone.
            *("--host", "0.0.0.0", "--port", str(port)),
        ],
        host,
    )


def _answers(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
