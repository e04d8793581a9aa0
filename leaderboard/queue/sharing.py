"""How much of one model's runs a worker takes: all, or a part where others have nothing to do.

The model is then loaded once by each, which costs nobody anything that he would need.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from leaderboard.models import Run, Worker
from leaderboard.models.run import State
from leaderboard.queue import orders
from leaderboard.queue.estimate import live_workers

SMALLEST = 6
"""Runs: a smaller part is not worth loading a model for."""


def part(runs: Sequence[Run], worker: Worker) -> Sequence[Run]:
    """Of runs in their order, which all fit `worker`, those that it takes.

    Tasks of one benchmark stay together: they ask the same documents, and are answered together.
    """
    if len(runs) <= SMALLEST or not (helpers := _helpers(runs[0], worker)):
        return runs
    enough = max(ceil(len(runs) / (1 + helpers)), SMALLEST)
    by_benchmark: dict[str, list[Run]] = {}
    for run in runs:
        by_benchmark.setdefault(run.task.benchmark, []).append(run)
    taken: list[Run] = []
    for together in by_benchmark.values():
        if len(taken) >= enough:
            break
        taken += together
    return taken


def _helpers(run: Run, worker: Worker) -> int:
    """Workers that are idle and could take such a run, less the other models that wait for them."""
    busy = Run.objects.filter(worker=OuterRef("pk"), state=State.RUNNING)
    live = {other.name for other in live_workers()} - {worker.name}
    idle = Worker.objects.filter(~Exists(busy), name__in=live)
    told = orders.by_name(live)
    variant = run.variant
    how = (variant.dtype, variant.quantisation, variant.backend, variant.code)
    helpers = sum(
        other.computes(*how)
        and run.needed_bytes <= other.memory_bytes
        and other.name not in told
        and not other.is_full()
        for other in idle
    )
    if not helpers:
        return 0
    ready = Q(not_before=None) | Q(not_before__lte=Now())
    waiting = Run.objects.filter(ready, state=State.QUEUED).exclude(variant=variant).order_by()
    return max(helpers - len(waiting.values("variant").distinct()[:helpers]), 0)
