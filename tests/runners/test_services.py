"""Workers on PostgreSQL and Redis: how they ask a long queue, and what a lost connection costs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from kombu import Connection

from runners import broker
from tests import services
from tests.runners.place import ROOT, STARTS_WITHIN, environment_of_site, printed, wait_until
from tests.runners.test_operations_page import (  # noqa: F401 - collected here as well
    test_a_board_that_was_backed_up_is_restored_as_it_was,
)

pytestmark = pytest.mark.services

SETUP = "import django; django.setup()\n"


@pytest.fixture
def database() -> Iterator[str]:
    """The address of an empty PostgreSQL database of the test's own."""
    with services.postgresql() as address:
        yield address


@pytest.fixture
def databases(database: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Two of PostgreSQL, for a board that is backed up and restored."""
    with services.postgresql() as other:
        yield "postgresql", [{"PLUMBLINE_DATABASE_URL": url} for url in (database, other)]


ASK = '''
import json
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from leaderboard.models import HubModel, Run, Variant
from leaderboard.queue import claims
from tests.runners import rows

RUNS, VARIANTS = 100_000, 2_000
call_command("migrate", verbosity=0)
(like,) = rows.queued("arc")
model = HubModel.objects.create(repo_id="many/models")
made = Variant.objects.bulk_create(
    Variant(hub_model=model, commit=f"{n:040x}", dtype="float32", parameters=10**6)
    for n in range(VARIANTS)
)
OWN = {
    "id": "gen_random_uuid()",
    "variant_id": f"{made[0].pk} + n % {VARIANTS}",
    "run_key": "md5(n::text)",
    "state": "CASE n % 10 WHEN 0 THEN 'running' WHEN 1 THEN 'done' ELSE 'queued' END",
    "lease_token": "CASE n % 10 WHEN 0 THEN md5((n % 200)::text)::uuid END",
    "lease_until": "CASE n % 10 WHEN 0 THEN due + interval '1 day' END",
    "due": f"due + (n - {RUNS}) * interval '1 second'",
}
columns = [field.column for field in Run._meta.concrete_fields]
values = ", ".join(OWN.get(column, column) for column in columns)
with connection.cursor() as cursor:
    cursor.execute(
        f"INSERT INTO leaderboard_run ({', '.join(columns)}) "
        f"SELECT {values} FROM leaderboard_run, generate_series(1, {RUNS}) AS n"
    )
    cursor.execute("ANALYZE")


def reads(plan):
    """Of a plan and those below it how the runs were found, and how many were looked at."""
    if plan.get("Relation Name") == "leaderboard_run" and "Scan" in plan["Node Type"]:
        looked = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        index = plan.get("Index Name") or reads_of_bitmap(plan)
        yield {"index": index, "rows": looked * plan["Actual Loops"]}
    for inner in plan.get("Plans", ()):
        yield from reads(inner)


def reads_of_bitmap(plan):
    return next((inner["Index Name"] for inner in plan.get("Plans", ())), None)


def explained(name, act):
    with CaptureQueriesContext(connection) as asked, transaction.atomic():
        answer = act()
        transaction.set_rollback(name in ("release", "full"))
    for query in asked:
        sql = query["sql"]
        if "leaderboard_run" not in sql or not sql.startswith(("SELECT", "UPDATE")):
            continue
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql)
            plan = cursor.fetchone()[0][0]["Plan"]
            transaction.set_rollback(True)
        found.append({"for": name, "sql": sql, "reads": list(reads(plan))})
    return answer


found = []
worker = rows.worker()
claim = explained("claim", lambda: claims.claim_next(worker))
run = claim.runs[0]
explained("renew", lambda: claims.renew(claim.token))
explained("report", lambda: claims.report(claim.token, run, phase="evaluate", done=1, total=2))
explained("release", lambda: claims.give_back(claim.token, why="a test"))
explained("full", lambda: claims.set_aside(claim.token, worker, message="full"))
explained("complete", lambda: claims.complete(claim.token, run, rows.record(run), rows.files()))
explained("stalled", claims.release_stalled)
print(json.dumps(found))
'''
MOST_ROWS = 200
"""A claim takes forty runs of a variant here, and what it looks at besides is no more than that."""

RUNNING = 11_000
"""Who looks for dead workers looks at all that runs: an index of when leases end would have to be
written with every renewal of each."""


def test_workers_questions_to_a_queue_of_100_000_runs_stay_on_its_indexes(
    tmp_path: Path, database: str
) -> None:
    told = printed([sys.executable, "-c", SETUP + ASK], environment_of_site(tmp_path, database))
    plans: list[dict[str, Any]] = json.loads(told)
    for plan in plans:
        for read in plan["reads"]:
            assert read["index"], f"{plan['for']} reads the whole table: {plan['sql']}"
            most = RUNNING if plan["for"] == "stalled" else MOST_ROWS
            assert read["rows"] <= most, f"{plan['for']}: {read}: {plan['sql']}"
    used = {(plan["for"], read["index"]) for plan in plans for read in plan["reads"]}
    assert ("claim", "queue_order") in used
    by_token = {of for of, index in used if "lease_token" in index}
    assert by_token >= {"claim", "renew", "release", "full"}
    assert {"report", "complete", "stalled"} <= {of for of, _ in used}


EVALUATE = """
import sys, threading
from django.conf import settings
from django.core.management import call_command
call_command("migrate", verbosity=0)
from leaderboard.queue import claims
from leaderboard.models import Run
from runners import evaluate, sandboxed
from runners.engine import Keeper
from tests.runners import rows, standin
sandboxed.PYTHON = (sys.executable, standin.__file__)
settings.PLUMBLINE_TASKS = standin.TASKS
worker = rows.worker()
rows.queued("arc", "mmlu", variant=rows.variant("standin/slow"))
claim = claims.claim_next(worker)
print("claimed", flush=True)
with Keeper() as keeper:
    evaluate.evaluate_claim(claim, worker, threading.Event(), keeper)
print(*Run.objects.values_list("state", "attempt"))
"""
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"


def start(code: str, tmp_path: Path, address: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SETUP + code],
        cwd=ROOT, env=environment_of_site(tmp_path, address), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_lost_connection_costs_no_attempt(tmp_path: Path, database: str) -> None:
    worker = start(EVALUATE, tmp_path, database)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "claimed\n"
    server = psycopg2.connect(services.POSTGRESQL)
    server.autocommit = True
    cut = 0
    with server.cursor() as cursor:
        while worker.poll() is None and cut < 8:
            cursor.execute(CUT, [database.rpartition("/")[2]])
            cut += cursor.rowcount
            time.sleep(0.7)  # the connection that replaces it is cut as well
    server.close()
    assert cut > 1, "the worker had no connection that could be cut"
    assert worker.communicate()[0] == "('done', 1) ('done', 1)\n"


WORK = """
import sys
from django.core.management import call_command
call_command("migrate", verbosity=0)
from runners import devices, sandboxed
from runners.celery import app
from tests.runners import rows, standin
known = devices.cpu_dtypes(sandboxed.PYTHON)
devices.cpu_dtypes = lambda _: known
sandboxed.PYTHON = (sys.executable, standin.__file__)
rows.queued("arc", variant=rows.variant("standin/polite"))
sys.exit(app.start(["worker", "--queues", "evaluate", "--devices", "cpu"]))
"""


def test_a_worker_that_is_asked_to_stop_does_not_wait_for_a_database_that_is_gone(
    tmp_path: Path, database: str
) -> None:
    worker = start(WORK, tmp_path, database)
    name = database.rpartition("/")[2]
    server = psycopg2.connect(services.POSTGRESQL)
    server.autocommit = True
    with closing(psycopg2.connect(database)) as own, closing(server), server.cursor() as cursor:
        own.autocommit = True

        def is_at_work() -> bool:
            with suppress(psycopg2.errors.UndefinedTable), own.cursor() as looks:
                looks.execute("SELECT 1 FROM leaderboard_run WHERE phase = 'evaluate'")
                return bool(looks.fetchone())
            return False

        try:
            wait_until(is_at_work, STARTS_WITHIN, lambda: f"it has ended: {worker.poll()}")
            cursor.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            cursor.execute(CUT, [name])
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=STARTS_WITHIN)
        finally:
            worker.kill()
    assert worker.returncode == 0


SEND = """
from runners.celery import send_hint
from runners.jobs import release_stalled
for _ in range(250):
    send_hint()
release_stalled.apply_async()
"""


def test_hints_that_nobody_reads_do_not_pile_up_in_redis(tmp_path: Path) -> None:
    with services.redis(tmp_path) as url:
        variables = {**environment_of_site(tmp_path), "PLUMBLINE_BROKER_URL": url}
        printed([sys.executable, "-c", SETUP + SEND], variables)
        with Connection(url) as connection, connection.channel() as channel:
            waiting = {name: channel.client.llen(name) for name in ("evaluate", "chores")}
    assert waiting == {"evaluate": broker.MAX_HINTS, "chores": 1}
