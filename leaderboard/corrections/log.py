"""The public log of all reports and recalls, whatever became of them; the same as an Atom feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, CharField, Count, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed

from leaderboard.corrections.questions import within
from leaderboard.corrections.recalls import stands_of
from leaderboard.models import (
    Departure,
    DisputedSet,
    Flag,
    HubModel,
    Recall,
    Ruling,
    TaskVersion,
    User,
)
from leaderboard.tasks import column as task_column
from leaderboard.templatetags.figures import plural

NUMBER, KEY, WISH, RECALL = "number", "key", "wish", "recall"
KINDS = {NUMBER: "Number", KEY: "Key", WISH: "Author’s wish", RECALL: "Recall"}
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
        return f"{self.kind}-{self.number}"

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
    chosen = [_rows(each, state, model, task) for each in KINDS if kind in ("", each)]
    return chosen[0].union(*chosen[1:], all=True).order_by("-last", "what", "-id")


def _rows(kind: str, state: str, model: str, task: str) -> QuerySet[Any, tuple[Any, ...]]:
    found, stand, last = _ROWS[kind]
    if (model and kind not in (NUMBER, WISH)) or (task and kind != KEY):
        found = found.none()
    elif model:
        found = found.filter(hub_model__repo_id=model)
    elif task:
        found = found.filter(task__name=task)
    found = found.order_by().annotate(
        what=Value(kind, CharField()), stand=stand, last=Coalesce(last, "at")
    )
    if state:
        found = found.filter(stand=state)
    shown: QuerySet[Any, tuple[Any, ...]] = found.values_list("what", "id", "stand", "last")
    return shown


def _stand(*whens: When) -> Case:
    return Case(*whens, default=Value(CLOSED), output_field=CharField())


_ROWS: Mapping[str, tuple[QuerySet[Any], Case, str]] = {
    NUMBER: (
        Flag.objects.all(),
        _stand(
            When(state=Flag.State.OPEN, then=Value(OPEN)),
            When(state=Flag.State.UPHELD, then=Value(IN_FORCE)),
        ),
        "decided",
    ),
    KEY: (
        Ruling.objects.all(),
        _stand(When(ended=None, by__is_active=True, then=Value(IN_FORCE))),
        "ended",
    ),
    WISH: (Departure.objects.all(), _stand(When(ended=None, then=Value(IN_FORCE))), "ended"),
    RECALL: (Recall.objects.all(), _stand(When(undone=None, then=Value(IN_FORCE))), "undone"),
}
"""By kind its rows, their state, and the field that says when that changed."""


def entries(found: Iterable[tuple[Any, ...]]) -> list[Entry]:
    """Some rows of the log with their words: at most a query for each kind, and one for titles."""
    shown = list(found)
    made = {}
    for kind, of_kind in _ENTRIES.items():
        of = {pk: (stand, last) for what, pk, stand, last in shown if what == kind}
        if of:
            for pk, fields in of_kind(list(of)).items():
                stand, last = of[pk]
                made[kind, pk] = Entry(kind=kind, number=pk, stand=stand, last=last, **fields)
    return [made[what, pk] for what, pk, *_ in shown if (what, pk) in made]


def _numbers(keys: Sequence[int]) -> dict[int, dict[str, Any]]:
    return {
        flag.pk: {
            "at": flag.at,
            "by": flag.by,
            "url": flag.get_absolute_url(),
            "about": flag.hub_model,
            "said": "" if flag.state == Flag.State.WITHHELD else flag.reason,
            "outcome": OUTCOMES[Flag.State(flag.state)],
            "why": flag.decision,
        }
        for flag in Flag.objects.select_related("hub_model", "by").filter(pk__in=keys)
    }


OUTCOMES = {
    Flag.State.OPEN: "waits for a ruling",
    Flag.State.UPHELD: "upheld: the model is marked",
    Flag.State.DISMISSED: "dismissed",
    Flag.State.WITHHELD: "dismissed",
    Flag.State.LIFTED: "lifted",
}
_SAYS = {
    Ruling.Verdict.RIGHT: "The key is right.",
    Ruling.Verdict.WRONG: "The key is wrong.",
    Ruling.Verdict.AMBIGUOUS: "It is ambiguous.",
}


def _keys(keys: Sequence[int]) -> dict[int, dict[str, Any]]:
    found = list(Ruling.objects.select_related("task", "by").filter(pk__in=keys))
    titles = titles_of({one.task for one in found})
    return {
        one.pk: {
            "at": one.at,
            "by": one.by,
            "url": one.get_absolute_url(),
            "about": f"{titles[one.task_id]}: question {within(one.task, one.called)}",
            "said": "" if one.is_struck else f"{_SAYS[Ruling.Verdict(one.verdict)]} {one.reason}",
            "outcome": one.get_ending_display().lower() if one.ended else "counts",
            "why": one.ending_words,
        }
        for one in found
    }


def _wishes(keys: Sequence[int]) -> dict[int, dict[str, Any]]:
    return {
        one.pk: {
            "at": one.at,
            "by": one.by,
            "url": one.hub_model.get_absolute_url(),
            "about": one.hub_model,
            "said": one.words,
            "outcome": "came back" if one.ended else "out of the ranking",
            "why": "" if one.ended else f"by {one.get_side_display()}",
        }
        for one in Departure.objects.select_related("hub_model", "by").filter(pk__in=keys)
    }


def _recalls(keys: Sequence[int]) -> dict[int, dict[str, Any]]:
    stands = stands_of(keys)
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


_ENTRIES: Mapping[str, Callable[[Sequence[int]], dict[int, dict[str, Any]]]] = {
    NUMBER: _numbers,
    KEY: _keys,
    WISH: _wishes,
    RECALL: _recalls,
}


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
    counts = Count("pk", filter=Q(ended=None, by__is_active=True))
    reported = dict(Ruling.objects.order_by().values_list("task__name").annotate(n=counts))
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
        atom.add_item(
            title=f"{entry.label}: {entry.about}, {entry.outcome}",
            link=request.build_absolute_uri(entry.url),
            description=f"{said} {entry.outcome}: {entry.why}" if entry.why else said,
            unique_id=request.build_absolute_uri(f"{reverse('corrections')}#{entry.anchor}"),
            pubdate=entry.at,
            updateddate=entry.last,
        )
    return atom
