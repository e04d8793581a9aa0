"""The Celery tasks, a few lines each. Messages carry no data, and any of them may get lost."""

from __future__ import annotations

from typing import Any

from leaderboard.accounts import endings
from leaderboard.backends import agree
from leaderboard.corrections import recalls, second_figures
from leaderboard.hub import state as hub_state
from leaderboard.queue import claims, live_workers
from leaderboard.samples import costs
from leaderboard.snapshot import published
from leaderboard.tasks import items
from runners import broker, cleanup, worker
from runners.celery import EVALUATE, EXPIRES, app, send_hint


@app.task(name=EVALUATE, bind=True, acks_late=True, expires=EXPIRES)  # type: ignore[untyped-decorator]
def evaluate(self: Any, model: str = "", suite: str = "", size: str = "") -> None:  # noqa: ARG001
    """Claim what fits this worker, and evaluate it; the arguments are for those who look."""
    if worker.evaluator:  # a worker without devices leaves the hint to others
        worker.evaluator.work(self.request.id)


@app.task(name="release_stalled", expires=EXPIRES)  # type: ignore[untyped-decorator]
def release_stalled() -> None:
    """Queue the runs of dead workers again."""
    if claims.release_stalled():
        send_hint()


@app.task(name="sweep", expires=EXPIRES)  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Remove what dead workers and unread hints left, old models, and boards of past hours."""
    cleanup.sweep()
    published.thin_out()
    with app.connection_for_write() as connection:
        broker.forget_workers(connection, [worker.name for worker in live_workers()])


# Those that are one function of the site's.
for _name, _job in {
    "build_boards": recalls.build_boards,
    "analyse_items": items.analyse_due,
    "leave_out_disputed": second_figures.compute_due,
    "compare_backends": agree.compare_due,
    "look_at_hub": hub_state.look,
    "tell_of_endings": endings.tell_due,
    "read_costs": costs.read_due,
}.items():
    app.task(name=_name, expires=EXPIRES)(_job)
