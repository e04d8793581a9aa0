"""The public log of all reports and recalls, whatever became of them; the same as an Atom feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, CharField, Count, Expression, F, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.html import escape

from leaderboard.corrections.questions import within
from leaderboard.corrections.recalls import stands_of
from leaderboard.corrections.reports import cleaned
from leaderboard.models import DisputedSet, HubModel, Recall, Report, Ruling, TaskVersion, User
from leaderboard.tasks import column as task_column
from leaderboard.templatetags.figures import plural

RECALL = "recall"
KINDS = {**dict(Report.Kind.choices), RECALL: "Recall"}
OPEN, IN_FORCE, CLOSED = "open", "in-force", "closed"
STATES = {OPEN: "Open", IN_FORCE: "In force", CLOSED: "Closed"}
"""What is open waits for a ruling; what is in force has an effect, or counts."""
MAX_FEED_ENTRIES = 50
MAX_NAMES = 6
"""Of a recall in the log; all of them stand on its own page."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A report or a recall, as the log shows it."""

    kind: str
    number: int
    stand: str
    at: datetime
    last: datetime
    """When it was made, or what became of it last."""
    by: User | str | None
    """None for an account that was deleted."""
    url: str
    about: HubModel | str
    said: str
    """Empty where it is withheld."""
    outcome: str
    why: str = ""
    """The words of the outcome."""

    @property
    def anchor(self) -> str:
        return f"{RECALL if self.kind == RECALL else 'report'}-{self.number}"

    @property
    def label(self) -> str:
        return KINDS[self.kind]

    @property
    def model(self) -> HubModel | None:
        return self.about if isinstance(self.about, HubModel) else None


def rows(
    kind: str = "", state: str = "", model: str = "", task: str = ""
) -> QuerySet[Any, tuple[Any, ...]]:
    """Kind, number, state and last change of every entry, the last change first; of one model or
    one benchmark where it is named."""
    reports, recalls = Report.objects.all(), Recall.objects.all()
    if kind and kind != RECALL:
        reports = reports.filter(kind=kind)
    if model:
        reports = reports.filter(hub_model__repo_id=model)
    if task:
        reports = reports.filter(task__name=task)
    if kind == RECALL:
        reports = reports.none()
    if (kind and kind != RECALL) or model or task:
        recalls = recalls.none()
    of_reports = _rows(reports, F("kind"), _STAND_OF_REPORT, "closed", state)
    of_recalls = _rows(recalls, Value(RECALL, CharField()), _STAND_OF_RECALL, "undone", state)
    return of_reports.union(of_recalls, all=True).order_by("-last", "what", "-id")


def _rows(
    found: QuerySet[Any], what: Expression | F, stand: Case, last: str, state: str
) -> QuerySet[Any, tuple[Any, ...]]:
    found = found.order_by().annotate(what=what, stand=stand, last=Coalesce(last, "at"))
    if state:
        found = found.filter(stand=state)
    shown: QuerySet[Any, tuple[Any, ...]] = found.values_list("what", "id", "stand", "last")
    return shown


_STAND_OF_REPORT = Case(
    When(state=Report.State.UPHELD, then=Value(IN_FORCE)),
    When(~Q(state=Report.State.OPEN), then=Value(CLOSED)),
    When(~Q(kind=Report.Kind.KEY), then=Value(OPEN)),
    When(by__is_active=True, then=Value(IN_FORCE)),
    default=Value(CLOSED),
    output_field=CharField(),
)
_STAND_OF_RECALL = Case(
    When(undone=None, then=Value(IN_FORCE)), default=Value(CLOSED), output_field=CharField()
)


def entries(found: Iterable[tuple[Any, ...]]) -> list[Entry]:
    """Some rows of the log with their words, in as many queries for few as for many."""
    shown = list(found)
    recalled = [pk for what, pk, *_ in shown if what == RECALL]
    reported = [pk for what, pk, *_ in shown if what != RECALL]
    of_recalls, of_reports = _recalls(recalled), _reports(reported)
    made = []
    for what, pk, stand, last in shown:
        fields = (of_recalls if what == RECALL else of_reports).get(pk)
        if fields:
            made.append(Entry(kind=what, number=pk, stand=stand, last=last, **fields))
    return made


def entry_of(report: Report) -> Entry:
    """One report, as the log shows it."""
    (row,) = _rows(Report.objects.filter(pk=report.pk), F("kind"), _STAND_OF_REPORT, "closed", "")
    return entries([row])[0]


def _reports(keys: Sequence[int]) -> dict[int, dict[str, Any]]:
    found = list(
        Report.objects.filter(pk__in=keys)
        .select_related("hub_model", "task", "by")
        .prefetch_related("rulings")
    )
    titles = titles_of({one.task for one in found if one.task})
    return {
        one.pk: {
            "at": one.at,
            "by": one.by,
            "url": one.get_absolute_url(),
            "about": one.hub_model or _about(one, titles),
            "said": "" if one.is_withheld else f"{_SAYS.get(one.verdict, '')}{one.reason}",
            **_outcome(one),
        }
        for one in found
    }


_SAYS: Mapping[str, str] = {
    Report.Verdict.RIGHT: "The key is right. ",
    Report.Verdict.WRONG: "The key is wrong. ",
    Report.Verdict.AMBIGUOUS: "It is ambiguous. ",
}


