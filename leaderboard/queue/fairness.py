"""First come, first served, without one submitter being served ten times before the others.

Of all that one submitter has waiting, each further model counts as asked for a while later than the
one before it: longer where that one is large, since it keeps a worker for longer. A run's turn is
fixed when it is queued, so whoever waits is overtaken for no longer than these hours.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from leaderboard.models import Run, Submission

GAPS = (
    (3 * 10**9, timedelta(hours=1)),
    (15 * 10**9, timedelta(hours=2)),
)
"""By the parameters of a model at most, how much later the next of its submitter counts."""
LONGEST_GAP = timedelta(hours=4)
"""After a model that is larger still."""


VOTE = timedelta(minutes=15)
"""By so much a vote moves a turn forward."""


def gap(parameters: int) -> timedelta:
    return next((time for most, time in GAPS if parameters <= most), LONGEST_GAP)


def due(others: QuerySet[Submission]) -> datetime:
    """When the turn is of what is asked for now by whom these submissions are."""
    return due_after(Run.objects.filter(submissions__in=others))


def due_after(others: QuerySet[Run]) -> datetime:
    """When the turn is of what is asked for now beside these runs, as far as they wait."""
    now = timezone.now()
    waiting = others.filter(state=Run.State.QUEUED)
    told = waiting.order_by().values_list("due", "votes", "variant__parameters").distinct()
    # Votes for one model bring no other of its submitter forward.
    turns = [(turn + votes * VOTE, parameters) for turn, votes, parameters in told]
    if not turns:
        return now
    last, parameters = max(turns)
    return max(now, last + gap(parameters))


def advance(runs: QuerySet[Run], turn: datetime) -> int:
    """Give waiting runs that somebody else asks for, too, the earlier of both turns; how many."""
    moved = 0
    waiting = runs.filter(state=Run.State.QUEUED)
    for votes in set(waiting.values_list("votes", flat=True)):
        sooner = turn - votes * VOTE
        moved += waiting.filter(votes=votes, due__gt=sooner).update(due=sooner)
    return moved
