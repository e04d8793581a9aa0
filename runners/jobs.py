"""The Celery jobs: what is done at a hint. They carry no data, and any of them may get lost."""

from __future__ import annotations

import logging
import threading
from typing import Any

from celery import Task
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings

from leaderboard.backends import agree
from leaderboard.hub import state as hub_state
from leaderboard.queue import claims
from leaderboard.snapshot import published
from leaderboard.tasks import items
from runners import (
    backends,
    broker,
    capacity,
    confinement,
    hub_cache,
    leftovers,
    trusted_code,
)
from runners.celery import EXPIRES, app
from runners.execute import evaluate_claim

logger = logging.getLogger(__name__)

stopping = threading.Event()


def stop_evaluating(**_: Any) -> None:
    stopping.set()


worker_shutting_down.connect(stop_evaluating)


@app.task(name="evaluate_next", bind=True, expires=EXPIRES)  # type: ignore[untyped-decorator]
def evaluate_next(self: Task) -> None:
    """Evaluate what waits and fits, until nothing does."""
    if why := confinement.refusal():
        logger.error("no model is run here: %s", why)
        return
    worker = capacity.announce(
        self.request.hostname,
        capacity.detect(),
        backends.backend(),
        runs_code=trusted_code.runs_code(),
        confinement=confinement.here().name,
    )
    while not stopping.is_set() and (claim := claims.claim_next(worker)):
        evaluate_claim(claim, worker, stopping)


def look_for_work(**_: Any) -> None:
    """At the start of a worker: do not wait for the first hint of the beat."""
    evaluate_next.apply_async(retry=False)


worker_ready.connect(look_for_work)


@app.task(name="release_stalled", expires=EXPIRES)  # type: ignore[untyped-decorator]
def release_stalled() -> None:
    """Queue the runs of dead workers again."""
    if claims.release_stalled():
        evaluate_next.apply_async(retry=False)


@app.task(name="build_boards", expires=EXPIRES)  # type: ignore[untyped-decorator]
def build_boards() -> None:
    """Publish a snapshot of each board that changed."""
    published.build_due()


@app.task(name="analyse_items", expires=EXPIRES)  # type: ignore[untyped-decorator]
def analyse_items() -> None:
    """Look at the questions of the columns in which runs were finished since."""
    items.analyse_due()


@app.task(name="compare_backends", expires=EXPIRES)  # type: ignore[untyped-decorator]
def compare_backends() -> None:
    """Hold runs of other backends beside those of transformers."""
    agree.compare_due()


@app.task(name="look_at_hub", expires=EXPIRES)  # type: ignore[untyped-decorator]
def look_at_hub() -> None:
    """Ask what became of a few models on the Hub."""
    hub_state.look()


@app.task(name="sweep", expires=EXPIRES)  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Remove what dead workers and unread hints left here, old models, and boards of past hours."""
    leftovers.sweep()
    hub_cache.make_room()
    broker.sweep(settings.PLUMBLINE_HOME / "broker")
    published.thin_out()