def _about(report: Report, titles: Mapping[int, str]) -> str:
    if report.task is None:
        return ""
    title = titles[report.task.pk]
    return f"{title}: question {within(report.task, report.called)}" if report.called else title


def _outcome(report: Report) -> dict[str, str]:
    """What became of a report, and the words with which that was done."""
    # Sorted here, where they are known: the newest is the first.
    ruling = max(report.rulings.all(), key=lambda one: one.pk, default=None)
    if ruling is None:
        waits = "counts" if report.kind == Report.Kind.KEY else "waits for a ruling"
        is_open = report.state == Report.State.OPEN
        return {"outcome": waits if is_open else report.get_state_display().lower()}
    if ruling.undone:
        came_back = "came back" if report.kind == Report.Kind.WISH else "lifted"
        return {"outcome": came_back, "why": ruling.undone_words}
    if ruling.effect == Ruling.Effect.OUT:
        by_author = ruling.side == Ruling.Side.AUTHOR
        by = "by its author" if by_author else "by a moderator, for its author"
        return {"outcome": "out of the ranking", "why": by}
    struck = report.kind == Report.Kind.KEY
    return {"outcome": "struck" if struck else OUTCOMES[report.state, ruling.effect],
            "why": ruling.words}  # fmt: skip


OUTCOMES: Mapping[tuple[str, str], str] = {
    (Report.State.UPHELD, Ruling.Effect.MARK): "upheld: the model is marked",
    (Report.State.UPHELD, Ruling.Effect.RECALL): "upheld: the result is recalled",
    (Report.State.UPHELD, Ruling.Effect.NONE): "upheld",
    (Report.State.DISMISSED, Ruling.Effect.NONE): "dismissed",
    (Report.State.WITHHELD, Ruling.Effect.WITHHELD): "dismissed",
}


def _recalls(keys: Sequence[int]) -> dict[int, dict[str, Any]]:
    stands = stands_of(keys) if keys else {}
    return {
        one.pk: {
            "at": one.at,
            "by": one.by,
            "url": one.get_absolute_url(),
            "about": f"{one.get_kind_display()}: {_some(one.named)}",
            "said": one.reason,
            "outcome": "undone" if one.undone else f"{plural(one.results, 'result')} recalled",
            "why": one.undone_why
            or ", ".join(f"{n:,} {what}" for _, n, what in stands[one.pk].counts),
        }
        for one in Recall.objects.filter(pk__in=keys)
    }


def _some(named: Sequence[str]) -> str:
    more = f" and {len(named) - MAX_NAMES:,} more" if len(named) > MAX_NAMES else ""
    return f"{', '.join(named[:MAX_NAMES])}{more}"


def titles_of(tasks: Iterable[TaskVersion]) -> dict[int, str]:
    """By task its title as its own page has it, of all of them with one query."""
    tasks = list(tasks)
    entries = task_column.entries_by_name({task.name for task in tasks})
    return {task.pk: task_column.title_of(task, entries.get(task.name, [])) for task in tasks}


@dataclass(frozen=True)
class ReportedBenchmark:
    name: str
    title: str
    disputed: int
    n: int
    """Reports that count."""


def benchmarks() -> list[ReportedBenchmark]:
    """Those with a report on a key, the most disputed questions first."""
    counts = Count("pk", filter=Q(state=Report.State.OPEN, by__is_active=True))
    keys = Report.objects.filter(kind=Report.Kind.KEY, task__isnull=False).order_by()
    reported = dict(keys.values_list("task__name").annotate(n=counts))
    disputed: dict[str, int] = {}
    for name, n in DisputedSet.objects.filter(current=True).values_list("task__name", "n"):
        disputed[name] = disputed.get(name, 0) + n
    tasks = TaskVersion.objects.filter(name__in=reported).order_by("created", "pk")
    newest = {task.name: task for task in tasks}
    titles = titles_of(newest.values())
    found = [
        ReportedBenchmark(name, titles[newest[name].pk], disputed.get(name, 0), n)
        for name, n in reported.items()
    ]
    return sorted(found, key=lambda one: (-one.disputed, -one.n, one.title, one.name))


def feed(request: HttpRequest) -> Atom1Feed:
    """What changed last, for readers of feeds."""
    atom = Atom1Feed(
        title="Plumbline: corrections",
        link=request.build_absolute_uri(reverse("corrections")),
        description="What people report, what is ruled, and what was recalled",
        feed_url=request.build_absolute_uri(),
        language="en",
    )
    for entry in entries(rows()[:MAX_FEED_ENTRIES]):
        said = entry.said or "Its text is withheld."
        told = f"{said} ({entry.outcome}: {entry.why})" if entry.why else said
        # A recall's reason may come from a terminal, and XML has no control characters; feed
        # readers take a description for HTML.
        atom.add_item(
            title=cleaned(f"{entry.label}: {entry.about}, {entry.outcome}"),
            link=request.build_absolute_uri(entry.url),
            description=escape(cleaned(told)),
            unique_id=request.build_absolute_uri(f"{reverse('corrections')}#{entry.anchor}"),
            pubdate=entry.at,
            updateddate=entry.last,
        )
    return atom
