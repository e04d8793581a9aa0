"""Submissions of one account with how far their runs are, for its page, its feed and its mail."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from leaderboard.models import Run, Submission


def with_progress(submissions: QuerySet[Submission]) -> QuerySet[Any]:
    """Each with `n` runs, `done`, `failed` and `open` of them, and when the `last` one ended."""
    states = Run.State
    return submissions.select_related("variant__hub_model", "suite").annotate(
        n=Count("runs"),
        done=Count("runs", filter=Q(runs__state=states.DONE)),
        failed=Count("runs", filter=Q(runs__state=states.FAILED)),
        open=Count("runs", filter=Q(runs__state__in=[states.QUEUED, states.RUNNING])),
        last=Max("runs__finished"),
    )


def told(row: Any) -> str:
    """As in “2 of 3 runs done, 1 failed”; of a row of `with_progress`."""
    failed = f", {row.failed} failed" if row.failed else ""
    withdrawn = "withdrawn; " if row.state == Submission.State.WITHDRAWN else ""
    return f"{withdrawn}{row.done} of {row.n} runs done{failed}"
