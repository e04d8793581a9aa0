"""How long until the boards show that one run has ended, in a process that builds them already.

The run is one of the model in the middle of the board, on the first column that counts: it is
queued once more, and ended with what it had. A process that has just started reads all columns
first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from leaderboard.models import Run, Suite
from leaderboard.models.edition import changing, note
from leaderboard.snapshot import OWN, published


@dataclass(frozen=True)
class Boards:
    """Seconds from then until each board, by style in the order of their building, shows it."""

    start: Mapping[str, float]
    """From the start of a process that has read no column."""
    run: Mapping[str, float]
    """From the end of one run."""


def after_a_run(suite: Suite) -> Boards:
    start = _build(suite)
    board = published.newest(suite, OWN)
    if board is None:
        raise ValueError(f"{suite} has no board")
    column = next(place for place, column in enumerate(board.columns) if column.counts)
    run = Run.objects.select_related("task").get(pk=board.run_id(board.averaged // 2, column))
    _put(run, Run.State.QUEUED, suite)
    try:
        _build(suite)
    finally:
        _put(run, Run.State.DONE, suite)
    return Boards(start, _build(suite))


def _put(run: Run, state: Run.State, suite: Suite) -> None:
    """Past the claims, which would have its files made anew."""
    with changing():
        Run.objects.filter(pk=run.pk).update(state=state)
        note("data", of=[suite.pk], benchmarks=[run.task.benchmark])


def _build(suite: Suite) -> dict[str, float]:
    began = time.monotonic()
    until = {}
    for style in published.styles_of(suite):
        published.build(suite, style)
        until[style] = time.monotonic() - began
    return until
