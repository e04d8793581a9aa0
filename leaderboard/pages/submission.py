"""One submission: how its runs are doing, and what its submitter can do."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from leaderboard import submissions
from leaderboard.models import LIVE, Run, Submission
from leaderboard.pages.listing import by_benchmark, listed
from leaderboard.problem import Problem, Refused

ENDED = (Run.State.DONE, Run.State.FAILED, Run.State.CANCELLED)


def submission(request: HttpRequest, pk: UUID) -> HttpResponse:
    return _page(request, _get(pk))


@require_POST
def again(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Submit the same commit and precision once more; only what ended badly is repeated."""
    earlier = _get(pk)
    variant = earlier.variant
    try:
        submitted = submissions.submit(
            variant.hub_model.repo_id, variant.commit, variant.dtype, user=request.user
        )
    except Refused as refused:
        return _page(request, earlier, refused.problems, status=409)
    return redirect(submitted)


@require_POST
def withdraw(request: HttpRequest, pk: UUID) -> HttpResponse:
    withdrawn = _get(pk)
    try:
        submissions.withdraw(withdrawn, request.user)
    except submissions.NotYours as problem:
        raise PermissionDenied(str(problem)) from problem
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
    runs = by_benchmark(listed(shown.runs.all()))
    active = shown.state == Submission.State.ACTIVE
    may_submit = submissions.may_submit(request.user)
    context = {
        "submission": shown,
        "runs": runs,
        "problems": problems,
        "ended": all(run.state in ENDED for run in runs),
        "done": sum(run.state == Run.State.DONE for run in runs),
        "failed": sum(run.state == Run.State.FAILED for run in runs),
        "now": timezone.now(),
        "may_repeat": may_submit and any(run.state not in LIVE for run in runs),
        "may_withdraw": active and submissions.may_withdraw(shown, request.user),
    }
    return render(request, "pages/submission.html", context, status=status)
