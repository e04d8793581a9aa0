"""The submission form: a check as you type, and the submission itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from leaderboard.models import Run, SuiteEntry, User, may_submit
from leaderboard.models.packing import Packing
from leaderboard.models.variant import NAMES, TRANSFORMERS, VLLM, Dtype
from leaderboard.queue import estimate
from leaderboard.submissions import precheck, quota
from leaderboard.submissions import submit as submissions
from leaderboard.submissions.facts import Way
from leaderboard.submissions.precheck import Precheck
from leaderboard.submissions.steps import Outcome, steps
from leaderboard.web import Problem, throttle

CHAT = "chat"
UNUSUAL = ("base", "packing", "asked", "engine")
"""The fields that stand under a heading of their own."""
NULL_CHARACTER = "There is a null character in it, which no name has. Type it anew."


class SubmissionForm(forms.Form):
    """Bound to a GET for a live check, to a POST for a submission; same fields, same names."""

    model = forms.CharField(
        label="Model ID",
        max_length=500,
        help_text="As in the address: owner/name.",
        error_messages={
            "required": "Give a model ID: owner/name, as in its address on the Hub.",
            "max_length": "That is longer than any model ID or its address. "
            "Give it as in the address of its page: owner/name.",
            "null_characters_not_allowed": NULL_CHARACTER,
        },
    )
    revision = forms.CharField(
        label="Revision",
        max_length=200,
        required=False,
        initial="main",
        help_text="Branch, tag or commit; a branch is pinned to its commit.",
        error_messages={
            "max_length": "That is longer than any branch, tag or commit. "
            "Copy the name from the model's page, or leave the field empty for main.",
            "null_characters_not_allowed": NULL_CHARACTER,
        },
    )
    dtype = forms.ChoiceField(
        label="Precision",
        choices=[("", "As stored"), *Dtype.choices],
        required=False,
        error_messages={
            "invalid_choice": "“%(value)s” is no precision that models are evaluated in. "
            f"Choose {' or '.join(Dtype.values)}, or leave it as stored."
        },
    )

    base = forms.CharField(
        label="Base model",
        max_length=500,
        required=False,
        help_text="Of an adapter only; empty: the one that it names.",
        error_messages={
            "max_length": "That is longer than any model ID or its address. "
            "Give it as in the address of its page: owner/name.",
            "null_characters_not_allowed": NULL_CHARACTER,
        },
    )
    packing = forms.ChoiceField(
        label="Weights",
        choices=[("", "As stored"), *Packing.choices],
        required=False,
        error_messages={
            "invalid_choice": "“%(value)s” is no way to pack weights. "
            f"Choose {' or '.join(Packing.values)}, or leave them as stored."
        },
    )
    asked = forms.ChoiceField(
        label="Asked in",
        choices=[("", "Plain text"), (CHAT, "Its chat template")],
        required=False,
        error_messages={
            "invalid_choice": "“%(value)s” is no way to ask a model. "
            f"Choose {CHAT} for its chat template, or leave it empty for plain text."
        },
    )

    engine = forms.ChoiceField(
        label="Computed by",
        choices=[("", NAMES[TRANSFORMERS]), (VLLM, NAMES[VLLM])],
        required=False,
        error_messages={
            "invalid_choice": "“%(value)s” is no engine that models are computed by. "
            f"Choose {VLLM}, or leave it empty for {NAMES[TRANSFORMERS]}."
        },
    )

    @property
    def wanted(self) -> tuple[str, str, str, Way]:
        """Model, revision, precision and the rest of a valid form."""
        data = self.cleaned_data
        engine = data["engine"] or TRANSFORMERS
        way = Way(data["base"], data["packing"], data["asked"] == CHAT, engine)
        return data["model"], data["revision"] or "main", data["dtype"], way

    @property
    def unusual(self) -> bool:
        """Whether one of the fields that most have no use for is filled, or wrong."""
        return any(self[name].value() or self.errors.get(name) for name in UNUSUAL)

    def show(self, problems: Iterable[Problem]) -> None:
        """Put each problem at its field; those of the form as a whole go on top."""
        for problem in problems:
            field = problem.field if problem.field in self.fields else None
            self.add_error(field, ValidationError(str(problem), code=problem.code))


MOST_SHOWN = {
    **{"model": 501, "revision": 201, "dtype": 40},
    **{"base": 501, "packing": 40, "asked": 40, "engine": 40},
}
"""Characters of a field that a page repeats; one more than it takes, so that it says so."""


@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """GET checks what the address names and writes nothing; POST submits it.

    The buttons "Check" and "Sign in" post too, or the form's secret token would end up in an
    address, and what was typed last would be missing from it.
    """
    given = request.POST if request.method == "POST" else request.GET
    typed = {name: given[name][:most] for name, most in MOST_SHOWN.items() if name in given}
    form = SubmissionForm({"revision": "main", **typed}) if "model" in typed else SubmissionForm()
    page = partial(_page, request, typed, form)
    if request.method != "POST":
        if typed.get("model") and (too_many := too_many_checks(request, form)):
            return page(None, (too_many,))
        remembered = "HX-Request" in request.headers
        return page(
            precheck.check(*form.wanted, remembered=remembered) if form.is_valid() else None
        )
    if any("\0" in text for text in typed.values()):
        return page(None, status=422)  # Such an address would not be answered.
    if given.get("do") == "check":
        return redirect(_address(typed))
    if not may_submit(request.user):
        if request.user.is_authenticated:
            return page(None, (submissions.may_not(request.user),), status=403)
        return redirect(f"{reverse('login')}?{urlencode({'next': _address(typed)})}")
    if not form.is_valid():
        return page(None, status=422)
    if too_many := too_many_checks(request, form, thorough=True):
        return page(None, (too_many,), status=429)
    try:
        submission = submissions.submit(
            *form.wanted, user=request.user, visitor=throttle.visitor_digest(request)
        )
    except submissions.NotSubmitted as refused:
        here_already = any(p.code == precheck.SUBMITTED_BEFORE for p in refused.problems)
        return page(refused.check, refused.problems, status=409 if here_already else 422)
    return redirect(submission)


def too_many_checks(
    request: HttpRequest, form: SubmissionForm, *, thorough: bool = False
) -> Problem | None:
    """Count a look at the Hub; none is made for a check that is under way."""
    if form.is_valid():
        model, revision, _, way = form.wanted
        if precheck.is_under_way(model, revision, way, thorough=thorough):
            return None
    return throttle.too_many_checks(request)


def _address(typed: Mapping[str, str]) -> str:
    """This page with what was typed, defaults left out."""
    defaults = {"revision": "main"}
    query = {n: v for n, v in typed.items() if v and v != defaults.get(n)}
    return reverse("submit") + f"?{urlencode({'model': '', **query})}"


def _page(
    request: HttpRequest,
    typed: Mapping[str, str],
    form: SubmissionForm,
    check: Precheck | None,
    refused: tuple[Problem, ...] = (),
    *,
    status: int = 200,
) -> HttpResponse:
    found = check.problems if check else ()
    no_room = check.no_room if check else None
    pending = check is not None and check.pending
    if pending or (no_room and "HX-Request" in request.headers):
        pending, refused, status = True, (), 202
    elif no_room:
        refused, status = (no_room,), 503
    told = steps(check) if check and not pending and not no_room else []
    every = dict.fromkeys([*found, *refused])
    # That somebody was faster is no mistake of who typed this.
    problems = [problem for problem in every if problem.code != precheck.SUBMITTED_BEFORE]
    if form.is_valid():
        form.show(problem for problem in problems if not problem.wait_seconds)
    here_already = check.existing if check and len(problems) < len(every) else None
    hub_trouble = check.hub_trouble if check and not refused and not pending else None
    offers = [offer for problem in problems for offer in problem.offers]
    remarks = {"here_already": here_already, "hub_trouble": hub_trouble, "offers": offers}
    remark = next((name for name, found in remarks.items() if found), "")
    failing = sum(len(errors) for errors in form.errors.values())
    waits = [problem for problem in refused if problem.wait_seconds]
    context = {
        "form": form,
        "wait": waits[0] if waits else None,
        "check": check,
        "pending": pending,
        "submitting": pending and request.method == "POST",
        "address": _address(typed),
        "asked": form.is_bound,
        "here_already": here_already,
        "hub_trouble": hub_trouble,
        "remark": remark and f"submissions/remark_{remark}.html",
        "steps": told,
        "unseen": [step.title for step in told if step.outcome == Outcome.UNSEEN],
        "at_form": [p for p in problems if p.field == "form" and p not in waits],
        "failing": failing,
        "offers": [(offer, _address({**typed, "model": offer})) for offer in offers],
        "refused": status not in (200, 202),
        "focused": _focused(form) if status not in (200, 202) else "",
        "may_submit": may_submit(request.user),
        "quota": quota.tightest(
            request.user if isinstance(request.user, User) else None,
            throttle.visitor_digest(request),
        )
        if may_submit(request.user)
        else None,
        "entries": [] if failing or here_already or waits else _entries(),
        "engines": "engine" in typed
        or any(worker.backend != TRANSFORMERS for worker in estimate.live_workers()),
        "waiting": Run.objects.filter(state=Run.State.QUEUED).count(),
    }
    if waits and status != 503:
        status = 429
    response = render(request, "submissions/form_page.html", context, status=status)
    if waits:
        response["Retry-After"] = str(waits[0].wait_seconds)
    return response


def _focused(form: SubmissionForm) -> str:
    """The first field that has to change; the model where none is to blame."""
    return next((name for name in form.fields if form.errors.get(name)), "model")


def _entries() -> list[SuiteEntry]:
    """What a submission would run: the columns of the current suite."""
    suite = precheck.current_suite()
    return list(suite.entries.select_related("suite").order_by("position")) if suite else []
