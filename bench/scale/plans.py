"""By which index PostgreSQL finds what the queue asks for."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import Run, Worker
from leaderboard.queue import claims


def plans(worker: Worker) -> dict[str, list[str]]:
    """For each step of a run's life how its queries find their rows: the scans of their plans."""
    claim = claims.claim_next(worker)
    assert claim is not None
    run = claim.runs[0]
    steps: dict[str, Callable[[], object]] = {
        "claim": lambda: claims.claim_next(worker),
        "renew": lambda: claims.renew(claim.token),
        "report": lambda: claims.report(claim.token, run, phase="evaluate", done=0, total=1),
        "release": claims.release_stalled,
        "renew of a stranger": lambda: claims.renew(uuid.uuid4()),
    }
    return {name: _scans(step) for name, step in steps.items()}


def _scans(step: Callable[[], object]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        step()
    found: dict[str, None] = {}
    for query in captured.captured_queries:
        sql = query["sql"]
        if Run._meta.db_table not in sql or not sql.startswith(("SELECT", "UPDATE")):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
        scans = re.findall(r"(\w[\w ]*Scan(?: using \w+)? on \w+)", plan)
        found |= dict.fromkeys(scan for scan in scans if Run._meta.db_table in scan)
    return list(found)
