"""The queue: every run that waits, runs, failed or was done of late, and who works on them."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from leaderboard.capacity import live_workers
from leaderboard.models import Run
from leaderboard.pages.listing import listed

WAITING, ENDED = 100, 12
"""How many of each are listed; the counts are of all."""


def queue(request: HttpRequest) -> HttpResponse:
    state = Run.State
    counts = dict(Run.objects.values_list("state").annotate(n=Count("pk")).order_by())
    runs = listed(Run.objects.defer("environment", "dataset_commits"))
    ended = runs.order_by("-finished", "pk")
    workers = sorted(live_workers(), key=lambda worker: worker.name)
    context = {
        "now": timezone.now(),
        "counts": {name: counts.get(name, 0) for name in state.values},
        "running": runs.filter(state=state.RUNNING).order_by("started", "pk"),
        "waiting": runs.filter(state=state.QUEUED).order_by("-priority", "created", "pk")[:WAITING],
        "failed": ended.filter(state=state.FAILED)[:ENDED],
        "done": ended.filter(state=state.DONE)[:ENDED],
        "cancelled": ended.filter(state=state.CANCELLED)[:ENDED],
        "workers": workers,
        "largest": max((worker.memory_bytes for worker in workers), default=None),
    }
    return render(request, "pages/queue.html", context)
