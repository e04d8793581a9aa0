"""Who waits for how long: a queue worked off in hours that are counted, not lived through.

Every claim is the real one, of the real table; made up are only the hours that a model takes, and
the clock by which its worker is free again.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from django.db.models import F

from leaderboard.models import Run, Worker
from leaderboard.models.run import IN_TURN
from leaderboard.queue import claims

HOURS_PER_BILLION = 0.25
"""That a worker has a model for, all its runs together."""
SPREAD = 0.5
"""Standard deviation of the logarithm of these hours, around what the size says."""


@dataclass(frozen=True)
class Waiting:
    workers: int
    models: int
    hours: float
    """Until the last of them was taken."""
    greedy_median_hours: float
    """From the beginning to a claim, of who asked for half of all models at once."""
    others_median_hours: float
    others_last_hours: float
    out_of_turn: int
    """Claims of a run although another that fitted stood before it: none, if the rule holds."""


def play(workers: Sequence[Worker], rng: Random, greedy: set[int]) -> Waiting:
    """Let the workers take everything; `greedy` are the variants of the one who asked for half."""
    free = [(0.0, number) for number in range(len(workers))]
    hours: dict[bool, list[float]] = {True: [], False: []}
    out_of_turn = 0
    while True:
        now, number = heapq.heappop(free)
        first = Run.objects.filter(state=Run.State.QUEUED).order_by(*IN_TURN).first()
        claim = claims.claim_next(workers[number])
        if claim is None or first is None:
            break
        out_of_turn += first.pk not in {run.pk for run in claim.runs}
        variant = claim.runs[0].variant
        hours[variant.pk in greedy].append(now)
        Run.objects.filter(lease_token=claim.token).update(
            state=Run.State.CANCELLED, lease_token=None, lease_until=None, finished=F("started")
        )
        expected = HOURS_PER_BILLION * (variant.parameters or 0) / 1e9
        heapq.heappush(free, (now + expected * rng.lognormvariate(0, SPREAD), number))
    return Waiting(
        workers=len(workers),
        models=sum(map(len, hours.values())),
        hours=max(map(max, hours.values())),
        greedy_median_hours=median(hours[True]),
        others_median_hours=median(hours[False]),
        others_last_hours=max(hours[False]),
        out_of_turn=out_of_turn,
    )
