"""The submission form: a check as you type, told step by step, and the submission itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.hub import Problem, Step, client, faults
from leaderboard.models import HubModel, Run, SuiteEntry, User, may_submit
from leaderboard.models.packing import Packing
from leaderboard.models.variant import NAMES, TRANSFORMERS, VLLM, Dtype
from leaderboard.queue import estimate, pace
from leaderboard.submissions import precheck
from leaderboard.submissions import submit as submissions
from leaderboard.submissions.precheck import Facts, Precheck, Way
from leaderboard.templatetags.figures import filesize
from leaderboard.web import Span, background, throttle, total_span

CHAT = "chat"
UNUSUAL_FIELDS = ("revision", "dtype", "base", "packing", "asked", "engine")
"""The fields that stand under a heading of their own."""
CHOICES: dict[str, list[tuple[str, str]]] = {
    "dtype": [("", "As stored"), *Dtype.choices],
    "packing": [("", "As stored"), *Packing.choices],
    "asked": [("", "Plain text"), (CHAT, "Its chat template")],
    "engine": [("", NAMES[TRANSFORMERS]), (VLLM, NAMES[VLLM])],
}
"""By field what it takes, the default first."""


class SubmissionForm(forms.Form):
    """Bound to a GET for a live check, to a POST for a submission; same fields, same names.

    What a field refuses is told in the words of `leaderboard.hub.problem`, by the code of the
    error, as is everything else that can be wrong with a submission.
    """

    model = forms.CharField(label="Model ID", max_length=500)
    revision = forms.CharField(label="Revision", max_length=200, required=False, initial="main")
    dtype = forms.ChoiceField(label="Precision", choices=CHOICES["dtype"], required=False)
    base = forms.CharField(label="Base model", max_length=500, required=False)
    packing = forms.ChoiceField(label="Weights", choices=CHOICES["packing"], required=False)
    asked = forms.ChoiceField(label="Asked in", choices=CHOICES["asked"], required=False)
    engine = forms.ChoiceField(label="Computed by", choices=CHOICES["engine"], required=False)

    @property
    def wanted(self) -> tuple[str, str, str, Way]:
        """Model, revision, precision and the rest of a valid form."""
        data = self.cleaned_data
        engine = data["engine"] or TRANSFORMERS
        way = Way(data["base"], data["packing"], data["asked"] == CHAT, engine)
        return data["model"], data["revision"], data["dtype"], way

    @property
    def problems(self) -> list[Problem]:
        """What the fields themselves refuse, each before the Hub is asked."""
        return [
            Problem(error.code or "", name, str(self.data.get(name, ""))[:40], self._limits(name))
            for name, errors in self.errors.as_data().items()
            for error in errors
        ]

    def _limits(self, name: str) -> dict[str, Any]:
        """What the field takes, for the sentence of its problem."""
        field = self.fields[name]
        limits: dict[str, Any] = {"label": field.label}
        if name in CHOICES:
            (_, default), *choices = CHOICES[name]
            values = " or ".join(value for value, _ in choices)
            return limits | {"choices": values, "default": default.lower()}
        return limits | {"limit": getattr(field, "max_length", None)}


# The check, step by step


class Outcome(StrEnum):
    PASSED = "passed"
    WARNED = "warned"
    """Stops nobody."""
    FAILED = "failed"
    """Has to change before the model can be submitted."""
    UNSEEN = "unseen"
    """Not looked at: something before it failed, or the Hub did not answer."""


@dataclass(frozen=True)
class CheckedStep:
    """One step of a check, with its outcome in words."""

    title: Step
    outcome: Outcome
    message: str = ""
    remedy: str = ""
    address: str = ""
    """Of the submission or the model that is here already."""


def steps(check: Precheck) -> list[CheckedStep]:
    """Every step of a check, in the order of the reading."""
    return list(_steps(check))


def _steps(check: Precheck) -> Iterator[CheckedStep]:
    problems = [(problem, Outcome.FAILED) for problem in check.problems]
    problems += [(warning, Outcome.WARNED) for warning in check.warnings]
    if check.facts and not check.facts.licence:
        problems.append((Problem("no_licence"), Outcome.WARNED))
    passed = _passed(check.facts, check) if check.facts else _passed_without_facts(check)
    for step in Step:
        of_step = [(problem, outcome) for problem, outcome in problems if problem.step == step]
        for problem, outcome in of_step:
            address = _address_here(problem, check)
            result = Outcome.WARNED if address else outcome
            yield CheckedStep(step, result, problem.message, problem.remedy, address)
        if of_step or step == Step.SUBMITTING:
            continue
        if step in passed:
            yield CheckedStep(step, Outcome.PASSED, passed[step])
        elif step != Step.BASE:
            yield CheckedStep(step, Outcome.UNSEEN)


def _address_here(problem: Problem, check: Precheck) -> str:
    """Of what is here already, which is nobody's fault."""
    if problem.code in (precheck.SUBMITTED_BEFORE, "failed_before") and check.existing:
        return check.existing.get_absolute_url()
    return check.twin.get_absolute_url() if problem.code == "same_weights" and check.twin else ""


