"""One submission: how its runs are doing, and what its submitter can do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from leaderboard.model_pages import place
from leaderboard.models import LIVE, Result, Run, Submission, may_submit, may_withdraw
from leaderboard.queue import (
    Cause,
    Plan,
    by_benchmark,
    by_cause,
    estimate,
    listed,
    reason,
    standing,
    votes,
)
from leaderboard.snapshot import OWN, published
from leaderboard.submissions import precheck, submit
from leaderboard.web import Problem, Refused, throttle, total_span

NOT_YOURS = "Only who submitted a model, or a moderator, may withdraw it."
VOTES_PER_MINUTE = 10
BOARD_WITHIN = timedelta(minutes=10)
"""So long after its last run a submission waits for the board that has it."""
ENDED = (Run.State.DONE, Run.State.RECALLED, Run.State.FAILED, Run.State.CANCELLED)


@dataclass(frozen=True)
class Line:
    """A run in the table, with its position in the queue where it waits, or with its score."""

    run: Run
    position: int | None
    score: Result | None


def submission(request: HttpRequest, pk: UUID) -> HttpResponse:
    return _page(request, _get(pk))


@require_POST
def again(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Submit the same commit and precision once more; only what ended badly is repeated."""
    earlier = _get(pk)
    if not may_submit(request.user):
        return _page(request, earlier, (submit.may_not(request.user),), status=403)
    if too_many := throttle.too_many_checks(request):
        return _page(request, earlier, (too_many,), status=429)
    variant = earlier.variant
    try:
        submitted = submit.submit(
            variant.hub_model.repo_id,
            variant.commit,
            variant.dtype,
            submit.way_again(variant),
            user=request.user,
            visitor=throttle.visitor_digest(request),
        )
    except Refused as refused:
        return _page(request, earlier, refused.problems, status=_status(refused.problems))
    return redirect(submitted)


def _status(problems: Iterable[Problem]) -> int:
    """Of the answer to a submission that these problems stopped."""
    if any(problem.code in precheck.ASK_AGAIN for problem in problems):
        return 503
    return 429 if any(problem.wait_seconds for problem in problems) else 409


