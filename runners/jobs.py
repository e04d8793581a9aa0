"""The Celery tasks, a few lines each. Messages carry no data, and any of them may get lost."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from leaderboard import disputed, recalls
from leaderboard.accounts import endings
from leaderboard.backends import agree
from leaderboard.hub import state as hub_state
from leaderboard.queue import claims
from leaderboard.samples import costs
from leaderboard.snapshot import published
from leaderboard.tasks import items
from runners import broker, cleanup, worker
from runners.celery import EVALUATE, EXPIRES, app, send_hint


@app.task(name=EVALUATE, bind=True, acks_late=True, expires=EXPIRES)  # type: ignore[untyped-decorator]
def evaluate(self: Any, model: str = "", suite: str = "", size: str = "") -> None:  # noqa: ARG001
    """Claim what fits this worker, and evaluate it; the arguments are for those who look."""
    worker.evaluate(self.request.id)


@app.task(name="release_stalled", expires=EXPIRES)  # type: ignore[untyped-decorator]
def release_stalled() -> None:
    """Queue the runs of dead workers again."""
    if claims.release_stalled():
        send_hint()


@app.task(name="build_boards", expires=EXPIRES)  # type: ignore[untyped-decorator]
def build_boards() -> None:
    """Publish a snapshot of each board that changed."""
    recalls.build_boards()


@app.task(name="analyse_items", expires=EXPIRES)  # type: ignore[untyped-decorator]
def analyse_items() -> None:
    """Analyse the questions of the columns that have newly finished runs."""
    items.analyse_due()


@app.task(name="leave_out_disputed", expires=EXPIRES)  # type: ignore[untyped-decorator]
def leave_out_disputed() -> None:
    """Compute the scores without disputed questions that are missing."""
    disputed.compute_due()


@app.task(name="compare_backends", expires=EXPIRES)  # type: ignore[untyped-decorator]
def compare_backends() -> None:
    """Compare the runs of other backends with those of transformers."""
    agree.compare_due()


@app.task(name="look_at_hub", expires=EXPIRES)  # type: ignore[untyped-decorator]
def look_at_hub() -> None:
    """Ask the Hub about a few models: are they still there, under which name?"""
    hub_state.look()


@app.task(name="tell_of_endings", expires=EXPIRES)  # type: ignore[untyped-decorator]
def tell_of_endings() -> None:
    """Send e-mail about ended submissions to those who asked for it."""
    endings.tell_due()


@app.task(name="read_costs", expires=EXPIRES)  # type: ignore[untyped-decorator]
def read_costs() -> None:
    """Read the costs of runs that an earlier version stored from their files."""
    costs.read_due()


@app.task(name="sweep", expires=EXPIRES)  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Remove what dead workers and unread hints left here, old models, and boards of past hours."""
    cleanup.sweep()
    broker.sweep(settings.PLUMBLINE_HOME / "broker")
    published.thin_out()
