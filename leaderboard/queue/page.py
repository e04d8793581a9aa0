"""The pages of the queue and of its workers.

The queue shows who computes which model and how far it is, what waits and when its turn comes, what
failed and what was done of late; the other page what each worker can hold and what it was told.

A worker takes all that it can of one model at once, so a suite of a hundred columns is one line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import TypeVar
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.template import engines
from django.template.defaultfilters import truncatechars
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_POST

from leaderboard.models import PoolOrder, Run, Submission, Worker, may_tell_workers
from leaderboard.models import edition as editions
from leaderboard.models.run import run_url
from leaderboard.queue import estimate, orders
from leaderboard.queue.claims import WAITS
from leaderboard.queue.estimate import ALIVE, Plan, Running, Turn, reason
from leaderboard.queue.fairness import VOTE
from leaderboard.queue.listing import (
    FAULTS,
    LIGHT,
    MAX_NAMED,
    Causes,
    Named,
    listed,
    named,
    of_model,
)
from leaderboard.templatetags.design import monogram, style_sign, style_word
from leaderboard.templatetags.figures import count, duration, parameters, plural, utc
from leaderboard.templatetags.runs import starts, takes
from leaderboard.web import Address, Span, kept, part, total_span, uncounted

RUNNING, WAITING, FAILED, ENDED = 10, 25, 10, 12
"""Lines of each list on one page."""
LATELY = timedelta(days=1)
MOST_SECONDS = 4
"""So long at most a page is given to several readers: the time after which it is refreshed."""
FAULT_WORDS = {"": "All", "model": "The model’s", "task": "The task’s", "us": "Ours"}
MAX_AT_WORK = 3
"""So many runs of a claim are shown with what they are at."""
MAX_IDLE = 5
"""So many idle workers are named on the queue; the page of the workers lists them all."""
FUNCTIONS = {
    function.__name__: function
    for function in (
        *(count, duration, monogram, parameters, plural, run_url, starts, style_sign, style_word),
        *(takes, truncatechars, utc),
    )
}
"""What Django's own templates know as filters and tags."""
REMEMBERED = timedelta(days=7)
"""A worker that has not been seen for longer is no longer listed, nor one that said it ends."""
NOT_YOURS = "Only the operators of this site may tell its workers what to do."


def queue(request: HttpRequest) -> HttpResponseBase:
    """Made anew with every change of a state, and every MOST_SECONDS.

    What only time changes (how far a run is, who is alive, who has rested) the page is behind by no
    more than that, and says of which second it is.
    """
    return kept.answer(request, _moment, lambda: _queue_page(request))


