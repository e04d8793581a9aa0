"""Submitting by a program: the form's fields as JSON, its checks, quotas and limits.

Only a token speaks for an account here; the cookie of a session counts for nothing, so that no
page elsewhere can submit in a reader's name, and no CSRF token is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt

from leaderboard.models import Run, Submission, may_submit
from leaderboard.submissions import precheck, submit
from leaderboard.submissions.form_page import SubmissionForm, too_many_checks
from leaderboard.submissions.steps import steps
from leaderboard.web import Problem, bearer, throttle

LONGEST = 20_000
"""Bytes of a request; the longest fields that the form takes are far from it."""
OPEN = (Run.State.QUEUED, Run.State.RUNNING)
NO_JSON = 'Send one JSON object, as in {"model": "owner/name"}.'


class Unreadable(ValueError):
    """The body is no object of texts; with what to answer."""

    def __init__(self, status: int, told: dict[str, str]) -> None:
        self.status, self.told = status, told
        super().__init__(told["message"])


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
    except Unreadable as problem:
        return _refused([problem.told], problem.status)
    form = SubmissionForm({"revision": "main", **typed})
    if not may_submit(request.user):
        return _refused([_told(submit.may_not(request.user), typed)], 403)
    if not form.is_valid():
        return _refused(_of_form(form, typed), 422)
    if too_many := too_many_checks(request, form, thorough=True):
        return _refused([_told(too_many, typed)], 429, too_many.wait_seconds)
    try:
        made = submit.submit(*form.wanted, user=request.user)
    except submit.NotSubmitted as refused:
        return _not_submitted(request, refused, typed)
    answer = JsonResponse(_state(request, made), status=201)
    answer["Location"] = request.build_absolute_uri(_address(made))
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
        remedy = f"Ask again in {often.seconds} s."
        told = {"field": "form", "code": "throttled", "message": often.message, "remedy": remedy}
        return _refused([told], 429, often.seconds)
    related = Submission.objects.select_related("variant__hub_model", "suite")
    found = related.filter(pk=pk).first()
    if found is None:
        told = {
            "field": "id",
            "code": "unknown_submission",
            "value": str(pk),
            "message": f"There is no submission {pk} here.",
            "remedy": "Take the id from the answer to the submission.",
        }
        return _refused([told], 404)
    return _kept_by_nobody(JsonResponse(_state(request, found)))


def _typed(request: HttpRequest) -> dict[str, str]:
    """The fields of the body. Raises Unreadable."""
    kind = request.content_type or ""
    if kind != "application/json":
        message = f"The body is {kind[:60] or 'of no stated type'}, not JSON."
        raise _unreadable(415, "content_type", message, "Send Content-Type: application/json.")
    length = request.headers.get("Content-Length", "")
    if not length.isdigit() or int(length) > LONGEST:
        message = f"The body is longer than {LONGEST:,} bytes, or of unknown length."
        raise _unreadable(413, "too_long", message, NO_JSON)
    try:
        pairs = json.loads(request.body.decode(), object_pairs_hook=list)
    except (ValueError, RecursionError) as problem:
        said = str(problem)[:100] if isinstance(problem, json.JSONDecodeError) else "not UTF-8"
        raise _unreadable(400, "no_json", f"The body is no JSON: {said}.", NO_JSON) from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise _unreadable(400, "no_object", "The body is no JSON object.", NO_JSON)
    known, typed = list(SubmissionForm.base_fields), {}
    for name, value in pairs:
        shown = name[:40].encode("ascii", "backslashreplace").decode()
        if name not in known:
            remedy = f"Known are {', '.join(known)}."
            message = f"There is no field “{shown}”."
            raise _unreadable(400, "unknown_field", message, remedy, shown)
        if name in typed:
            message = f"The field “{name}” is given twice."
            raise _unreadable(400, "given_twice", message, "Take one of them out.", name)
        if not isinstance(value, str) or not _is_text(value):
            message = f"The field “{name}” is no text that can be written as UTF-8."
            remedy = "Give it as text in quotation marks, or leave it out."
            raise _unreadable(400, "no_text", message, remedy, name)
        typed[name] = value
    return typed


def _is_text(value: str) -> bool:
    """JSON can name halves of characters, which no database takes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unreadable(
    status: int, code: str, message: str, remedy: str, field: str = "form"
) -> Unreadable:
    return Unreadable(status, {"field": field, "code": code, "message": message, "remedy": remedy})


def _not_submitted(
    request: HttpRequest, refused: submit.NotSubmitted, typed: Mapping[str, str]
) -> JsonResponse:
    check, waits = refused.check, [p.wait_seconds for p in refused.problems if p.wait_seconds]
    status = 429 if waits else 422
    more: dict[str, Any] = {}
    if check is not None:
        more["checks"] = [
            {
                "title": step.title,
                "outcome": step.outcome,
                "message": step.said,
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
    problems = [_told(problem, typed) for problem in refused.problems]
    return _refused(problems, status, waits[0] if waits else 0, **more)


def _told(problem: Problem, typed: Mapping[str, str]) -> dict[str, str]:
    told = {"field": problem.field, "code": problem.code}
    if problem.field in typed:
        told["value"] = typed[problem.field]
    return told | {"message": problem.message, "remedy": problem.remedy}


def _of_form(form: SubmissionForm, typed: Mapping[str, str]) -> list[dict[str, str]]:
    """What the form itself refuses: its sentences have the remedy behind the fault."""
    told = []
    for field, errors in form.errors.get_json_data().items():
        for error in errors:
            fault, stop, remedy = error["message"].partition(". ")
            told.append(
                {
                    "field": field,
                    "code": error["code"],
                    "value": typed.get(field, ""),
                    "message": fault + stop.strip(),
                    "remedy": remedy,
                }
            )
    return told


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
    told = {
        "field": "authorization",
        "code": "no_account",
        "message": nobody.message,
        "remedy": nobody.remedy,
    }
    status = 429 if nobody.wait_seconds else 401
    answer = _refused([told], status, nobody.wait_seconds)
    if status == 401:
        answer["WWW-Authenticate"] = "Bearer"
    return answer


def _wrong_method(method: str) -> JsonResponse:
    told = {
        "field": "form",
        "code": "method",
        "message": f"This address takes {method} alone.",
        "remedy": f"Send it as {method}.",
    }
    answer = _refused([told], 405)
    answer["Allow"] = method
    return answer


def _refused(
    problems: list[dict[str, str]], status: int, wait_seconds: int = 0, **more: Any
) -> JsonResponse:
    answer = JsonResponse({"problems": problems, **more}, status=status)
    if wait_seconds:
        answer["Retry-After"] = str(wait_seconds)
    return _kept_by_nobody(answer)


def _kept_by_nobody(answer: JsonResponse) -> JsonResponse:
    answer["Cache-Control"] = "no-store"
    answer["X-Robots-Tag"] = "noindex"
    return answer
