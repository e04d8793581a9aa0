"""Keys of questions: a benchmark's suspected and reported ones, and one question with its form."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from leaderboard.corrections import questions, reports, rulings
from leaderboard.corrections.forms import KeyReportForm, ReasonForm
from leaderboard.corrections.page import ON_A_PAGE, forbidden, key_files, sent
from leaderboard.corrections.questions import TaskQuestions, questions_of_task
from leaderboard.corrections.second_figures import MIN_PEOPLE
from leaderboard.models import Report, may_moderate
from leaderboard.models import edition as editions
from leaderboard.samples import Unavailable, read_question
from leaderboard.snapshot import adjusted
from leaderboard.web import Address, kept, part

VERDICTS = {
    Report.Verdict.RIGHT: "The key is right",
    Report.Verdict.WRONG: "The key is wrong: another answer is right",
    Report.Verdict.AMBIGUOUS: "It is ambiguous: several answers are right, or none is",
}
NOT_YOURS = (
    "A report is withdrawn by who gave it, and struck by a moderator who did not report the same "
    "question."
)


@require_safe
def keys(request: HttpRequest, name: str) -> HttpResponseBase:
    defaults = {"show": questions.ALL, "order": questions.SUSPICION, "page": "1"}
    address = Address(request, defaults)
    return kept.answer(request, editions.now, lambda: _keys(request, name, address))


def _keys(request: HttpRequest, name: str, address: Address) -> str | HttpResponseBase:
    address.choice("show", questions.SHOWN)
    address.choice("order", questions.ORDERS)
    found, away = questions_of_task(name), False
    try:
        every = questions.lines(found) if found.samples else []
        chosen = questions.chosen(every, address["show"], address["order"])
        shown = part(address, "page", len(chosen), ON_A_PAGE, "questions")
        lines = questions.with_texts(found, chosen[shown.slice]) if chosen else []
    except Unavailable:
        kept.only_for_now()
        every, lines, away = [], [], True
        shown = part(address, "page", 0, ON_A_PAGE, "questions")
    if elsewhere := address.redirect():
        return elsewhere
    at_hand = bool(found.samples) and not away
    context = {
        "questions": found,
        "away": away,
        "lines": lines,
        "part": shown,
        "models": found.items.row.models_n if at_hand and found.items else 0,
        "show": [
            (
                label,
                questions.count(every, key),
                address.url(show=key, page=1),
                key == address["show"],
            )
            for key, label in questions.SHOWN.items()
        ],
        "orders": [
            (label, address.url(order=key, page=1), key == address["order"])
            for key, label in questions.ORDERS.items()
        ],
        "first": found.facts.label(0) if at_hand else "",
        "min_people": MIN_PEOPLE,
        "files": key_files(name),
    }
    return render_to_string("corrections/keys.html", context, request)


@require_safe
def key(request: HttpRequest, name: str) -> HttpResponseBase:
    address = Address(request, {"doc": "", "digest": ""})

    def page() -> str:
        found = questions_of_task(name)
        question = found.question(address["doc"])
        if not question.doc_digest.startswith(address["digest"]):
            raise Http404(
                f"{name} asks another question under this number by now: the report or run is of "
                "other data, or of an earlier version, on which nobody reports any more"
            )
        return _key(request, found, address["doc"])

    return kept.answer(request, editions.now, page)


@require_POST
@login_required
def report_key(request: HttpRequest, name: str) -> HttpResponse:
    """What is sent names its question in the address, as its page does."""
    found, label = questions_of_task(name), request.GET.get("doc", "")[:201]
    question, form, made = found.question(label), KeyReportForm(request.POST), list[Report]()
    status = sent(
        request, form, lambda by, data: made.append(reports.report_key(question, **data, by=by))
    )
    if status:
        return HttpResponse(_key(request, found, label, reporting=form), status=status)
    return redirect(made[0])


@require_POST
@login_required
def end(request: HttpRequest, number: int) -> HttpResponse:
    """Withdrawn by who gave it; by a moderator struck, who says why."""
    keys = Report.objects.filter(kind=Report.Kind.KEY, task__isnull=False)
    report = get_object_or_404(keys.select_related("task"), pk=number)
    own = report.by_id == request.user.pk
    form = ReasonForm({"words": "-"} if own else request.POST)
    if not own and not may_moderate(request.user):
        return forbidden(request, NOT_YOURS)
    try:
        status = sent(
            request,
            form,
            lambda by, data: (
                reports.withdraw(report, by=by) if own else rulings.strike(report, **data, by=by)
            ),
        )
    except PermissionError:
        return forbidden(request, NOT_YOURS)
    if status:
        found = questions_of_task(report.task.name if report.task else "")
        page = _key(request, found, report.label, striking=(report.pk, form))
        return HttpResponse(page, status=status)
    return redirect(report)


def _key(
    request: HttpRequest,
    found: TaskQuestions,
    label: str,
    *,
    reporting: forms.Form | None = None,
    striking: tuple[int, forms.Form] | None = None,
) -> str:
    question = found.question(label)
    place = found.facts.called(label) or 0
    said = list(question.reports.select_related("task", "by").prefetch_related("rulings__by"))
    own = question.standing_of(request.user)
    initial = {name: getattr(own, name) for name in KeyReportForm.base_fields} if own else None
    line = questions.line_of(found, question.part, question.doc_id)
    query = urlencode({"doc": line.label})
    context = {
        "questions": found,
        "question": question,
        "line": line,
        "shown": read_question(found.row(place)),
        "reports": [(one, rulings.may_strike(one, request.user)) for one in said],
        "own": own,
        "form": reporting or KeyReportForm(initial=initial),
        "verdicts": VERDICTS.items(),
        "report_url": f"{reverse('task-key-report', args=[found.task.name])}?{query}",
        "own_url": f"{reverse('task-key', args=[found.task.name])}?{query}",
        "in_run": f"{found.run.get_absolute_url()}?{query}#question" if found.run else "",
        "striking": striking,
        "sees_struck": may_moderate(request.user),
        "disputed": sum(one.n for one in adjusted.sets_of([found.task.name])),
        "min_people": MIN_PEOPLE,
    }
    return render_to_string("corrections/key.html", context, request)
