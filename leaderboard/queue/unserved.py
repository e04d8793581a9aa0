"""What waits, by variant: enough to say which workers are missing."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db.models import Max, Min, Q
from django.db.models.functions import Now

from leaderboard.models import PoolOrder, Run, Worker
from leaderboard.models.run import WAITING_SINCE, State
from leaderboard.queue import orders
from leaderboard.queue.estimate import live_workers


class Group(NamedTuple):
    """Runs of one variant that wait and do not rest."""

    needed_bytes: int
    dtype: str
    quantisation: str
    backend: str
    code: str
    since: datetime

    def fits(self, worker: Worker) -> bool:
        computes = worker.computes(self.dtype, self.quantisation, self.backend, self.code)
        return computes and self.needed_bytes <= worker.memory_bytes


def groups() -> list[Group]:
    """In the order in which they are taken."""
    ready = Run.objects.filter(Q(not_before=None) | Q(not_before__lte=Now()), state=State.QUEUED)
    by_variant = ready.order_by().values(
        *("variant_id", "variant__dtype", "variant__quantisation", "variant__backend"),
        "variant__code",
    )
    found = by_variant.annotate(
        needed=Max("needed_bytes"), since=Min(WAITING_SINCE), first=Max("priority"), due=Min("due")
    )
    return [
        Group(*row)
        for row in found.order_by("-first", "due").values_list(
            *("needed", "variant__dtype", "variant__quantisation", "variant__backend"),
            *("variant__code", "since"),
        )
    ]


def takers() -> list[Worker]:
    """Workers that are alive and neither told to take nothing nor resting from a full machine."""
    alive = live_workers()
    told = orders.by_name(worker.name for worker in alive)
    return [worker for worker in alive if worker.name not in told and not worker.is_full()]


def all_rest() -> bool:
    """Whether everybody was told to take nothing, those to come as well."""
    return PoolOrder.objects.filter(worker=orders.EVERYBODY).exists()