def _passed(facts: Facts, check: Precheck) -> dict[Step, str]:
    """What is said of each step that passed; without the step that has no part in this model."""
    packed = f", packed by {facts.stored_quantisation}" if facts.stored_quantisation else ""
    if facts.code:
        computed = "which the model's own code computes"
    elif facts.architecture in faults.SEEING:
        computed = (
            "which is asked in text alone, and which transformers computes without code of the "
            "model's own"
        )
    else:
        computed = "which transformers computes without code of the model's own"
    stored = "as stored" if facts.dtype == facts.stored_dtype else f"stored in {facts.stored_dtype}"
    by = f" by {facts.computed_by}" if facts.computed_by else ""
    precision = f"Computed in {facts.dtype}{by}, {stored}."
    if facts.quantisation:
        precision = f"Computed in {facts.dtype}{by}, with weights packed by {facts.quantisation}."
    files = f" in {facts.n_files} files" if facts.n_files > 1 else ""
    size = f", {filesize(facts.file_bytes)}{files}" if facts.file_bytes is not None else ""
    sentences = {
        Step.MODEL: f"{facts.repo_id} is there and public, and anyone can download it.",
        Step.REVISION: f"Pinned to commit {facts.commit[:8]}: later pushes change nothing.",
        Step.LICENCE: f"{facts.licence}.",
        Step.WEIGHTS: f"{facts.parameters:,} parameters in safetensors{packed}{size}.",
        Step.ARCHITECTURE: f"{facts.architecture}, {computed}.",
        Step.TOKENIZER: "Its files are there.",
        Step.TEMPLATE: _template(facts),
        Step.PRECISION: precision,
        Step.ROOM: _room(facts, check),
        Step.NEW: "Nobody has submitted it at this commit and in this way.",
    }
    if facts.adapter_base:
        commit = facts.adapter_base_commit[:8]
        sentences[Step.BASE] = f"Put on {facts.adapter_base} at commit {commit}."
    return sentences


def _template(facts: Facts) -> str:
    if facts.chat:
        return "It has one, and is asked in it."
    if facts.template_names:
        return "It has several, none of which is its default, and is asked in plain text."
    has = {True: "It has one, but is", False: "It has none, and is", None: "It is"}
    return f"{has[facts.has_template]} asked in plain text."


def _room(facts: Facts, check: Precheck) -> str:
    needs, room = f"Needs {filesize(facts.needed_bytes)}", check.room
    if room is None:
        return f"{needs}."
    if room.workers == 1:
        return f"{needs} of the {filesize(room.largest)} that the worker that runs now has."
    return (
        f"{needs}, which {room.fitting} of {room.workers} workers that run now have; the largest "
        f"has {filesize(room.largest)}."
    )


def _passed_without_facts(check: Precheck) -> dict[Step, str]:
    """The steps that are known to have passed although too little could be read."""
    failed = {problem.step for problem in check.problems}
    if not check.checked or Step.MODEL in failed:
        return {}
    if Step.REVISION not in failed:
        return {Step.MODEL: "It is there.", Step.REVISION: "It is there."}
    # A revision that is no name of one is refused before the Hub is asked.
    unknown = {problem.code for problem in check.problems} == {"unknown_revision"}
    return {Step.MODEL: "It is there."} if unknown else {}


# The page

MAX_SHOWN = {
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
    fields = request.POST if request.method == "POST" else request.GET
    typed = {name: fields[name][:limit] for name, limit in MAX_SHOWN.items() if name in fields}
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
    if fields.get("do") == "check":
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
            *form.wanted,
            user=request.user,
            visitor=throttle.visitor_digest(request),
            copies=fields.get("do") == "copy",
        )
    except submissions.NotSubmitted as refused:
        here_already = {"submitted_before", "same_weights"} & {p.code for p in refused.problems}
        return page(refused.check, refused.problems, status=409 if here_already else 422)
    return redirect(submission)


