"""What workers ask a queue of 100,000 runs, PostgreSQL answers from indexes, row by row."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import services
from tests.runners.place import ROOT
from tests.runners.test_contest import environment

ASK = '''
import json
import django
django.setup()
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from leaderboard.models import HubModel, Run, Variant
from leaderboard.queue import claims, room
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
explained("full", lambda: room.set_aside(claim.token, worker, message="full"))
explained("complete", lambda: claims.complete(claim.token, run, rows.record(run), rows.files()))
explained("stalled", claims.release_stalled)
print(json.dumps(found))
'''
MOST_ROWS = 200
"""A claim takes forty runs of a variant here, and what it looks at besides is no more than that."""

RUNNING = 11_000
"""Who looks for dead workers looks at all that runs: an index of when leases end would have to be
written with every renewal of each."""


@pytest.mark.services
def test_workers_questions_stay_on_their_indexes(tmp_path: Path) -> None:
    with services.postgresql() as address:
        asked = subprocess.run(
            [sys.executable, "-c", ASK],
            cwd=ROOT,
            env=environment(tmp_path, PLUMBLINE_DATABASE_URL=address),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert asked.returncode == 0, asked.stderr[-3000:]
    plans: list[dict[str, Any]] = json.loads(asked.stdout)
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
