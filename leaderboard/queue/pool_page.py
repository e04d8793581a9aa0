"""The pool: which workers there are, what each can hold, and what it runs now."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone

from leaderboard.models import Run, Worker
from leaderboard.queue.capacity import ALIVE
from leaderboard.queue.listing import listed
from leaderboard.web import kept

REMEMBERED = timedelta(days=7)
"""A worker that has not been seen for longer is no longer listed."""


@dataclass(frozen=True)
class Place:
    """A worker and what it is at."""

    worker: Worker
    silent: float
    """Seconds since it was last seen."""
    runs: list[Run]

    @property
    def alive(self) -> bool:
        return self.silent <= ALIVE.total_seconds()


def pool(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    running = listed(Run.objects.filter(state=Run.State.RUNNING)).order_by("started", "pk")
    held = defaultdict(list)
    for run in running.defer("environment", "dataset_commits"):
        held[run.worker_id].append(run)
    places = [
        Place(worker, max((now - worker.seen).total_seconds(), 0.0), held[worker.name])
        for worker in Worker.objects.filter(seen__gte=now - REMEMBERED).order_by("name")
    ]
    alive = [place for place in places if place.alive]
    context = {
        "now": now,
        "alive": alive,
        "lost": [place for place in places if not place.alive],
        "busy": sum(bool(place.runs) for place in alive),
        "memory": sum(place.worker.memory_bytes for place in alive),
        "waiting": Run.objects.filter(state=Run.State.QUEUED).count(),
    }
    return kept.passing(request, render_to_string("queue/pool_page.html", context, request))
