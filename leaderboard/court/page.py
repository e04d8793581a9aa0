"""The key court: of all benchmarks, of one, of one question; and the forms by which people rule."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from leaderboard.court import listing, log, order
from leaderboard.court.bench import Bench, bench
from leaderboard.court.forms import RulingForm, StrikeForm
from leaderboard.disputed import LEAST, sets_of
from leaderboard.models import Ruling, User, may_moderate
from leaderboard.models import edition as editions
from leaderboard.samples import Unavailable, read_question
from leaderboard.web import Address, kept, part, throttle

ON_A_PAGE = 25
PER_MINUTE = 10
FILES = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}
VERDICTS = {
    Ruling.Verdict.RIGHT: "The key is right",
    Ruling.Verdict.WRONG: "The key is wrong: another answer is right",
    Ruling.Verdict.AMBIGUOUS: "It is ambiguous: several answers are right, or none is",
}
NOT_YOURS = (
    "A ruling is withdrawn by who gave it, and struck by a moderator who did not rule on the same "
    "question."
)


@require_safe
def court(request: HttpRequest) -> HttpResponseBase:
    address = Address(request, {"task": "", "page": "1"})
    return kept.answer(request, editions.now, lambda: _all(request, address))


def _all(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    name = address["task"]
    found = log.questions_of(log.of_task(name))
    shown = part(address, "page", found.count(), ON_A_PAGE, "rulings")
    if elsewhere := address.redirect():
        return elsewhere
    context = {
        "questions": log.with_rulings(found[shown.slice]),
        "part": shown,
        "task": name,
        "title": log.titles_by_name([name])[name] if name else "",
        "benchmarks": [] if name else log.benchmarks(),
        "files": _files(name),
        "least": LEAST,
    }
    return render_to_string("court/page.html", context, request)


@require_safe
def keys(request: HttpRequest, name: str) -> HttpResponseBase:
    defaults = {"show": listing.ALL, "order": listing.SUSPICION, "page": "1"}
    address = Address(request, defaults)
    return kept.answer(request, editions.now, lambda: _keys(request, name, address))


def _keys(request: HttpRequest, name: str, address: Address) -> str | HttpResponseBase:
    address.choice("show", listing.SHOWN)
    address.choice("order", listing.ORDERS)
    found, away = bench(name), False
    try:
        every = listing.lines(found) if found.samples else []
        chosen = listing.chosen(every, address["show"], address["order"])
        shown = part(address, "page", len(chosen), ON_A_PAGE, "questions")
        lines = listing.with_texts(found, chosen[shown.slice]) if chosen else []
    except Unavailable:
        kept.only_for_now()
        every, lines, away = [], [], True
        shown = part(address, "page", 0, ON_A_PAGE, "questions")
    if elsewhere := address.redirect():
        return elsewhere
    counted = {
        listing.ALL: len(every),
        listing.SUSPECTED: sum(line.suspected for line in every),
        listing.RULED: sum(line.counts.n > 0 for line in every),
        listing.DISPUTED: sum(line.counts.disputed for line in every),
    }
    context = {
        "bench": found,
        "away": away,
        "lines": lines,
        "part": shown,
        "models": found.items.row.models_n if not away and found.samples and found.items else 0,
        "show": [
            (label, counted[key], address.url(show=key, page=1), key == address["show"])
            for key, label in listing.SHOWN.items()
        ],
        "orders": [
            (label, address.url(order=key, page=1), key == address["order"])
            for key, label in listing.ORDERS.items()
        ],
        "first": f"{found.facts.key(0)[0]}:{found.facts.key(0)[1]}"
        if found.samples and not away
        else "",
        "least": LEAST,
        "files": _files(name),
    }
    return render_to_string("court/keys.html", context, request)


@require_safe
def key(request: HttpRequest, name: str) -> HttpResponseBase:
    address = Address(request, {"doc": "", "digest": ""})

    def page() -> str:
        found = bench(name)
        question = found.question(address["doc"])
        if not question.doc_digest.startswith(address["digest"]):
            raise Http404(
                f"{name} asks another question under this number by now: the run is of other data, "
                "or of an earlier version, on which nobody rules any more"
            )
        return _key(request, found, address["doc"])

    return kept.answer(request, editions.now, page)


@require_POST
@login_required
def rule(request: HttpRequest, name: str) -> HttpResponse:
    """What is sent names its question in the address, as its page does."""
    found, label, form = bench(name), request.GET.get("doc", "")[:201], RulingForm(request.POST)
    question = found.question(label)
    if too_often := _too_often(request):
        form.add_error(None, too_often)
        return HttpResponse(_key(request, found, label, ruling=form), status=429)
    if not form.is_valid():
        return HttpResponse(_key(request, found, label, ruling=form), status=422)
    try:
        made = order.rule(question, **form.cleaned_data, by=_signed_in(request))
    except order.Refused as problem:
        form.add_error(None, str(problem))
        return HttpResponse(_key(request, found, label, ruling=form), status=409)
    return redirect(made)


@require_POST
@login_required
def end(request: HttpRequest, number: int) -> HttpResponse:
    """Withdrawn by who gave it; by a moderator struck, who says why."""
    ruling = get_object_or_404(Ruling.objects.select_related("task"), pk=number)
    by, form = _signed_in(request), StrikeForm(request.POST)
    own = ruling.by_id == by.pk
    if not own and not may_moderate(by):
        return _forbidden(request)
    if not own and not form.is_valid():
        return _key_of(request, ruling, form, status=422)
    try:
        if own:
            order.withdraw(ruling, by=by)
        else:
            order.strike(ruling, form.cleaned_data["words"], by=by)
    except PermissionError:
        return _forbidden(request)
    except order.Refused as problem:
        form.add_error(None, str(problem))
        return _key_of(request, ruling, form, status=409)
    return redirect(ruling)


def _key_of(request: HttpRequest, ruling: Ruling, form: StrikeForm, *, status: int) -> HttpResponse:
    page = _key(request, bench(ruling.task.name), ruling.label, striking=(ruling.pk, form))
    return HttpResponse(page, status=status)


def _key(
    request: HttpRequest,
    found: Bench,
    label: str,
    *,
    ruling: forms.Form | None = None,
    striking: tuple[int, StrikeForm] | None = None,
) -> str:
    question = found.question(label)
    place = found.facts.called(label) or 0
    said = list(question.rulings.select_related("task", "by", "ended_by"))
    own = question.standing_of(request.user)
    initial = {name: getattr(own, name) for name in RulingForm.base_fields} if own else None
    line = listing.line_of(found, question.part, question.doc_id)
    query = urlencode({"doc": line.label})
    context = {
        "bench": found,
        "question": question,
        "line": line,
        "shown": read_question(found.row(place)),
        "rulings": [(one, order.may_strike(one, request.user)) for one in said],
        "own": own,
        "form": ruling or RulingForm(initial=initial),
        "verdicts": VERDICTS.items(),
        "rule_url": f"{reverse('task-key-rule', args=[found.task.name])}?{query}",
        "own_url": f"{reverse('task-key', args=[found.task.name])}?{query}",
        "in_run": f"{found.run.get_absolute_url()}?{query}#question" if found.run else "",
        "striking": striking,
        "sees_struck": may_moderate(request.user),
        "disputed": sum(one.n for one in sets_of([found.task.name])),
        "least": LEAST,
    }
    return render_to_string("court/key.html", context, request)


def _files(task: str) -> list[tuple[str, str]]:
    query = f"?{urlencode({'task': task})}" if task else ""
    return [(name, f"{reverse(f'court-{form}')}{query}") for form, name in FILES.items()]


def _too_often(request: HttpRequest) -> str:
    seconds = throttle.wait("court", PER_MINUTE, request)
    return f"That was very often in a minute. Send it again in {seconds} s." if seconds else ""


def _forbidden(request: HttpRequest) -> HttpResponse:
    return render(request, "403.html", {"exception": NOT_YOURS}, status=403)


def _signed_in(request: HttpRequest) -> User:
    return User.objects.get(username=request.user.get_username())
