"""Services of a test's own: a database of PostgreSQL, a Redis, any server; and how one waits.

Where a service is missing the test is skipped, loudly; on CI, where it belongs to the machine, the
same is a failure.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Self

import psutil
import psycopg2
import pytest

POSTGRESQL = os.environ.get("PLUMBLINE_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")


STARTS_WITHIN = 240.0
"""Seconds for a program to be there: an idle machine needs a few, one that is slow and busy with
other tests many times as many."""


def missing(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"{what}: on CI a missing service is a failure")
    pytest.skip(what)


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of an empty database that is dropped at the end."""
    try:
        server = psycopg2.connect(POSTGRESQL, connect_timeout=3)
    except psycopg2.OperationalError as error:
        missing(f"NO POSTGRESQL at {POSTGRESQL} (PLUMBLINE_TEST_POSTGRES): {error}")
    server.autocommit = True
    name = f"plumbline_{uuid.uuid4().hex[:12]}"
    with server.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{POSTGRESQL.rsplit('/', 1)[0]}/{name}"
        finally:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    server.close()


class Server:
    """A program that listens on a port of its own, and is started there again and again."""

    def __init__(
        self, command: Callable[[int], Sequence[str]], host: str = "127.0.0.1", **options: Any
    ) -> None:
        self.host, self.port = host, free_port()
        self._command = list(command(self.port))
        self._options = {"stdout": subprocess.DEVNULL, **options}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def process(self) -> psutil.Process:
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, before: Sequence[str] = ()) -> None:
        """`before`: words ahead of its command, such as `env` with variables of its own."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen([*before, *self._command], **self._options)

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex((self.host, self.port)) == 0

        wait_until(listens, STARTS_WITHIN, lambda: f"{self._command} does not listen")

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)


def redis_server(folder: Path, host: str = "127.0.0.1") -> Server:
    """For other hosts as well, where it has the address of one of its own."""
    program = shutil.which("redis-server")
    if program is None:
        missing("NO REDIS: there is no redis-server on the PATH")
    everywhere = ("--bind", "0.0.0.0", "--protected-mode", "no")
    whom = ("--bind", "127.0.0.1") if host == "127.0.0.1" else everywhere
    fixed = (program, *whom, "--save", "", "--dir", str(folder))
    return Server(lambda port: [*fixed, "--port", str(port)], host)


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """The address of a Redis server that lives as long as the test."""
    with redis_server(folder) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(
    happened: Callable[[], bool],
    seconds: float,
    why: Callable[[], str],
    moving: Callable[[], object] = lambda: None,
) -> None:
    """Wait for something for so many seconds after the last change in what `moving` returns.

    How long work takes is a matter of the machine, and of what else it does; that nothing has moved
    for minutes is a matter of ours. `why` is what the failure says.
    """
    seen, deadline = moving(), time.monotonic() + seconds
    while not happened():
        if (now := moving()) != seen:
            seen, deadline = now, time.monotonic() + seconds
        still = f"nothing has moved for {seconds:g} s: {seen}\n" if seen is not None else ""
        assert time.monotonic() < deadline, f"{still}{why()}"
        time.sleep(0.2)
