"""The public log of recalls: what was found to be wrong, why, and how far its reruns are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from leaderboard.models import Recall, Run
from leaderboard.models import edition as editions
from leaderboard.models.run import WAITING, State
from leaderboard.queue import listed
from leaderboard.web import Address, kept, part

ON_A_PAGE = 25
RUNS = 50
NAMES = 6
"""So many of the names are written in the list; all of them on the recall's own page."""


@dataclass(frozen=True)
class Stand:
    """How far the results of a recall are measured again."""

    replaced: int = 0
    waiting: int = 0
    failed: int = 0
    left: int = 0
    """Nothing waits to replace them: the operator decides."""


@dataclass(frozen=True)
class Entry:
    recall: Recall
    stand: Stand

    @property
    def names(self) -> Sequence[str]:
        names: Sequence[str] = self.recall.named
        return names[:NAMES]

    @property
    def more_names(self) -> int:
        return max(0, len(self.recall.named) - NAMES)


@require_safe
def recalls(request: HttpRequest) -> HttpResponseBase:
    address = Address(request, {"page": "1"})
    return kept.answer(request, editions.now, lambda: _list(request, address))


@require_safe
def recall(request: HttpRequest, number: int) -> HttpResponseBase:
    address = Address(request, {"page": "1"})
    return kept.answer(request, editions.now, lambda: _one(request, number, address))


def _list(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    found = Recall.objects.all()
    shown = part(address, "page", found.count(), ON_A_PAGE, "recalls")
    if redirect := address.redirect():
        return redirect
    rows = list(found[shown.slice])
    stands = _stands(rows)
    context = {
        "entries": [Entry(row, stands.get(row.pk, Stand())) for row in rows],
        "part": shown,
    }
    return render_to_string("recalls/page.html", context, request)


def _one(request: HttpRequest, number: int, address: Address) -> str | HttpResponseBase:
    row = get_object_or_404(Recall, pk=number)
    runs = _with_rerun(listed(row.runs.all())).order_by(
        "variant__hub_model__repo_id", "task__name", "pk"
    )
    shown = part(address, "page", runs.count(), RUNS, "results")
    if redirect := address.redirect():
        return redirect
    context = {
        "entry": Entry(row, _stands([row]).get(row.pk, Stand())),
        "runs": runs.defer("log_tail", "environment", "dataset_commits")[shown.slice],
        "part": shown,
    }
    return render_to_string("recalls/recall.html", context, request)


def _with_rerun(runs: QuerySet[Run]) -> QuerySet[Run]:
    # Two lists that are made once. Asked of each run whether another replaces it, SQLite reads the
    # whole table each time: seconds, of a recall of a thousand results.
    again = Run.objects.exclude(replaces=None).values("replaces")
    return runs.annotate(
        waits=Q(pk__in=again.filter(state__in=WAITING)),
        failed=Q(pk__in=again.filter(state=State.FAILED)),
    )


def _stands(recalls: Sequence[Recall]) -> dict[int, Stand]:
    """By recall, with one query for all."""
    replaced = Q(superseded_by__isnull=False)
    open_ = Q(superseded_by=None)
    rows = (
        _with_rerun(Run.objects.filter(recall__in=recalls))
        .order_by()
        .values("recall")
        .annotate(
            n_replaced=Count("pk", filter=replaced),
            n_waiting=Count("pk", filter=open_ & Q(waits=True)),
            n_failed=Count("pk", filter=open_ & Q(waits=False, failed=True)),
            n_left=Count("pk", filter=open_ & Q(waits=False, failed=False)),
        )
    )
    return {
        row["recall"]: Stand(row["n_replaced"], row["n_waiting"], row["n_failed"], row["n_left"])
        for row in rows
    }
