"""The measurements, one after the other: new pages, kept pages, and all kinds at a steady rate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import psutil
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from bench.site.addresses import Kind, mix
from bench.site.load import Answer, Plan, run
from bench.site.results import Load, Row, Times
from bench.site.server import Server, computed
from evalcore.digest import digest_of
from leaderboard.models import BoardSnapshot, Suite
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import OWN
from leaderboard.snapshot import published as snapshots

RATE, WATCHED = 10.0, 3.0
"""First pages a second after a new snapshot, and for how many seconds."""
OPENING = ("", "/")
"""What every process of the server has shown before anything else is timed."""


def rows(server: Server, kinds: Sequence[Kind], *, repeated: int) -> Iterator[Row]:
    """Each kind, one request after the other over one connection: one process answers them all.

    `repeated`: how many requests are for pages that were shown before, at the least.
    """
    plan, slices = [OPENING], []
    for kind in kinds:
        once = [(kind.name, address) for address in kind.addresses]
        again = -(-repeated // len(once))
        slices.append((len(plan), len(plan) + len(once), len(plan) + len(once) * (1 + again)))
        plan += once * (1 + again)
    answers = run(Plan(server.port, plan, None)).answers
    for kind, (first, second, end) in zip(kinds, slices, strict=True):
        largest = max(answers[first:end], key=lambda answer: answer.bytes)
        yield Row(
            kind=kind.name,
            goal=kind.goal,
            cold=times(answers[first:second]),
            repeated=times(answers[second:end]),
            bytes=largest.bytes,
            compressed=largest.compressed,
            queries=max(queries(address) for address in kind.addresses[:5]),
        )


def load(
    server: Server,
    kinds: Sequence[Kind],
    *,
    rate: float,
    seconds: float,
    worker: psutil.Process | None = None,
) -> Load:
    """All kinds mixed, at a steady rate; and who used the processors meanwhile."""
    before = _used(server, worker)
    outcome = run(Plan(server.port, mix(kinds, round(rate * seconds)), rate))
    used = {who: seconds - before[who] for who, seconds in _used(server, worker).items()}
    everything = used.pop("everything")
    used["load generator"] = outcome.cpu
    used["everything else"] = max(0.0, everything - sum(used.values()))
    return Load(
        rate=rate,
        seconds=outcome.seconds,
        times=times(outcome.answers),
        by_kind={
            kind.name: times(of_kind)
            for kind in kinds
            if (of_kind := [answer for answer in outcome.answers if answer.kind == kind.name])
        },
        shares={kind.name: kind.share for kind in kinds},
        cores={
            who: seconds / outcome.seconds / (os.cpu_count() or 1) for who, seconds in used.items()
        },
        refused=sum(answer.status == 503 for answer in outcome.answers),
    )


def after_snapshots(server: Server, suite: Suite, count: int) -> Times:
    """The slowest of the first pages after each of so many new snapshots, which go again.

    Each is asked for over and over from the moment that it is published: whatever process of the
    server reads it when, somebody waits for it, or nobody does.
    """
    published: list[BoardSnapshot] = []
    slowest: list[Answer] = []
    try:
        for number in range(count):
            published.append(_publish(suite, number))
            plan = Plan(server.port, [OPENING] * round(RATE * WATCHED), RATE)
            answers = run(plan).answers
            slowest.append(max(answers, key=lambda answer: (answer.status != 200, answer.seconds)))
    finally:
        for row in published:
            row.delete()
            artifacts.remove(row.sha256)
    return times(slowest)


def _publish(suite: Suite, number: int) -> BoardSnapshot:
    """The newest board as a new snapshot that says it is another."""
    board = snapshots.newest(suite, OWN)
    last = BoardSnapshot.objects.filter(suite=suite, style=OWN, published=True).latest()
    if board is None:
        raise ValueError(f"{suite} has no board")
    version = digest_of([board.data_version, number])
    board = replace(board, built=timezone.now(), data_version=version)
    return snapshots.publish(suite, board, seconds=last.seconds)


def first_page(server: Server) -> Answer:
    (answer,) = run(Plan(server.port, [OPENING], None)).answers
    return answer


def queries(address: str) -> int:
    """How many a page takes that was never shown, in this process."""
    client = Client(headers={"host": "127.0.0.1"}, raise_request_exception=False)
    with CaptureQueriesContext(connection) as found:
        response = client.get(address)
        list(response)
    return len(found)


def times(answers: Sequence[Answer]) -> Times:
    seconds = np.array([answer.seconds for answer in answers])
    median, p95, p99 = (float(np.percentile(seconds, share)) for share in (50, 95, 99))
    errors = sum(answer.status != 200 for answer in answers)
    return Times(len(answers), median, p95, p99, float(seconds.max()), errors)


def _used(server: Server, worker: psutil.Process | None) -> dict[str, float]:
    """Seconds of processors that were used so far, by whom."""
    of_database = (one for one in psutil.process_iter(["name"]) if one.info["name"] == "postgres")
    whole = psutil.cpu_times()
    idle = whole.idle + getattr(whole, "iowait", 0.0) + getattr(whole, "guest", 0.0)
    return {
        "site": server.cpu(),
        "PostgreSQL": computed(of_database),
        **({"worker": computed([worker])} if worker else {}),
        "everything": float(sum(whole)) - idle,
    }
