"""Pause, drain, resume: what the operator says to one worker or to all of them.

A paused worker goes on with what it has and takes nothing more; a drained one gives it back, too.
Answers that were given lie in its journal, so that nothing is asked twice when it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models.functions import Now

from leaderboard.models import PoolOrder, Worker
from leaderboard.models.edition import SITE, changing, note

EVERYBODY = PoolOrder.EVERYBODY
RESUME = "resume"
"""What lifts an order, where orders are named."""
LONGEST_REASON = 200
NAMED = 20
"""Workers that a refusal names at most."""


class NoSuchWorker(ValueError):
    """No worker of this name has ever been seen."""


def give(kind: str, worker: str = EVERYBODY, *, by: str, why: str = "") -> PoolOrder:
    """Tell a worker, or everybody; it takes the place of what was said before.

    Raises NoSuchWorker for a name that no worker has had.
    """
    _check(worker)
    told = {"kind": PoolOrder.Kind(kind), "by": by, "why": why[:LONGEST_REASON], "at": Now()}
    with changing():
        note("pages", of=[SITE])
        order, _ = PoolOrder.objects.update_or_create(worker=worker, defaults=told)
    return order


def lift(worker: str = EVERYBODY) -> int:
    """Let a worker go on, or everybody, those told by name as well; how many orders there were.

    An order to everybody is not lifted for one worker. Raises NoSuchWorker.
    """
    _check(worker)
    orders = PoolOrder.objects.all()
    if worker != EVERYBODY:
        orders = orders.filter(worker=worker)
    with changing():
        note("pages", of=[SITE])
        return orders.delete()[0]


def standing(worker: str) -> PoolOrder | None:
    """What this worker has been told: of its own order and everybody's the one that asks more."""
    return _strictest(PoolOrder.objects.filter(worker__in=(worker, EVERYBODY)))


def by_name(workers: Iterable[str]) -> dict[str, PoolOrder]:
    """What each of these was told, of those that were told anything; in one query."""
    orders = {order.worker: order for order in PoolOrder.objects.all()}
    found = {
        worker: _strictest(orders[name] for name in (worker, EVERYBODY) if name in orders)
        for worker in workers
    }
    return {worker: order for worker, order in found.items() if order}


def drains(worker: str) -> bool:
    """Whether it is to give back what it has."""
    return PoolOrder.objects.filter(
        worker__in=(worker, EVERYBODY), kind=PoolOrder.Kind.DRAIN
    ).exists()


def _strictest(orders: Iterable[PoolOrder]) -> PoolOrder | None:
    """Draining before pausing; a worker's own before everybody's."""
    return max(
        orders,
        key=lambda order: (order.kind == PoolOrder.Kind.DRAIN, order.worker != EVERYBODY),
        default=None,
    )


def _check(worker: str) -> None:
    if worker == EVERYBODY or Worker.objects.filter(name=worker).exists():
        return
    known = ", ".join(Worker.objects.order_by("-seen").values_list("name", flat=True)[:NAMED])
    raise NoSuchWorker(
        f"no worker is called {worker!r}: "
        + (f"those seen last are {known}" if known else "none was seen yet")
    )
