"""The log of corrections, a report and a recall, and the forms to report, answer and rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponsePermanentRedirect,
)
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import (
    condition,
    require_http_methods,
    require_POST,
    require_safe,
)

from leaderboard.corrections import log, recalls, reports, rulings
from leaderboard.corrections.forms import AnswerForm, ReasonForm, ReportForm, RulingForm
from leaderboard.corrections.reports import Target
from leaderboard.corrections.second_figures import MIN_PEOPLE
from leaderboard.models import HubModel, Recall, Report, Run, TaskVersion, User, may_moderate
from leaderboard.models import edition as editions
from leaderboard.queue import listed
from leaderboard.web import Address, kept, part, throttle

ON_A_PAGE = 25
RUNS_ON_A_PAGE = 50
PER_MINUTE = 10
"""Forms that one reader may send."""
FILES = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}
NOT_YOURS = "Only who made a report, the model’s author on the Hub and moderators answer it."
NOT_TO_RULE = "Moderators rule on reports, and none in their own matter."
KINDS = {
    Report.Kind.NUMBER: "The number is wrong, or should not be trusted",
    Report.Kind.CONTAMINATION: "Contamination: the model was trained on the questions",
    Report.Kind.LICENCE: "The licence, or whose work it is",
}


# The log


@require_safe
def corrections(request: HttpRequest) -> HttpResponseBase:
    defaults = {"kind": "", "state": "", "model": "", "task": "", "page": "1"}
    address = Address(request, defaults)
    return kept.answer(request, editions.now, lambda: _log(request, address))


def _log(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    kind, state = address.choice("kind", log.KINDS), address.choice("state", log.STATES)
    found = log.rows(kind, state, address["model"], address["task"])
    shown = part(address, "page", found.count(), ON_A_PAGE, "log")
    if elsewhere := address.redirect():
        return elsewhere
    name = address["task"]
    titles = log.titles_of(TaskVersion.objects.filter(name=name).order_by("-created")[:1])
    context = {
        "entries": log.entries(found[shown.slice]),
        "part": shown,
        "kinds": [
            (label, address.url(kind=key, page=1), key == kind)
            for key, label in {"": "All", **log.KINDS}.items()
        ],
        "states": [
            (label, address.url(state=key, page=1), key == state)
            for key, label in {"": "All", **log.STATES}.items()
        ],
        "filtered": any(address[field] for field in ("kind", "state", "model", "task")),
        "waiting": log.rows(state=log.OPEN).count(),
        "model": address["model"],
        "task": name,
        "title": next(iter(titles.values()), name),
        "benchmarks": log.benchmarks() if kind == Report.Kind.KEY and not name else [],
        "files": key_files(name) if name or kind == Report.Kind.KEY else [],
        "new_url": _new_url(model=address["model"], task=name),
        "min_people": MIN_PEOPLE,
    }
    return render_to_string("corrections/log.html", context, request)


@require_safe
@condition(etag_func=lambda request: kept.tag(request, editions.now()))
def feed(request: HttpRequest) -> HttpResponse:
    atom = log.feed(request)
    response = HttpResponse(atom.writeString("utf-8"), content_type=atom.content_type)
    response["Cache-Control"] = "no-cache"
    return response


def key_files(task: str) -> list[tuple[str, str]]:
    """All reports on keys, or those on one benchmark's."""
    query = f"?{urlencode({'task': task})}" if task else ""
    return [(name, f"{reverse(f'corrections-keys-{form}')}{query}") for form, name in FILES.items()]


def _new_url(**about: str) -> str:
    query = urlencode({name: value for name, value in about.items() if value})
    return f"{reverse('report-new')}?{query}" if query else reverse("report-new")


def moved(
    request: HttpRequest, *, to: str = "corrections", **filters: str
) -> HttpResponsePermanentRedirect:
    """From the address of a page that is part of the log or its form now, with its filters."""
    query = {name: request.GET[name] for name in ("model", "task", "run") if name in request.GET}
    state = _STATES_BEFORE.get(request.GET.get("state", ""), "")
    query |= filters | ({"state": state} if state else {})
    written = f"?{urlencode(query)}" if query else ""
    return HttpResponsePermanentRedirect(f"{reverse(to)}{written}")