def too_many_checks(
    request: HttpRequest, form: SubmissionForm | None = None, *, thorough: bool = False
) -> Problem | None:
    """Count a look at the Hub; none is made for a check that is under way."""
    if form is not None and form.is_valid():
        model, revision, _, way = form.wanted
        if precheck.is_under_way(model, revision, way, thorough=thorough):
            return None
    limit = settings.PLUMBLINE_CHECKS_PER_MINUTE
    wait = throttle.wait("checks", limit, request)
    if not wait:
        return None
    details = {"limit": limit, "whose": throttle.whose(request)}
    return Problem("throttled.checks", "form", details=details, wait_seconds=wait)


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
    trouble = check.hub_trouble if check else None
    pending = trouble is not None and trouble.code == precheck.PENDING
    if trouble and trouble.code == precheck.CHECKS_FULL:
        if "HX-Request" in request.headers:
            pending = True
        else:
            refused, status = (trouble,), 503
    if pending:
        refused, status = (), 202
    waits = [problem for problem in refused if problem.wait_seconds]
    all_problems = dict.fromkeys([*form.problems, *(check.problems if check else ()), *refused])
    # That it is here already, or somebody was faster, is no mistake of who typed this.
    faulty = [p for p in all_problems if p not in waits and p.code not in HERE_ALREADY]
    here_already = any(problem.code == precheck.SUBMITTED_BEFORE for problem in all_problems)
    at = {name: [p for p in faulty if p.field == name] for name in form.fields}
    at_form = [p for p in faulty if p.field not in form.fields]
    checked_steps = steps(check) if check and not pending and status != 503 else []
    offers = [offer for problem in all_problems for offer in problem.offers]
    allowed, entries = may_submit(request.user), _entries()
    workers = estimate.live_workers()
    context = {
        "form": form,
        "at": at,
        "at_form": at_form,
        "failing": sum(map(len, at.values())),
        "wait": waits[0] if waits else None,
        "check": check,
        "takes": _takes(check.facts, entries) if check and check.facts else None,
        "pending": pending,
        "submitting": pending and request.method == "POST",
        "address": _address(typed),
        "here_already": check.existing if check and here_already else None,
        "twin": check.twin if check and not faulty and not here_already else None,
        "hub_trouble": trouble if trouble and not refused and not pending else None,
        "steps": checked_steps,
        "unseen": [step.title for step in checked_steps if step.outcome == Outcome.UNSEEN],
        "offers": [(offer, _address({**typed, "model": offer})) for offer in offers],
        "refused": status not in (200, 202),
        "focused": _focused(form, at) if status not in (200, 202) else "",
        "unusual": [str(name) for name in UNUSUAL_FIELDS if at[name] or _is_changed(form, name)],
        "may_submit": allowed,
        "quota": _quota(request) if allowed else None,
        "entries": entries,
        "engines": "engine" in typed or any(w.backend != TRANSFORMERS for w in workers),
        "waiting": Run.objects.filter(state=Run.State.QUEUED).count(),
    }
    if waits and status != 503:
        status = 429
    response = render(request, "submissions/form_page.html", context, status=status)
    if waits:
        response["Retry-After"] = str(waits[0].wait_seconds)
    return response


HERE_ALREADY = frozenset({precheck.SUBMITTED_BEFORE, "same_weights"})


def _takes(facts: Facts, entries: Sequence[SuiteEntry]) -> Span | None:
    """How long the runs take a model of this size; None where nobody knows."""
    paces = pace.current()
    return total_span([paces.span(entry.task_id, facts.parameters) for entry in entries])


def _is_changed(form: SubmissionForm, name: str) -> bool:
    return form[name].value() not in (None, "", form.fields[name].initial)


def _focused(form: SubmissionForm, at: Mapping[str, list[Problem]]) -> str:
    """The first field that has to change; the model where none is to blame."""
    return next((name for name in form.fields if at[name]), "model")


def _quota(request: HttpRequest) -> submissions.Share:
    user = request.user if isinstance(request.user, User) else None
    return submissions.tightest(user, throttle.visitor_digest(request))


def _entries() -> list[SuiteEntry]:
    """What a submission would run: the columns of the current suite."""
    suite = precheck.current_suite()
    return list(suite.entries.select_related("suite").order_by("position")) if suite else []


# Suggestions while a model's name is typed

MIN_TYPED = 3
"""Characters, from which on models are suggested."""
MAX_TYPED = 100
MAX_SUGGESTIONS = 6
SEARCH_SECONDS = 3.0
SUGGESTIONS_PER_MINUTE = 60
"""Searches of the Hub for one visitor; models of this site are suggested beyond that, too."""

searches: background.Background[tuple[str, ...]] = background.Background(
    "hub-search", threads=4, most=16, keep_seconds=60
)
"""Of the Hub's models, by what was typed; requests do not wait for them."""


@require_safe
def suggestions(request: HttpRequest) -> HttpResponse:
    """Models of this site and of the Hub that have in their names what was typed."""
    typed = request.GET.get("model", "").strip()[:MAX_TYPED]
    on_site: list[str] = []
    on_hub: tuple[str, ...] = ()
    pending = False
    if len(typed) >= MIN_TYPED and "\0" not in typed and "://" not in typed:
        rows = HubModel.objects.filter(repo_id__icontains=typed).order_by("repo_id")
        on_site = list(rows.values_list("repo_id", flat=True)[:MAX_SUGGESTIONS])
        key = f"{settings.HF_ENDPOINT} {typed}"
        if searches.has(key) or not throttle.wait("searches", SUGGESTIONS_PER_MINUTE, request):
            try:
                on_hub = searches.ask(key, lambda: client.models_with(typed, SEARCH_SECONDS))
            except background.NotReady:
                pending = True
            except background.TooMuchWork:
                pass
    repo_ids = list(dict.fromkeys([*on_site, *on_hub]))[:MAX_SUGGESTIONS]
    if repo_ids == [typed]:
        repo_ids = []
    context = {
        "typed": typed,
        "pending": pending,
        "again": f"{request.path}?{urlencode({'model': typed})}",
        "suggestions": [
            (repo_id.partition("/")[0], repo_id, repo_id in on_site, _address({"model": repo_id}))
            for repo_id in repo_ids
        ],
    }
    return render(request, "submissions/suggestions.html", context)
