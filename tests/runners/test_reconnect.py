"""A worker that loses its connections to the database finishes its claim all the same."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg2
import pytest

from tests import services
from tests.runners.test_contest import environment, finish, start

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
