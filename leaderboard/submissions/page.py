"""One submission: how its runs are doing, and what its submitter can do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from leaderboard.hub import Problem, Refused
from leaderboard.model_pages import place
from leaderboard.models import LIVE, Result, Run, Submission, may_submit, may_withdraw
from leaderboard.models.task import Style
from leaderboard.queue import (
    Cause,
    Plan,
    by_benchmark,
    by_cause,
    estimate,
    listed,
    reason,
    standing,
    title_of,
    votes,
)
from leaderboard.snapshot import OWN, published
from leaderboard.submissions import precheck, submit
from leaderboard.submissions.form import too_many_checks
from leaderboard.web import throttle, total_span

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

    @property
    def percent(self) -> int:
        """How much of its requests is answered."""
        total = self.run.progress_total
        return round(100 * min(1.0, self.run.progress_done / total)) if total else 0


@dataclass(frozen=True)
class Row:
    """A benchmark, with its runs in each prompt style of the submission."""

    title: str
    cells: tuple[list[Line], ...]


def submission(request: HttpRequest, pk: UUID) -> HttpResponse:
    return _page(request, _get(pk))


@require_POST
def again(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Submit the same commit and precision once more; only what ended badly is repeated."""
    earlier = _get(pk)
    if not may_submit(request.user):
        return _page(request, earlier, (submit.may_not(request.user),), status=403)
    if too_many := too_many_checks(request):
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
    if any(problem.code in (precheck.PENDING, precheck.CHECKS_FULL) for problem in problems):
        return 503
    return 429 if any(problem.wait_seconds for problem in problems) else 409


@require_POST
def vote(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Count a reader's vote; who has voted already is only shown so."""
    voted_for = _get(pk)
    if seconds := throttle.wait("votes", VOTES_PER_MINUTE, request):
        limit = {"limit": VOTES_PER_MINUTE}
        too_many = Problem("throttled.votes", "vote", details=limit, wait_seconds=seconds)
        return _page(request, voted_for, (too_many,), status=429)
    try:
        votes.cast(voted_for, request.user, throttle.visitor_digest(request))
    except votes.NotCounted as why:
        refused = Problem("vote", "vote", details={"reason": str(why)})
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
    lines = [
        Line(run, places[run.pk][1] if run.pk in places else None, scores.get(run.pk))
        for run in runs
    ]
    styles = [style for style in Style.values if any(run.task.style == style for run in runs)]
    done = sum(run.state == Run.State.DONE for run in runs)
    started = [run.started for run in runs if run.started]
    context = {
        "submission": shown,
        "runs": runs,
        "styles": styles,
        "rows": _rows(lines, styles),
        "started": bool(started),
        "waited": _waited(shown, started),
        "share": _share_done(lines),
        "own": own if ranked else None,
        "awaited": awaited,
        "live": not ended or awaited,
        "outlook": _outlook(runs, plan) if plan else None,
        "causes": causes,
        "remedy": _remedy(causes),
        "repeated": repeated,
        "problems": problems,
        "ended": ended,
        "done": done,
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


def _rows(lines: Sequence[Line], styles: Sequence[str]) -> list[Row]:
    titles = dict.fromkeys(title_of(line.run) for line in lines)
    return [
        Row(
            title,
            tuple(
                [
                    line
                    for line in lines
                    if title_of(line.run) == title and line.run.task.style == style
                ]
                for style in styles
            ),
        )
        for title in titles
    ]


def _waited(shown: Submission, started: Sequence[datetime]) -> float | None:
    """Seconds until the first run began; None where none has, or where it was there before."""
    first = min(started, default=None)
    return (first - shown.created).total_seconds() if first and first > shown.created else None


def _share_done(lines: Sequence[Line]) -> int:
    """Percent of all requests that are answered, each run counted alike."""
    parts = [100 if line.run.state in ENDED else line.percent for line in lines]
    return round(sum(parts) / len(parts)) if parts else 0


def _scores(shown: Submission, runs: Sequence[Run]) -> dict[UUID, Result]:
    """By run its number in the metric that the suite shows."""
    metrics = dict(shown.suite.entries.values_list("task_id", "metric"))
    done = [run for run in runs if run.state == Run.State.DONE]
    results = Result.objects.filter(run__in=done, subset="", task_name=F("run__task__name"))
    metric_of = {run.pk: metrics.get(run.task_id, run.task.primary_metric) for run in done}
    return {
        result.run_id: result
        for result in results.order_by("pk")
        if metric_of[result.run_id] == result.metric
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