_STATES_BEFORE = {
    "open": log.OPEN,
    "upheld": log.IN_FORCE,
    **dict.fromkeys(("dismissed", "withheld", "lifted"), log.CLOSED),
}


# To report


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The form, for what the address names: a run, a model, a benchmark or one of its questions."""
    asked = Address(request, dict.fromkeys(("model", "run", "task", "doc", "kind", "about"), ""))
    if asked["task"] and asked["doc"]:
        # The form stands beside the question, which one reads first.
        page = reverse("task-key", args=[asked["task"]])
        return redirect(f"{page}?{urlencode({'doc': asked['doc']})}#report")
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if about := asked["about"]:
        found = _found(about)
        return redirect(_new_url(**found)) if found else _find(request, about)
    run = _run(asked["run"])
    model = run.variant.hub_model if run else None
    if asked["model"] and (model is None or model.repo_id != asked["model"]):
        run, model = None, HubModel.objects.filter(repo_id=asked["model"]).first()
    task = TaskVersion.objects.filter(name=asked["task"]).order_by("created", "pk").last()
    if model is None and task is None:
        return _find(request, asked["model"] or asked["run"] or asked["task"])
    if model and asked["kind"] == Report.Kind.WISH:
        return _wish(request, model)
    return _report(request, Target(model, run, None if model else task))


def _find(request: HttpRequest, about: str) -> HttpResponse:
    return _private(
        request, "corrections/find.html", {"about": about}, status=404 if about else 200
    )


def _found(about: str) -> dict[str, str]:
    """What somebody names by its ID, its name or the address of its page; empty for nothing."""
    in_site = about.partition("://")[2].partition("/")[2] if "://" in about else about
    path = re.split(r"[?#]", in_site)[0].strip("/")
    section, _, name = path.partition("/")
    name = name if section in ("models", "tasks", "runs") else path
    if run := _run(name):
        return {"run": str(run.pk)}
    if model := HubModel.objects.filter(repo_id__iexact=name).first():
        return {"model": model.repo_id}
    return {"task": name} if TaskVersion.objects.filter(name=name).exists() else {}


def _run(name: str) -> Run | None:
    try:
        key = UUID(name)
    except ValueError:
        return None
    return Run.objects.select_related("variant__hub_model", "task").filter(pk=key).first()


def _report(request: HttpRequest, target: Target) -> HttpResponse:
    initial = {"kind": Report.Kind.NUMBER} if target.run else {}
    title = next(iter(log.titles_of([target.task]).values())) if target.task else ""
    context = {
        "target": target,
        "title": title,
        "form": ReportForm(initial=initial),
        "kinds": KINDS.items(),
    }
    if request.method == "POST":
        form = context["form"] = ReportForm(request.POST)
        made: list[Report] = []
        status = sent(
            request,
            form,
            lambda by, data: made.append(reports.report(target, **data, by=by)),
        )
        if not status:
            return redirect(made[0])
        return _private(request, "corrections/new.html", context, status=status)
    return _private(request, "corrections/new.html", context)


def _wish(request: HttpRequest, model: HubModel) -> HttpResponse:
    """Out of the ranking for a model that is in it, back for one that is out."""
    side, form, status = rulings.side_in_ranking(model, request.user), ReasonForm(), 200
    if request.method == "POST" and not side:
        status = 403
    elif request.method == "POST" and "back" in request.POST:
        form = ReasonForm({"words": "-"})
        status = sent(request, form, lambda by, _: rulings.bring_back(model, by=by))
    elif request.method == "POST":
        form = ReasonForm(request.POST)
        status = sent(request, form, lambda by, data: rulings.take_out(model, **data, by=by))
    if not status:
        return redirect(model)
    model.refresh_from_db()
    lasting = rulings.lasting_wish(model)
    # Who may not is told who may, and how: the link is on every model's page.
    context = {"model": model, "side": side, "form": form, "lasting": lasting}
    return _private(request, "corrections/wish.html", context, status=status)


def _private(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    response = render(request, template, dict(context), status=status)
    response["Cache-Control"] = "private, no-cache"
    response["X-Robots-Tag"] = "noindex"
    return response


# A report, its answers and its ruling


@require_safe
def report(request: HttpRequest, number: int) -> HttpResponseBase:
    found = _get(number)
    if found.kind == Report.Kind.KEY:
        return redirect(found)
    return kept.answer(request, editions.now, lambda: _one(request, found))


@require_POST
@login_required
def answer(request: HttpRequest, number: int) -> HttpResponse:
    found, form = _get(number), AnswerForm(request.POST)
    if not reports.side_of(found, request.user):
        return forbidden(request, NOT_YOURS)
    status = sent(request, form, lambda by, data: reports.answer(found, **data, by=by))
    if status:
        return HttpResponse(_one(request, found, answering=form), status=status)
    return redirect(found)


@require_POST
@login_required
def rule(request: HttpRequest, number: int) -> HttpResponse:
    found, form = _get(number), RulingForm(request.POST)
    if not may_moderate(request.user) or rulings.is_own(found, request.user):
        return forbidden(request, NOT_TO_RULE)
    status = sent(request, form, lambda by, data: rulings.rule(found, **data, by=by))
    if status:
        return HttpResponse(_one(request, _get(number), ruling=form), status=status)
    return redirect(found)


def _get(number: int) -> Report:
    related = Report.objects.select_related("hub_model", "run__task", "task", "by")
    return get_object_or_404(related, pk=number)


def _one(
    request: HttpRequest,
    shown: Report,
    *,
    answering: forms.Form | None = None,
    ruling: forms.Form | None = None,
) -> str:
    entry = log.entry_of(shown)
    context = {
        "report": shown,
        "entry": entry,
        "answers": shown.answers.select_related("by"),
        "text_shown": not shown.is_withheld or may_moderate(request.user),
        "side": reports.side_of(shown, request.user),
        "answering": answering or AnswerForm(),
        "ruling": ruling or RulingForm(),
        "rulings": shown.rulings.select_related("by", "undone_by", "recall"),
        "choices": rulings.choices(shown, request.user).items(),
    }
    return render_to_string("corrections/report.html", context, request)


def sent(
    request: HttpRequest, form: forms.Form, act: Callable[[User, dict[str, Any]], object]
) -> int:
    """Does what a form asks for; 0, or the status of the page that says why it was not done."""
    if seconds := throttle.wait("corrections", PER_MINUTE, request):
        form.add_error(None, f"That was very often in a minute. Send it again in {seconds} s.")
        return 429
    if not form.is_valid():
        return 422
    try:
        act(User.objects.get(username=request.user.get_username()), form.cleaned_data)
    except reports.Refused as problem:
        form.add_error(None, str(problem))
        return 409
    return 0


def forbidden(request: HttpRequest, why: str) -> HttpResponse:
    return render(request, "403.html", {"exception": why}, status=403)


# A recall


@require_safe
def recall(request: HttpRequest, number: int) -> HttpResponseBase:
    address = Address(request, {"page": "1"})
    return kept.answer(request, editions.now, lambda: _recall(request, number, address))


def _recall(request: HttpRequest, number: int, address: Address) -> str | HttpResponseBase:
    row = get_object_or_404(Recall, pk=number)
    runs = recalls.with_rerun(listed(row.runs.all())).order_by(
        "variant__hub_model__repo_id", "task__name", "pk"
    )
    shown = part(address, "page", runs.count(), RUNS_ON_A_PAGE, "results")
    if elsewhere := address.redirect():
        return elsewhere
    left = recalls.left_of(row)
    context = {
        "recall": row,
        "stand": recalls.stands_of([row.pk])[row.pk],
        "left": left,
        "named_runs": row.results + left,
        "runs": runs.defer("log_tail", "environment", "dataset_commits")[shown.slice],
        "part": shown,
    }
    return render_to_string("corrections/recall.html", context, request)
