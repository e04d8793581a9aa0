"""The public log of departures, and the form by which an author leaves or comes back."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.flags import departures
from leaderboard.flags.forms import DepartureForm
from leaderboard.flags.order import Refused
from leaderboard.models import Departure, HubModel, User
from leaderboard.models import edition as editions
from leaderboard.web import Address, kept, part, throttle

ON_A_PAGE = 25
PER_MINUTE = 10


@require_safe
def log(request: HttpRequest) -> HttpResponseBase:
    address = Address(request, {"model": "", "page": "1"})
    return kept.answer(request, editions.now, lambda: _list(request, address))


def _list(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    found = Departure.objects.select_related("hub_model", "by", "ended_by")
    if address["model"]:
        found = found.filter(hub_model__repo_id=address["model"])
    shown = part(address, "page", found.count(), ON_A_PAGE, "departures")
    if elsewhere := address.redirect():
        return elsewhere
    context = {"departures": found[shown.slice], "part": shown, "model": address["model"]}
    return render_to_string("flags/departures.html", context, request)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def change(request: HttpRequest) -> HttpResponse:
    """Out of the ranking for a model that is in it, back for one that is out."""
    asked = request.GET.get("model", "")[:201]
    model = HubModel.objects.filter(repo_id=asked).first()
    if model is None:
        raise Http404("no such model was submitted here: its page leads to this form")
    side = departures.side_of(model, request.user)
    if request.method != "POST":
        # Who may not is told who may, and how: the link is on every model's page.
        return _form(request, model, side, DepartureForm())
    if not side:
        return _form(request, model, side, DepartureForm(), status=403)
    form = DepartureForm(request.POST)
    if seconds := throttle.wait("flags", PER_MINUTE, request):
        form.add_error(None, f"That was very often in a minute. Send it again in {seconds} s.")
        return _form(request, model, side, form, status=429)
    by = User.objects.get(username=request.user.get_username())
    try:
        if "back" in request.POST:
            departures.come_back(model, by=by)
        elif form.is_valid():
            departures.leave(model, form.cleaned_data["words"], by=by)
        else:
            return _form(request, model, side, form, status=422)
    except Refused as problem:
        model.refresh_from_db()
        form.add_error(None, str(problem))
        return _form(request, model, side, form, status=409)
    return redirect(model)


def _form(
    request: HttpRequest, model: HubModel, side: str, form: DepartureForm, *, status: int = 200
) -> HttpResponse:
    context = {
        "model": model,
        "side": side,
        "form": form,
        "lasting": model.departures.filter(ended=None).first(),
    }
    response = render(request, "flags/departure.html", context, status=status)
    response["Cache-Control"] = "private, no-cache"
    response["X-Robots-Tag"] = "noindex"
    return response
