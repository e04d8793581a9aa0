"""By what a kept page is known to be current: values that change whenever what it shows may."""

from __future__ import annotations

from django.db.models import Count, F, Max, Model, Subquery, Value
from django.db.models.functions import Coalesce

from leaderboard.models import RunEvent, SuiteEntry
from leaderboard.snapshot.data import Board

LATE = 1000
"""Events may be committed in another order than they are numbered, but not by more than so many."""


def of_row(row: Model) -> tuple[object, ...]:
    """Everything that is stored of it, but for what was left in the database."""
    left = row.get_deferred_fields()
    fields = row._meta.concrete_fields
    return tuple(getattr(row, one.attname) for one in fields if one.attname not in left)


def of_board(board: Board | None) -> tuple[object, ...]:
    if board is None:
        return ()
    return board.suite, board.version, board.style, board.built, board.data_version


def of_titles() -> list[tuple[int, str, str]]:
    """How every suite calls its benchmarks: `sync_tasks` may call them otherwise at any time."""
    titles = SuiteEntry.objects.order_by("suite", "benchmark", "title")
    return list(titles.values_list("suite", "benchmark", "title").distinct())


def of_events() -> dict[str, int | None]:
    """Changes when any run of the site does.

    The number of the last event alone would not do: one with a smaller number that is committed
    later would be missed. So the newest are counted as well.
    """
    last = RunEvent.objects.order_by("-pk").annotate(from_here=F("pk") - LATE)
    since = Coalesce(Subquery(last.values("from_here")[:1]), Value(0))
    return RunEvent.objects.filter(pk__gt=since).aggregate(n=Count("pk"), last=Max("pk"))
