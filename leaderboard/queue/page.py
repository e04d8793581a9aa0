"""The queue: every run that waits, runs, failed or was done of late, and when its turn comes."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.template.loader import render_to_string
from django.utils import timezone

from leaderboard.models import Run
from leaderboard.models import edition as editions
from leaderboard.queue import estimate, table
from leaderboard.queue.failures import FAULTS, Causes
from leaderboard.queue.listing import LIGHT, listed, of_model
from leaderboard.queue.turns import claims_of, held, lines, turns_of
from leaderboard.web import Address, kept, part, uncounted

RUNNING, WAITING, FAILED, ENDED = 10, 25, 10, 12
"""Lines of each list on one page."""
LATELY = timedelta(days=1)
MOST_SECONDS = 4
"""So long at most a page is given to several readers: the time after which it is refreshed."""
FAULT_WORDS = {"": "All", "model": "The model’s", "task": "The task’s", "us": "Ours"}


def queue(request: HttpRequest) -> HttpResponseBase:
    """Made anew with every change of a state, and every MOST_SECONDS.

    What only time changes (how far a run is, who is alive, who has rested) the page is behind by no
    more than that, and says of which second it is.
    """
    return kept.answer(request, _moment, lambda: _page(request))


def _moment() -> object:
    return int(timezone.now().timestamp() // MOST_SECONDS), editions.now()


def _page(request: HttpRequest) -> str | HttpResponseBase:
    """Each list has pages of its own; a search is for models in all of them."""
    firsts = dict.fromkeys(("running", "waiting", "failed", "done", "withdrawn"), "1")
    address = Address(request, {"q": "", "fault": "", **firsts})
    sought, fault = address["q"], address.choice("fault", ("", *FAULTS))
    plan = estimate.plan()
    claims, turns = claims_of(plan, sought), turns_of(plan, sought)
    causes = Causes(sought, fault)
    parts = {
        "running": part(address, "running", len(claims), RUNNING, "running"),
        "waiting": part(address, "waiting", len(turns), WAITING, "waiting"),
        "failed": part(address, "failed", len(causes), FAILED, "failed"),
    }
    done, parts["done"] = uncounted(address, "done", _ended(Run.State.DONE, sought), ENDED, "done")
    cancelled, parts["withdrawn"] = uncounted(
        address, "withdrawn", _ended(Run.State.CANCELLED, sought), ENDED, "withdrawn"
    )
    if redirect := address.redirect():
        return redirect
    failed_by = causes.n_runs()
    now = timezone.now()
    context = {
        "now": now,
        "address": address,
        "everything": address.url("", q="", **firsts),
        "parts": parts,
        "plan": plan,
        "n_running": sum(map(len, claims)),
        "n_waiting": sum(len(turn.runs) for line in turns for turn in line),
        "n_failed": sum(failed_by.values()),
        "n_done": of_model(Run.objects.all(), sought)
        .filter(state=Run.State.DONE, finished__gt=now - LATELY)
        .count(),
        "faults": _faults(address, failed_by),
        "running": held(claims[parts["running"].slice], plan),
        "waiting": table.waiting(lines(turns[parts["waiting"].slice], plan), plan),
        "failed": causes[parts["failed"].slice],
        "done": done,
        "cancelled": cancelled,
        "found": bool(claims or turns or len(causes) or done or cancelled),
    }
    return render_to_string("queue/page.html", context, request)


def _ended(state: str, sought: str) -> QuerySet[Run]:
    """The runs that ended so, the newest first."""
    runs = listed(of_model(Run.objects.filter(state=state), sought))
    return runs.only(*LIGHT).order_by("-finished", "pk")


def _faults(address: Address, failed_by: dict[str, int]) -> list[tuple[str, int, str, bool]]:
    """The filter of the failures: words, runs, address and whether it is chosen."""
    numbers = {"": sum(failed_by.values()), **failed_by}
    return [
        (
            words,
            numbers[name],
            address.url("failed", fault=name, failed=1),
            name == address["fault"],
        )
        for name, words in FAULT_WORDS.items()
    ]