@require_POST
def vote(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Count a reader's vote; who has voted already is only shown so."""
    voted_for = _get(pk)
    if seconds := throttle.wait("votes", VOTES_PER_MINUTE, request):
        message = f"More than {VOTES_PER_MINUTE} votes came from your network in a minute."
        remedy = f"Vote again in {seconds} s."
        too_many = Problem("vote", "throttled", message, remedy, wait_seconds=seconds)
        return _page(request, voted_for, (too_many,), status=429)
    try:
        votes.cast(voted_for, request.user, throttle.visitor_digest(request))
    except votes.NotCounted as problem:
        refused = Problem("vote", "vote", str(problem), "")
        return _page(request, voted_for, (refused,), status=409)
    return redirect(f"{voted_for.get_absolute_url()}#votes")


@require_POST
def withdraw(request: HttpRequest, pk: UUID) -> HttpResponse:
    withdrawn = _get(pk)
    try:
        submit.withdraw(withdrawn, request.user)
    except submit.NotYours:
        # Answered here: Django would log its own exception with a traceback.
        return render(request, "403.html", {"exception": NOT_YOURS}, status=403)
    return redirect(withdrawn)


def _get(pk: UUID) -> Submission:
    related = Submission.objects.select_related("variant__hub_model", "suite", "submitter")
    return get_object_or_404(related, pk=pk)


def _page(
    request: HttpRequest,
    shown: Submission,
    problems: tuple[Problem, ...] = (),
    *,
    status: int = 200,
) -> HttpResponse:
    runs = by_benchmark(listed(shown.runs.defer("environment", "dataset_commits")))
    ended = all(run.state in ENDED for run in runs)
    plan = None if ended else estimate.plan()
    places = plan.places() if plan else {}
    causes = by_cause(by_benchmark(listed(standing(shown.runs.all()))))
    repeated = _repeated_by(shown, runs)
    active = shown.state == Submission.State.ACTIVE
    scores = _scores(shown, runs)
    failed = sum(run.state == Run.State.FAILED for run in runs)
    own = None
    if ended and active and not failed:
        own = place(published.newest(shown.suite, OWN), shown.variant_id)
    ranked = own is not None and bool(own.rank or own.flag_reason or own.superseded_by or own.apart)
    awaited = ended and active and not failed and not ranked and _just_ended(runs)
    context = {
        "submission": shown,
        "runs": runs,
        "lines": [
            Line(run, places[run.pk][1] if run.pk in places else None, scores.get(run.pk))
            for run in runs
        ],
        "own": own if ranked else None,
        "awaited": awaited,
        "live": not ended or awaited,
        "outlook": _outlook(runs, plan) if plan else None,
        "causes": causes,
        "remedy": _remedy(causes),
        "repeated": repeated,
        "problems": problems,
        "ended": ended,
        "done": sum(run.state == Run.State.DONE for run in runs),
        "failed": failed,
        "recalled": sum(run.state == Run.State.RECALLED for run in runs),
        "now": timezone.now(),
        "votes": votes.shown(shown, request.user, throttle.visitor_digest(request)),
        "may_repeat": may_submit(request.user)
        and not repeated
        and any(run.state not in LIVE for run in runs),
        "may_withdraw": active and may_withdraw(shown, request.user),
    }
    response = render(request, "submissions/page.html", context, status=status)
    if waits := [problem.wait_seconds for problem in problems if problem.wait_seconds]:
        response["Retry-After"] = str(waits[0])
    return response


def _scores(shown: Submission, runs: Sequence[Run]) -> dict[UUID, Result]:
    """By run its number in the metric that the suite shows."""
    metrics = dict(shown.suite.entries.values_list("task_id", "metric"))
    done = [run for run in runs if run.state == Run.State.DONE]
    found = Result.objects.filter(run__in=done, subset="", task_name=F("run__task__name"))
    wanted = {run.pk: metrics.get(run.task_id, run.task.primary_metric) for run in done}
    return {
        result.run_id: result
        for result in found.order_by("pk")
        if wanted[result.run_id] == result.metric
    }


def _just_ended(runs: Sequence[Run]) -> bool:
    newest = max((run.finished for run in runs if run.finished), default=None)
    return newest is not None and timezone.now() - newest < BOARD_WITHIN


def _outlook(runs: Sequence[Run], plan: Plan) -> dict[str, Any]:
    """When what is unfinished of a submission will be taken, and how long it takes."""
    places = plan.places()
    waiting = sorted((places[run.pk] for run in runs if run.pk in places), key=lambda p: p[1])
    turn, position = waiting[0] if waiting else (None, 0)
    turns = {place.position: place for place, _ in waiting}.values()
    running = [plan.left[run.pk] for run in runs if run.pk in plan.left]
    return {
        "turn": turn,  # of its first waiting run; None where none waits
        "position": position,
        "reason": reason(turn, plan) if turn else "",  # what has to happen before it can be taken
        "takes": total_span([*running, *(turn.takes for turn in turns)]),
        "workers": len(plan.workers),
        "paused": len(plan.paused),
        "waiting": len(waiting),
    }


def _repeated_by(shown: Submission, runs: list[Run]) -> Submission | None:
    """The newest submission with runs in place of all that ended badly here."""
    bad = {run.run_key for run in runs if run.state not in LIVE}
    later = (
        Run.objects.filter(variant=shown.variant, run_key__in=bad, created__gt=shown.created)
        .exclude(state=Run.State.CANCELLED)
        .exclude(pk__in=[run.pk for run in runs])
    )
    if not bad or bad != set(later.values_list("run_key", flat=True)):
        return None
    return Submission.objects.filter(runs__in=later).order_by("-created").first()


def _remedy(causes: list[Cause]) -> Run | None:
    """A failed run that repeating does not help, the model's own faults first."""
    for error_class in (Run.ErrorClass.MODEL, Run.ErrorClass.TASK):
        for cause in causes:
            if cause.run.error_class == error_class:
                return cause.run
    return None
