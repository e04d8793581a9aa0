"""The queue: every run that waits, runs, failed or was done of late, and who works on them."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from leaderboard.capacity import live_workers
from leaderboard.models import Run
from leaderboard.pages.address import Address
from leaderboard.pages.board import page_links
from leaderboard.pages.failures import Causes
from leaderboard.pages.listing import listed

WAITING, ENDED = 100, 12
"""How many of each are listed; the counts are of all. Failures have further pages."""


def queue(request: HttpRequest) -> HttpResponse:
    state = Run.State
    address = Address(request, {"page": "1"})
    causes = Causes()
    n_causes = len(causes)
    pages = max(1, -(-n_causes // ENDED))
    number = address.number("page", last=pages)
    if redirect := address.redirect():
        return redirect
    first = (number - 1) * ENDED
    failed = causes[first : first + ENDED]
    counts = dict(Run.objects.values_list("state").annotate(n=Count("pk")).order_by())
    runs = listed(Run.objects.defer("environment", "dataset_commits"))
    ended = runs.order_by("-finished", "pk")
    workers = sorted(live_workers(), key=lambda worker: worker.name)
    context = {
        "now": timezone.now(),
        "counts": {name: counts.get(name, 0) for name in state.values},
        "address": address,
        "failed": failed,
        "n_failed": causes.n_runs(),
        "n_causes": n_causes,
        "first": first + 1,
        "last": first + len(failed),
        "pages": [(n, url and f"{url}#failed") for n, url in page_links(number, pages, address)],
        "running": runs.filter(state=state.RUNNING).order_by("started", "pk"),
        "waiting": runs.filter(state=state.QUEUED).order_by("-priority", "created", "pk")[:WAITING],
        "done": ended.filter(state=state.DONE)[:ENDED],
        "cancelled": ended.filter(state=state.CANCELLED)[:ENDED],
        "workers": workers,
        "largest": max((worker.memory_bytes for worker in workers), default=None),
    }
    return render(request, "pages/queue.html", context)
