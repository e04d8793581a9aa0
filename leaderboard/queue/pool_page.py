"""The workers: what each can hold, what it runs, and what its operator has told it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_POST

from leaderboard.models import PoolOrder, Run, Worker, may_tell_workers
from leaderboard.queue import orders
from leaderboard.queue.estimate import ALIVE
from leaderboard.queue.listing import listed
from leaderboard.web import kept

REMEMBERED = timedelta(days=7)
"""A worker that has not been seen for longer is no longer listed, nor one that said it ends."""
NOT_YOURS = "Only the operators of this site may tell its workers what to do."


@dataclass(frozen=True)
class Place:
    """A worker and what it is at."""

    worker: Worker
    silent: float
    """Seconds since it was last seen."""
    runs: list[Run]
    order: PoolOrder | None

    @property
    def alive(self) -> bool:
        return self.silent <= ALIVE.total_seconds()

    @property
    def takes_runs(self) -> bool:
        return not (self.order or self.worker.refusal or self.worker.is_full())


def pool(request: HttpRequest) -> HttpResponse:
    return kept.passing(request, _page(request))


@require_POST
def tell(request: HttpRequest) -> HttpResponse:
    """Pause, drain or resume a worker, or all of them; the operator alone."""
    if not may_tell_workers(request.user):
        # Answered here: Django would log its own exception with a traceback.
        return render(request, "403.html", {"exception": NOT_YOURS}, status=403)
    order, worker = request.POST.get("order", ""), request.POST.get("worker")
    if worker is None:
        return _refused(request, "No worker was named: choose one of the list, or all of them.")
    try:
        if order == orders.RESUME:
            orders.lift(worker)
        elif order in PoolOrder.Kind.values:
            why = request.POST.get("why", "").strip()
            orders.give(order, worker, by=request.user.get_username(), why=why)
        else:
            choices = ", ".join((*PoolOrder.Kind.values, orders.RESUME))
            return _refused(request, f"No order is called “{order}”: choose one of {choices}.")
    except orders.NoSuchWorker:
        return _refused(request, f"No worker is called “{worker}”: choose one of the list.")
    return redirect("pool")


def _refused(request: HttpRequest, problem: str) -> HttpResponse:
    return HttpResponse(_page(request, problem), status=400)


def _page(request: HttpRequest, problem: str = "") -> str:
    now = timezone.now()
    running = listed(Run.objects.filter(state=Run.State.RUNNING)).order_by("started", "pk")
    held = defaultdict(list)
    for run in running.defer("environment", "dataset_commits"):
        held[run.worker_id].append(run)
    here = Worker.objects.filter(seen__gte=now - REMEMBERED, ended=None)
    workers = list(here.order_by("name"))
    told = orders.by_name([orders.EVERYBODY, *(worker.name for worker in workers)])
    places = [
        Place(
            worker,
            max((now - worker.seen).total_seconds(), 0.0),
            held[worker.name],
            told.get(worker.name),
        )
        for worker in workers
    ]
    alive = [place for place in places if place.alive]
    context = {
        "now": now,
        "alive": alive,
        "lost": [place for place in places if not place.alive],
        "busy": sum(bool(place.runs) for place in alive),
        "memory": sum(place.worker.memory_bytes for place in alive),
        "waiting": Run.objects.filter(state=Run.State.QUEUED).count(),
        "everybody": told.get(orders.EVERYBODY),
        "places": places,
        "may_tell": may_tell_workers(request.user),
        "problem": problem,
    }
    return render_to_string("queue/pool_page.html", context, request)
