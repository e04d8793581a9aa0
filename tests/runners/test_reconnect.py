"""A worker that loses its connections to the database finishes its claim all the same."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest

from tests import services
from tests.runners.test_contest import environment, finish, start
from tests.runners.test_process import until

EVALUATE = """
import sys, threading
from django.core.management import call_command
call_command("migrate", verbosity=0)
from leaderboard.queue import claims
from leaderboard.models import Run
from runners import backends, execute
from tests.runners import rows, standin
backends.PYTHON = (sys.executable, standin.__file__)
worker = rows.worker()
rows.queued("arc", "mmlu", variant=rows.variant("standin/slow"))
claim = claims.claim_next(worker)
print("claimed", flush=True)
execute.evaluate_claim(claim, worker, threading.Event())
print(*Run.objects.values_list("state", "attempt"))
"""
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"


@pytest.mark.services
def test_a_lost_connection_costs_no_attempt(tmp_path: Path) -> None:
    with services.postgresql() as address:
        worker = start(EVALUATE, environment(tmp_path, PLUMBLINE_DATABASE_URL=address))
        assert worker.stdout is not None
        assert worker.stdout.readline() == "claimed\n"
        server = psycopg2.connect(services.POSTGRESQL)
        server.autocommit = True
        cut = 0
        with server.cursor() as cursor:
            while worker.poll() is None and cut < 8:
                cursor.execute(CUT, [address.rpartition("/")[2]])
                cut += cursor.rowcount
                time.sleep(0.7)
        server.close()
        assert cut > 1, "the worker had no connection that could be cut"
        assert finish(worker) == "('done', 1) ('done', 1)\n"


WORK = """
import argparse, sys
from django.core.management import call_command
call_command("migrate", verbosity=0)
from runners import backends, capacity, worker
from tests.runners import rows, standin
known = capacity.of_cpu(backends.PYTHON)
capacity.of_cpu = lambda _: known
backends.PYTHON = (sys.executable, standin.__file__)
rows.queued("arc", variant=rows.variant("standin/polite"))
sys.exit(worker.main(argparse.Namespace(devices="cpu", drain=False, until_idle=None, launch=None)))
"""


class Line:
    """A way to a server that can be cut: what goes over it ends, and nobody answers there."""

    def __init__(self, host: str, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._there = (host, port)
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        for end in (self._server, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._there)
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=(one, other), daemon=True).start()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while sent := one.recv(65536):
            other.sendall(sent)
        other.shutdown(socket.SHUT_WR)


@contextmanager
def line_to(address: str) -> Iterator[tuple[Line, str]]:
    url = urlsplit(address)
    line = Line(url.hostname or "", url.port or 5432)
    try:
        way = url._replace(netloc=f"{url.username}@127.0.0.1:{line.port}")
        yield line, way.geturl()
    finally:
        line.cut()


@pytest.mark.services
def test_a_worker_that_is_asked_to_stop_does_not_wait_for_a_database_that_is_gone(
    tmp_path: Path,
) -> None:
    with services.postgresql() as address, line_to(address) as (line, way):
        worker = start(WORK, environment(tmp_path, PLUMBLINE_DATABASE_URL=way))
        server = psycopg2.connect(address)
        server.autocommit = True

        def is_at_work() -> bool:
            with suppress(psycopg2.errors.UndefinedTable), server.cursor() as cursor:
                cursor.execute("SELECT 1 FROM leaderboard_run WHERE phase = 'evaluate'")
                return bool(cursor.fetchone())
            return False

        try:
            assert until(is_at_work, 120)
            line.cut()
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=120)
        finally:
            worker.kill()
            server.close()
        assert worker.returncode == 0
