"""The public log of flags, the page of one, and the forms by which they are raised and decided."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from leaderboard.flags import order
from leaderboard.flags.forms import AnswerForm, DecisionForm, FlagForm
from leaderboard.models import Flag, HubModel, Run, User, may_moderate
from leaderboard.models import edition as editions
from leaderboard.web import Address, kept, part, throttle

ON_A_PAGE = 25
PER_MINUTE = 10
NOT_YOURS = "Only who raised a flag, the model’s author on the Hub and moderators answer it."
NOT_TO_DECIDE = "Flags are decided by moderators, and by none in their own matter."
DOES = {
    Flag.State.UPHELD: "Uphold it: the model is marked with these words and has no rank",
    Flag.State.DISMISSED: "Dismiss it: nothing changes, and the flag stays listed",
    Flag.State.WITHHELD: "Dismiss it and withhold its text, which nobody should read",
    Flag.State.LIFTED: "Lift it: the mark goes, the flag stays listed",
}


@require_safe
def flags(request: HttpRequest) -> HttpResponseBase:
    address = Address(request, {"model": "", "state": "", "page": "1"})
    return kept.answer(request, editions.now, lambda: _list(request, address))


def _list(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    found = Flag.objects.select_related("hub_model", "by")
    if address.choice("state", Flag.State.values):
        found = found.filter(state=address["state"])
    if address["model"]:
        found = found.filter(hub_model__repo_id=address["model"])
    shown = part(address, "page", found.count(), ON_A_PAGE, "flags")
    if elsewhere := address.redirect():
        return elsewhere
    context = {
        "flags": found[shown.slice],
        "part": shown,
        "model": address["model"],
        "choices": [
            (label, address.url(state=state, page=1), state == address["state"])
            for state, label in (("", "All"), *Flag.State.choices)
        ],
    }
    return render_to_string("flags/page.html", context, request)


@require_safe
def flag(request: HttpRequest, number: int) -> HttpResponseBase:
    return kept.answer(request, editions.now, lambda: _one(request, _get(number)))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new(request: HttpRequest) -> HttpResponse:
    """The form; what is sent names its model in the address, as the page of a model links it."""
    asked = request.GET.get("model", "")[:201]
    model = HubModel.objects.filter(repo_id=asked).first()
    if model is None:
        raise Http404("no such model was submitted here: go to its page, and flag it from there")
    form = (
        FlagForm(request.POST) if request.method == "POST" else FlagForm(initial=_of_run(request))
    )
    if request.method != "POST":
        return _form(request, model, form)
    if too_often := _too_often(request):
        form.add_error(None, too_often)
        return _form(request, model, form, status=429)
    if not form.is_valid():
        return _form(request, model, form, status=422)
    try:
        raised = order.raise_flag(model, **form.cleaned_data, by=_signed_in(request))
    except order.Refused as problem:
        form.add_error(None, str(problem))
        return _form(request, model, form, status=409)
    return redirect(raised)


@require_POST
@login_required
def answer(request: HttpRequest, number: int) -> HttpResponse:
    found, form = _get(number), AnswerForm(request.POST)
    if not order.side_of(found, request.user):
        return _forbidden(request, NOT_YOURS)
    if too_often := _too_often(request):
        form.add_error(None, too_often)
        return HttpResponse(_one(request, found, answering=form), status=429)
    if not form.is_valid():
        return HttpResponse(_one(request, found, answering=form), status=422)
    try:
        order.answer(found, form.cleaned_data["text"], by=_signed_in(request))
    except order.Refused as problem:
        form.add_error(None, str(problem))
        return HttpResponse(_one(request, found, answering=form), status=409)
    return redirect(found)


@require_POST
@login_required
def decide(request: HttpRequest, number: int) -> HttpResponse:
    found, form = _get(number), DecisionForm(request.POST)
    if not may_moderate(request.user) or order.is_own(found, request.user):
        return _forbidden(request, NOT_TO_DECIDE)
    if not form.is_valid():
        return HttpResponse(_one(request, found, deciding=form), status=422)
    data = form.cleaned_data
    try:
        order.decide(found, data["state"], data["words"], by=_signed_in(request))
    except order.Refused as problem:
        form.add_error(None, str(problem))
        return HttpResponse(_one(request, _get(number), deciding=form), status=409)
    return redirect(found)


def _of_run(request: HttpRequest) -> dict[str, str]:
    """What the form says already for a reader who comes from the page of one run."""
    try:
        run = Run.objects.filter(pk=UUID(request.GET.get("run", ""))).first()
    except ValueError:
        run = None
    if run is None or run.variant.hub_model.repo_id != request.GET.get("model"):
        return {}
    url = request.build_absolute_uri(run.get_absolute_url())
    return {"evidence": f"The number of {url} looks wrong: "}


def _get(number: int) -> Flag:
    related = Flag.objects.select_related("hub_model", "by", "decided_by")
    return get_object_or_404(related, pk=number)


def _one(
    request: HttpRequest,
    shown: Flag,
    *,
    answering: forms.Form | None = None,
    deciding: forms.Form | None = None,
) -> str:
    withheld = shown.state == Flag.State.WITHHELD
    choices = [(state, DOES[Flag.State(state)]) for state in order.NEXT.get(shown.state, ())]
    context: dict[str, Any] = {
        "flag": shown,
        "answers": shown.answers.select_related("by"),
        "text_shown": not withheld or may_moderate(request.user),
        "side": order.side_of(shown, request.user),
        "answering": answering or AnswerForm(),
        "deciding": deciding or DecisionForm(),
        "may_decide": order.may_decide(shown, request.user),
        "choices": choices,
    }
    return render_to_string("flags/flag.html", context, request)


def _form(
    request: HttpRequest, model: HubModel, form: FlagForm, *, status: int = 200
) -> HttpResponse:
    context = {"model": model, "form": form}
    response = render(request, "flags/new.html", context, status=status)
    response["Cache-Control"] = "private, no-cache"
    response["X-Robots-Tag"] = "noindex"
    return response


def _too_often(request: HttpRequest) -> str:
    seconds = throttle.wait("flags", PER_MINUTE, request)
    return f"That was very often in a minute. Send it again in {seconds} s." if seconds else ""


def _forbidden(request: HttpRequest, why: str) -> HttpResponse:
    return render(request, "403.html", {"exception": why}, status=403)


def _signed_in(request: HttpRequest) -> User:
    return User.objects.get(username=request.user.get_username())
