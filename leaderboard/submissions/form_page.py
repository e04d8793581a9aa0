"""The submission form: a check as you type, and the submission itself."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from leaderboard.models import Run, SuiteEntry
from leaderboard.submissions import precheck
from leaderboard.submissions import submit as submissions
from leaderboard.submissions.forms import SubmissionForm
from leaderboard.submissions.precheck import Precheck
from leaderboard.web import throttle, visitor
from leaderboard.web.problem import Problem, Refused

MOST_SHOWN = {"model": 501, "revision": 201, "dtype": 40}
"""Characters of a field that a page repeats; one more than it takes, so that it says so."""


@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """GET checks what the address names and writes nothing; POST submits it.

    The buttons "Check" and "Sign in" post too, or the form's secret token would end up in an
    address, and what was typed last would be missing from it.
    """
    typed = request.POST if request.method == "POST" else request.GET
    if request.method != "POST":
        if typed.get("model") and (too_many := throttle.too_many_checks(request)):
            return _page(request, typed, None, (too_many,))
        return _page(request, typed, _check(typed, remembered="HX-Request" in request.headers))
    if any("\0" in text for text in _texts(typed).values()):
        return _page(request, typed, None, status=422)  # Such an address would not be answered.
    if typed.get("do") == "check":
        return redirect(_address(typed))
    if not submissions.may_submit(request.user):
        return redirect(f"{reverse('login')}?{urlencode({'next': _address(typed)})}")
    form = SubmissionForm(typed)
    if not form.is_valid():
        return _page(request, typed, None, status=422)
    if too_many := throttle.too_many_checks(request):
        return _page(request, typed, None, (too_many,), status=429)
    try:
        submission = submissions.submit(
            form.cleaned_data["model"],
            form.cleaned_data["revision"] or "main",
            form.cleaned_data["dtype"],
            user=request.user,
            visitor=visitor.digest_of(visitor.of(request)),
        )
    except Refused as refused:
        here_already = any(p.code == precheck.SUBMITTED_BEFORE for p in refused.problems)
        check, status = _check(typed, remembered=True), 409 if here_already else 422
        return _page(request, typed, check, refused.problems, status=status)
    return redirect(submission)


def _address(typed: Mapping[str, str]) -> str:
    """This page with what was typed, defaults left out."""
    defaults = {"revision": "main"}
    query = {n: v for n, v in _texts(typed).items() if v and v != defaults.get(n)}
    return reverse("submit") + f"?{urlencode({'model': '', **query})}"


def _check(typed: Mapping[str, str], *, remembered: bool) -> Precheck | None:
    """None where nothing was typed yet, or what no field takes."""
    form = SubmissionForm({"revision": "main", **_texts(typed)})
    if not form.is_valid():
        return None
    return precheck.check(
        form.cleaned_data["model"],
        form.cleaned_data["revision"] or "main",
        form.cleaned_data["dtype"],
        remembered=remembered,
    )


def _page(
    request: HttpRequest,
    typed: Mapping[str, str],
    check: Precheck | None,
    refused: tuple[Problem, ...] = (),
    *,
    status: int = 200,
) -> HttpResponse:
    found = check.problems if check else ()
    every = dict.fromkeys([*found, *refused])
    # That somebody was faster is no mistake of who typed this.
    problems = [problem for problem in every if problem.code != precheck.SUBMITTED_BEFORE]
    asked = "model" in typed
    form = SubmissionForm({"revision": "main", **_texts(typed)}) if asked else SubmissionForm()
    if asked and form.is_valid():
        form.show(problem for problem in problems if not problem.wait_seconds)
    here_already = check.existing if check and len(problems) < len(every) else None
    hub_trouble = check.hub_trouble if check and not refused else None
    offers = [offer for problem in problems for offer in problem.offers]
    remarks = {"here_already": here_already, "hub_trouble": hub_trouble, "offers": offers}
    remark = next((name for name, found in remarks.items() if found), "")
    failing = sum(len(errors) for errors in form.errors.values()) if asked else 0
    waits = [problem for problem in refused if problem.wait_seconds]
    context = {
        "form": form,
        "wait": waits[0] if waits else None,
        "check": check,
        "asked": asked,
        "here_already": here_already,
        "hub_trouble": hub_trouble,
        "remark": remark and f"submissions/remark_{remark}.html",
        "notes": check.warnings if check and check.checked else (),
        "at_form": [p for p in problems if p.field == "form" and p not in waits],
        "failing": failing,
        "offers": [(offer, _address({**_texts(typed), "model": offer})) for offer in offers],
        "refused": status != 200,
        "focused": _focused(form) if status != 200 else "",
        "may_submit": submissions.may_submit(request.user),
        "entries": [] if failing or here_already or waits else _entries(),
        "waiting": Run.objects.filter(state=Run.State.QUEUED).count(),
    }
    response = render(
        request, "submissions/form_page.html", context, status=429 if waits else status
    )
    if waits:
        response["Retry-After"] = str(waits[0].wait_seconds)
    return response


def _focused(form: SubmissionForm) -> str:
    """The first field that has to change; the model where none is to blame."""
    return next((name for name in form.fields if form.errors.get(name)), "model")


def _texts(typed: Mapping[str, str]) -> dict[str, str]:
    """What stands in the fields: of what is too long for one, enough to see what it was."""
    return {name: typed[name][:most] for name, most in MOST_SHOWN.items() if name in typed}


def _entries() -> list[SuiteEntry]:
    """What a submission would run: the columns of the current suite."""
    suite = precheck.current_suite()
    return list(suite.entries.select_related("suite").order_by("position")) if suite else []