def _moment() -> object:
    return int(timezone.now().timestamp() // MOST_SECONDS), editions.now()


def _queue_page(request: HttpRequest) -> str | HttpResponseBase:
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
    if elsewhere := address.redirect():
        return elsewhere
    at_work = [_at_work(claim)[:MAX_AT_WORK] for claim in claims[parts["running"].slice]]
    groups = turns[parts["waiting"].slice]
    # Of all lists in one query: to write it down takes Django longer than the database to answer.
    runs = _by_pk(
        [
            *(run.pk for shown in at_work for run in shown),
            *(turns_[0].first.pk for turns_ in groups),
            *(*done, *cancelled),
        ]
    )
    busy = {run.worker for run in plan.running}
    idle = [worker for worker in plan.workers if worker.name not in busy]
    failed_by = causes.n_runs()
    now = timezone.now()
    context = {
        "now": now,
        "address": address,
        "everything": address.url("", q="", **firsts),
        "parts": parts,
        "plan": plan,
        "n_models": len({claim[0].repo_id for claim in claims}),
        "n_running": sum(map(len, claims)),
        "n_waiting": sum(len(turn.runs) for line in turns for turn in line),
        "n_failed": sum(failed_by.values()),
        "n_done": of_model(Run.objects.all(), sought)
        .filter(state=Run.State.DONE, finished__gt=now - LATELY)
        .count(),
        "faults": _faults(address, failed_by),
        "running": held(claims[parts["running"].slice], at_work, runs, plan),
        "idle": idle[:MAX_IDLE],
        "more_idle": len(idle[MAX_IDLE:]),
        "waiting": _waiting_table(lines(groups, runs, plan), plan),
        "failed": causes[parts["failed"].slice],
        "done": [runs[pk] for pk in done if pk in runs],
        "cancelled": [runs[pk] for pk in cancelled if pk in runs],
        "found": bool(claims or turns or len(causes) or done or cancelled),
    }
    return render_to_string("queue/page.html", context, request)


def _ended(state: str, sought: str) -> QuerySet[Run, UUID]:
    """The keys of the runs that ended so, the newest first."""
    runs = of_model(Run.objects.filter(state=state), sought).order_by("-finished", "pk")
    return runs.values_list("pk", flat=True)


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


@dataclass(frozen=True)
class Line:
    """Turns of one model that follow each other, in the table of what waits."""

    turns: Sequence[Turn]
    run: Run
    """The first of them, with its model."""
    named: list[tuple[int, Named]]
    """The first few, each with its position."""
    takes: Span | None
    reason: str
    """What it waits for besides its turn; empty for nothing."""
    submission: Submission | None

    @property
    def turn(self) -> Turn:
        return self.turns[0]

    @property
    def last_position(self) -> int:
        return self.turns[-1].last_position

    @property
    def n(self) -> int:
        return sum(len(turn.runs) for turn in self.turns)

    @property
    def more(self) -> int:
        return self.n - len(self.named)

    @property
    def voted(self) -> float:
        """Seconds by which votes moved it forward."""
        return VOTE.total_seconds() * self.run.votes


Begun = TypeVar("Begun", Running, Run)


@dataclass(frozen=True)
class Held:
    """What a worker holds of one model: the runs that it is at, and how many wait behind them."""

    at: list[Run]
    behind: int
    left: Span | None

    @property
    def run(self) -> Run:
        return self.at[0]


def turns_of(plan: Plan, model: str) -> list[list[Turn]]:
    """What waits of models that have this text in their ID, by lines of the table."""
    found = [turn for turn in plan.turns if model.lower() in turn.first.repo_id.lower()]
    return [list(turns) for _, turns in groupby(found, key=lambda turn: turn.first.variant)]


def lines(groups: Sequence[Sequence[Turn]], runs: Mapping[UUID, Run], plan: Plan) -> list[Line]:
    """The lines with their models, in one query; `runs` has the first of each."""
    chosen = [_positions(turns)[:MAX_NAMED] for turns in groups]
    by_pk = named(pk for of_line in chosen for _, pk in of_line)
    return [
        Line(
            turns,
            runs[turns[0].first.pk],
            [(position, by_pk[pk]) for position, pk in of_line if pk in by_pk],
            total_span(turn.takes for turn in turns),
            reason(turns[0], plan),
            next(iter(runs[turns[0].first.pk].submissions.all()), None),
        )
        for turns, of_line in zip(groups, chosen, strict=True)
        # What was taken since the plan was made waits no more.
        if turns[0].first.pk in runs
    ]


def _positions(turns: Iterable[Turn]) -> list[tuple[int, UUID]]:
    return [
        (turn.position + place, run.pk) for turn in turns for place, run in enumerate(turn.runs)
    ]


def _by_pk(wanted: Iterable[UUID]) -> dict[UUID, Run]:
    runs = listed(Run.objects.filter(pk__in=list(wanted)))
    light = runs.select_related("rerun").only(*LIGHT, "rerun__reason")
    return {run.pk: run for run in light.prefetch_related("submissions")}


def claims_of(plan: Plan, model: str) -> list[list[Running]]:
    """What each worker holds, of models that have this text in their ID."""
    claims: dict[UUID, list[Running]] = {}
    for run in plan.running:
        if model.lower() in run.repo_id.lower():
            claims.setdefault(run.claim, []).append(run)
    return list(claims.values())


def held(
    claims: Sequence[Sequence[Running]],
    at_work: Sequence[Sequence[Running]],
    runs: Mapping[UUID, Run],
    plan: Plan,
) -> list[Held]:
    """The claims with their models; `runs` has those that are `at_work`."""
    return [
        Held(
            [runs[run.pk] for run in shown if run.pk in runs],
            len(claim) - len(shown),
            total_span(plan.left[run.pk] for run in claim),
        )
        for claim, shown in zip(claims, at_work, strict=True)
        if shown[0].pk in runs
    ]


def _at_work(claim: Sequence[Begun]) -> Sequence[Begun]:
    """Tasks of one benchmark are answered together; the others wait for their turn."""
    return [run for run in claim if run.phase != WAITS] or claim


def _waiting_table(lines: Sequence[Line], plan: Plan) -> SafeString:
    """The table of what waits, as HTML; empty where nothing does.

    By Jinja2, since it has hundreds of cells and is made anew with every change of a run's state.
    """
    if not lines:
        return SafeString()
    template = engines["jinja2"].get_template("queue/waiting_table.jinja")
    html = template.render({**FUNCTIONS, "lines": lines, "n_workers": len(plan.workers)})
    return mark_safe(html)  # noqa: S308 the template escapes what it is given


@dataclass(frozen=True)
class Place:
    """A worker and what it is at."""

    worker: Worker
    silent: float
    """Seconds since it was last seen."""
    held: list[Held]
    """By claim what it is at."""
    order: PoolOrder | None

    @property
    def alive(self) -> bool:
        return self.silent <= ALIVE.total_seconds()

    @property
    def takes_runs(self) -> bool:
        return not (self.order or self.worker.refusal or self.worker.is_full())


def pool(request: HttpRequest) -> HttpResponse:
    return kept.passing(request, _pool_page(request))


@require_POST
def tell(request: HttpRequest) -> HttpResponse:
    """Pause, drain or resume a worker, or all of them; the operator alone."""
    if not may_tell_workers(request.user):
        # Answered here: Django would log its own exception with a traceback.
        return render(request, "403.html", {"exception": NOT_YOURS}, status=403)
    order, worker = request.POST.get("order", ""), request.POST.get("worker")
    if worker is None:
        return _refused(request, "No worker was named: choose one of the list, or all of them.")
    try:
        if order == orders.RESUME:
            orders.lift(worker)
        elif order in PoolOrder.Kind.values:
            why = request.POST.get("why", "").strip()
            orders.give(order, worker, by=request.user.get_username(), why=why)
        else:
            choices = ", ".join((*PoolOrder.Kind.values, orders.RESUME))
            return _refused(request, f"No order is called “{order}”: choose one of {choices}.")
    except orders.NoSuchWorker:
        return _refused(request, f"No worker is called “{worker}”: choose one of the list.")
    return redirect("pool")


def _refused(request: HttpRequest, problem: str) -> HttpResponse:
    return HttpResponse(_pool_page(request, problem), status=400)


def _pool_page(request: HttpRequest, problem: str = "") -> str:
    now = timezone.now()
    running = listed(Run.objects.filter(state=Run.State.RUNNING)).order_by("started", "pk")
    claims: dict[str | None, dict[UUID | None, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in running.only(*LIGHT, "lease_token"):
        claims[run.worker_id][run.lease_token].append(run)
    here = Worker.objects.filter(seen__gte=now - REMEMBERED, ended=None)
    workers = list(here.order_by("name"))
    told = orders.by_name([orders.EVERYBODY, *(worker.name for worker in workers)])
    places = [
        Place(
            worker,
            max((now - worker.seen).total_seconds(), 0.0),
            [
                Held(at := list(_at_work(runs)[:MAX_AT_WORK]), len(runs) - len(at), None)
                for runs in claims[worker.name].values()
            ],
            told.get(worker.name),
        )
        for worker in workers
    ]
    alive = [place for place in places if place.alive]
    context = {
        "now": now,
        "alive": alive,
        "lost": [place for place in places if not place.alive],
        "busy": sum(bool(place.held) for place in alive),
        "memory": sum(place.worker.memory_bytes for place in alive),
        "waiting": Run.objects.filter(state=Run.State.QUEUED).count(),
        "everybody": told.get(orders.EVERYBODY),
        "places": places,
        "may_tell": may_tell_workers(request.user),
        "problem": problem,
    }
    return render_to_string("queue/pool_page.html", context, request)
