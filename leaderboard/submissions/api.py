"""Submitting by a program: the form's fields as JSON, its checks, quotas and limits.

Only a token speaks for an account here; the cookie of a session counts for nothing, so that no
page elsewhere can submit in a reader's name, and no CSRF token is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt

from leaderboard.hub import Problem
from leaderboard.models import Run, Submission, may_submit
from leaderboard.submissions import precheck, submit
from leaderboard.submissions.form import SubmissionForm, steps, too_many_checks
from leaderboard.web import bearer, throttle

MAX_BYTES = 20_000
"""Of a request; the longest fields that the form takes are far from it."""
OPEN = (Run.State.QUEUED, Run.State.RUNNING)


class Unreadable(ValueError):
    """The body is no object of texts; with the status and the problem to answer."""

    def __init__(self, status: int, code: str, field: str = "form", **details: Any) -> None:
        value = str(details.pop("value", ""))
        self.status, self.problem = status, Problem(code, field, value, details)
        super().__init__(str(self.problem))


@csrf_exempt
def submissions(request: HttpRequest) -> JsonResponse:
    """POST submits a model."""
    if request.method != "POST":
        return _wrong_method("POST")
    try:
        bearer.authenticate(request)
        typed = _typed(request)
    except bearer.NoAccount as nobody:
        return _nobody(nobody)
    except Unreadable as unreadable:
        return _refused([unreadable.problem], unreadable.status)
    form = SubmissionForm({"revision": "main", **typed})
    if not may_submit(request.user):
        return _refused([submit.may_not(request.user)], 403, typed)
    if not form.is_valid():
        return _refused(form.problems, 422, typed)
    if too_many := too_many_checks(request, form, thorough=True):
        return _refused([too_many], 429, typed)
    try:
        new = submit.submit(*form.wanted, user=request.user)
    except submit.NotSubmitted as refused:
        return _not_submitted(request, refused, typed)
    answer = JsonResponse(_state(request, new), status=201)
    answer["Location"] = request.build_absolute_uri(_address(new))
    return _kept_by_nobody(answer)


@csrf_exempt
def submission(request: HttpRequest, pk: UUID) -> JsonResponse:
    """GET says how far a submission is. Anybody may look, as at its page; a token has to be one."""
    if request.method not in ("GET", "HEAD"):
        return _wrong_method("GET")
    try:
        if "Authorization" in request.headers:
            bearer.authenticate(request)
        throttle.count_page(request)
    except bearer.NoAccount as nobody:
        return _nobody(nobody)
    except throttle.TooOften as often:
        details = {"reason": often.message}
        too_often = Problem("throttled.pages", "form", "", details, wait_seconds=often.seconds)
        return _refused([too_often], 429)
    related = Submission.objects.select_related("variant__hub_model", "suite")
    shown = related.filter(pk=pk).first()
    if shown is None:
        return _refused([Problem("unknown_submission", "id", str(pk))], 404)
    return _kept_by_nobody(JsonResponse(_state(request, shown)))


def _typed(request: HttpRequest) -> dict[str, str]:
    """The fields of the body. Raises Unreadable."""
    kind = request.content_type or ""
    if kind != "application/json":
        raise Unreadable(415, "content_type", value=kind[:60] or "of no stated type")
    length = request.headers.get("Content-Length", "")
    if not length.isdigit() or int(length) > MAX_BYTES:
        raise Unreadable(413, "too_long", limit=MAX_BYTES)
    try:
        pairs = json.loads(request.body.decode(), object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:100] if isinstance(error, json.JSONDecodeError) else "not UTF-8"
        raise Unreadable(400, "no_json", reason=reason) from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise Unreadable(400, "no_object")
    fields = list(SubmissionForm.base_fields)
    typed: dict[str, str] = {}
    for name, value in pairs:
        shown = name[:40].encode("ascii", "backslashreplace").decode()
        if name not in fields:
            raise Unreadable(400, "unknown_field", shown, value=shown, known=", ".join(fields))
        if name in typed:
            raise Unreadable(400, "given_twice", name, value=name)
        if not isinstance(value, str) or not _is_text(value):
            raise Unreadable(400, "no_text", name, value=name)
        typed[name] = value
    return typed


def _is_text(value: str) -> bool:
    """JSON can name halves of characters, which no database takes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_submitted(
    request: HttpRequest, refused: submit.NotSubmitted, typed: Mapping[str, str]
) -> JsonResponse:
    check = refused.check
    status = 429 if any(problem.wait_seconds for problem in refused.problems) else 422
    more: dict[str, Any] = {}
    if check is not None:
        more["checks"] = [
            {
                "title": step.title,
                "outcome": step.outcome,
                "message": step.message,
                "remedy": step.remedy,
            }
            for step in steps(check)
        ]
        if not check.checked and not check.problems:
            status = 503
        if any(problem.code == precheck.SUBMITTED_BEFORE for problem in refused.problems):
            status = 409
            if check.existing:
                more["submission"] = request.build_absolute_uri(_address(check.existing))
    return _refused(refused.problems, status, typed, **more)


def _state(request: HttpRequest, shown: Submission) -> dict[str, Any]:
    """A submission and its runs, with whole addresses."""
    variant = shown.variant
    runs = list(shown.runs.select_related("task").order_by("task__name", "pk"))
    withdrawn = shown.state == Submission.State.WITHDRAWN
    return {
        "id": str(shown.pk),
        "url": request.build_absolute_uri(shown.get_absolute_url()),
        "state_url": request.build_absolute_uri(_address(shown)),
        "created": shown.created.isoformat(),
        "model": variant.hub_model.repo_id,
        "commit": variant.commit,
        "dtype": variant.dtype,
        "suite": f"{shown.suite.name}@{shown.suite.version}",
        "withdrawn": withdrawn,
        "ended": not any(run.state in OPEN for run in runs),
        "runs": [
            {
                "task": run.task.name,
                "state": run.state,
                "url": request.build_absolute_uri(reverse("run", args=[run.pk])),
                "error": run.error_message,
            }
            for run in runs
        ],
    }


def _address(shown: Submission) -> str:
    return reverse("api-submission", args=[shown.pk])


def _nobody(nobody: bearer.NoAccount) -> JsonResponse:
    words = {"reason": nobody.message, "way_in": nobody.remedy}
    wait = nobody.wait_seconds
    problem = Problem("no_account", "authorization", "", words, wait_seconds=wait)
    answer = _refused([problem], 429 if wait else 401)
    if not wait:
        answer["WWW-Authenticate"] = "Bearer"
    return answer


def _wrong_method(method: str) -> JsonResponse:
    answer = _refused([Problem("method", "form", method)], 405)
    answer["Allow"] = method
    return answer


def _refused(
    problems: Sequence[Problem], status: int, typed: Mapping[str, str] | None = None, **more: Any
) -> JsonResponse:
    """What is wrong, each with what was sent in its field; where it names none, what is to blame.

    Where waiting helps, the answer says how long.
    """
    entries = [
        {
            "field": problem.field,
            "code": problem.code,
            "value": (typed or {}).get(problem.field, problem.value),
            "message": problem.message,
            "remedy": problem.remedy,
        }
        for problem in problems
    ]
    answer = JsonResponse({"problems": entries, **more}, status=status)
    if waits := [problem.wait_seconds for problem in problems if problem.wait_seconds]:
        answer["Retry-After"] = str(waits[0])
    return _kept_by_nobody(answer)


def _kept_by_nobody(answer: JsonResponse) -> JsonResponse:
    answer["Cache-Control"] = "no-store"
    answer["X-Robots-Tag"] = "noindex"
    return answer
