"""Measures the queue on PostgreSQL with as many workers and runs as a large pool has.

`make bench-scale` writes docs/benchmarks/scale.json; PLUMBLINE_BENCH_POSTGRES names the server, in
which a database is made and dropped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import django
import psycopg2
from django.core.management import call_command

from bench.results import machine
from bench.site.database import SERVER

RUNS, RUNS_PER_MODEL, SUBMITTERS = 100_000, 6, 300
RUNS_OF_WAITING = 12_000
"""Fewer, as every one of them is claimed."""
SECONDS = 20.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--workers", default="1,10,100,1000")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args(arguments)
    counts = [int(count) for count in options.workers.split(",")]
    began = time.monotonic()
    with _database() as variables:
        told = _measure(options.runs, counts, options.seconds, variables)
    told |= {
        "machine": machine(None),
        "date": datetime.now(UTC).date().isoformat(),
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    text = json.dumps(told, indent=1)
    print(text)
    if options.output:
        options.output.write_text(f"{text}\n")
    return 0


def _measure(
    runs: int, counts: Sequence[int], seconds: float, variables: dict[str, str]
) -> dict[str, Any]:
    # Tables can be imported only now, with the settings in place.
    from bench.scale import contention, rows, waiting
    from bench.scale.plans import plans
    from leaderboard.models import Run

    rng = Random(0)
    by_waiting = []
    for count in counts:
        if count > RUNS_OF_WAITING // RUNS_PER_MODEL // 2:
            continue
        greedy = rows.fill(min(runs, RUNS_OF_WAITING), RUNS_PER_MODEL, SUBMITTERS, rng)
        by_waiting.append(asdict(waiting.play(rows.workers(count), rng, greedy)))
        call_command("flush", interactive=False, verbosity=0)
    rows.fill(runs, RUNS_PER_MODEL, SUBMITTERS, rng)
    everybody = rows.workers(max(counts))
    told = {"runs": runs, "waiting": by_waiting, "plans": plans(everybody[0])}
    told["contention"] = [asdict(contention.measure(count, seconds, variables)) for count in counts]
    told["left"] = Run.objects.filter(state=Run.State.QUEUED).count()
    return told


@contextmanager
def _database() -> Iterator[dict[str, str]]:
    """The environment of a site on an empty database, which is dropped at the end."""
    name = f"plumbline_scale_{uuid.uuid4().hex[:8]}"
    with closing(psycopg2.connect(SERVER, connect_timeout=5)) as server:
        server.autocommit = True
        with server.cursor() as cursor, tempfile.TemporaryDirectory() as home:
            cursor.execute(f'CREATE DATABASE "{name}"')
            os.environ |= {
                "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
                "PLUMBLINE_DATABASE_URL": f"{SERVER.rpartition('/')[0]}/{name}",
                "PLUMBLINE_HOME": home,
                "PLUMBLINE_SECRET_KEY": uuid.uuid4().hex * 2,
            }
            django.setup()
            call_command("migrate", verbosity=0)
            try:
                yield dict(os.environ)
            finally:
                cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
