"""How many claims a second the database gives when many workers ask at once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

PROCESSES = 4
MOST_CONNECTIONS = 80
"""PostgreSQL has a hundred by default: of more workers several share one, in turn."""


@dataclass(frozen=True)
class Contention:
    workers: int
    connections: int
    claims_per_second: float
    median_ms: float
    slowest_in_a_hundred_ms: float
    """Of a claim, as its worker waits for it."""
    writes_per_second: float
    """Reports of progress, and ends of runs."""


def measure(workers: int, seconds: float, environment: dict[str, str]) -> Contention:
    """All workers claim and end what they have at once, as fast as they are served."""
    connections = min(workers, MOST_CONNECTIONS)
    processes = min(PROCESSES, connections)
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.scale.contention"),
                json.dumps([workers, connections, place, processes, seconds]),
            ],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for place in range(processes)
    ]  # fmt: skip
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()  # it is connected
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [json.loads(process.communicate(timeout=seconds + 120)[0]) for process in started]
    waits = sorted(wait for one in told for wait in one["waits"])
    return Contention(
        workers=workers,
        connections=connections,
        claims_per_second=len(waits) / seconds,
        median_ms=1000 * median(waits),
        slowest_in_a_hundred_ms=1000 * waits[int(0.99 * len(waits))],
        writes_per_second=sum(one["writes"] for one in told) / seconds,
    )


def main(arguments: Sequence[str]) -> None:
    import django

    django.setup()
    from django.db import connection

    from leaderboard.models import Worker
    from leaderboard.queue import claims

    workers, connections, place, processes, seconds = json.loads(arguments[0])
    waits: list[float] = []
    writes = [0]
    begin, ready = threading.Event(), threading.Semaphore(0)

    def work(number: int) -> None:
        mine = [Worker.objects.get(name=f"w{each}") for each in range(number, workers, connections)]
        ready.release()
        begin.wait()
        until = time.monotonic() + seconds
        turn = 0
        while (asked := time.monotonic()) < until:
            claim = claims.claim_next(mine[turn % len(mine)])
            turn += 1
            waits.append(time.monotonic() - asked)
            if claim is None:
                break
            for run in claim.runs:
                claims.report(claim.token, run, phase="evaluate", done=0, total=1)
                claims.fail(claim.token, run, error_class="ModelError", message="made up")
                writes[0] += 2
        connection.close()

    numbers = range(place, connections, processes)
    threads = [threading.Thread(target=work, args=[number]) for number in numbers]
    for thread in threads:
        thread.start()
    for _ in threads:
        ready.acquire()
    print("ready", flush=True)
    sys.stdin.readline()
    begin.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"waits": waits, "writes": writes[0]}))


if __name__ == "__main__":
    main(sys.argv[1:])
