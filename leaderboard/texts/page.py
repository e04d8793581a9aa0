"""Pages of words: what this site is, how each number is made, and what changed.

The first begins with a number to count again, the second with a question that a model was asked,
both of this site's own board.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from uuid import UUID

from django.conf import settings
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber, TruncDate
from django.http import HttpRequest, HttpResponseBase
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from leaderboard.board import CheckedNumber, checked_number
from leaderboard.catalogue import LICENCE, newest_suite
from leaderboard.models import Artifact, HubModel, Suite, SuiteEntry, TaskVersion
from leaderboard.models.task import is_share
from leaderboard.samples import (
    Damaged,
    Question,
    Unavailable,
    path_of,
    read_question,
    rows_in,
)
from leaderboard.snapshot import OWN, Board, Score, published
from leaderboard.web import Address, kept, part, prose

METHOD = settings.BASE_DIR / "docs" / "method.md"
CHANGELOG = settings.BASE_DIR / "CHANGELOG.md"
DAYS = 20
"""Days with a change that a page lists."""
NAMED = 6
"""Models of a day that are named; the others are counted."""


MAX_RANKED = 100
"""Ranked models, the first, among which one with stored answers is looked for."""
MAX_FILES = 12
"""Files of answers that are opened to find it."""
MAX_READ = 30
"""Questions of a run among which one to show is looked for."""
MAX_CHOICES = 5
"""Choices of the question that is shown, so that it fits beside its score."""
LONGEST_QUESTION = 160


def about(request: HttpRequest) -> HttpResponseBase:
    """What this site is, who answers for it, and how anybody checks a number of it."""

    def make() -> str:
        context = {
            "checked": _checked(),
            "operator": settings.PLUMBLINE_OPERATOR,
            "contact": settings.PLUMBLINE_CONTACT,
            "contact_link": _link(settings.PLUMBLINE_CONTACT),
            "licence": LICENCE,
            "trusted_code": len(settings.PLUMBLINE_TRUSTED_CODE),
        }
        return render_to_string("texts/about.html", context, request)

    return kept.answer(request, _edition, make)


def _edition() -> object:
    """What decides whether an example of the site's own board is still true."""
    return published.edition(settings.PLUMBLINE_SUITE)


def _own_board() -> Board | None:
    suite = newest_suite(settings.PLUMBLINE_SUITE)
    return published.newest(suite, OWN) if suite else None


def _checked() -> CheckedNumber | None:
    """A number to count again: of the first ranked model whose answers are stored."""
    board = _own_board()
    if board is None:
        return None
    stored = _stored(board)
    for row in dict.fromkeys(row for row, *_ in stored):
        checked = checked_number(board, [row])
        if checked and checked.countable:
            return checked
    for row, place, run, _ in stored:
        if score := board.score(row, place):
            title = board.columns[place].title
            return CheckedNumber(run, _name(board, row), title, score.value, score.n, None, True)
    return checked_number(board, range(board.averaged))


def _name(board: Board, row: int) -> str:
    """A model's name without its owner."""
    return str(board.models.value(row, "repo_id")).rpartition("/")[2]


def _stored(board: Board) -> list[tuple[int, int, UUID, str]]:
    """Cells of ranked models whose answers are stored, the best model first: row, column, run and
    the digest of its samples."""
    ranked = [row for row in range(board.averaged) if board.ranks.rank[row]][:MAX_RANKED]
    shares = [
        place
        for place, column in enumerate(board.columns)
        if is_share(column.metric) and column.draws == 1
    ]
    cells = {
        run: (row, place) for row in ranked for place in shares for run in board.runs_of(row, place)
    }
    files = Artifact.objects.filter(run__in=cells, kind=Artifact.Kind.SAMPLES)
    found = files.values_list("run", "sha256")
    return sorted((*cells[run], run, sha256) for run, sha256 in found)


def _link(contact: str) -> str:
    """Where a click on the contact leads; nowhere if it is neither an address nor a page."""
    if re.match(r"https?://", contact):
        return contact
    return f"mailto:{contact}" if re.fullmatch(r"[^\s@]+@[^\s@]+", contact) else ""


@dataclass(frozen=True)
class Example:
    """A question that a model of this site was asked, and the number and the rank it is part of."""

    run: UUID
    model: str
    benchmark: str
    style: str
    question: Question
    score: Score
    rank: int
    span: str
    """The ranks that cannot be excluded."""
    ranked: int
    average: Score

    @property
    def letters_alone(self) -> bool:
        """Whether only letters were scored, whose choices stand in the prompt."""
        return all(choice.text == choice.letter for choice in self.question.choices)

    @property
    def right(self) -> int:
        """Questions that the model got right."""
        return round(self.score.value * self.score.n)


def method(request: HttpRequest) -> HttpResponseBase:
    """How each number is made: an example, then `docs/method.md`, its formal part folded."""

    def make() -> str:
        text = prose.read_prose(METHOD)
        place = text.html.index("<h2", 1)
        context = {
            "example": _example(),
            "prose": text,
            "in_short": mark_safe(text.html[:place]),  # noqa: S308 `read_prose` escaped it
            "formal": mark_safe(text.html[place:]),  # noqa: S308
        }
        return render_to_string("texts/method.html", context, request)

    return kept.answer(request, lambda: (_edition(), METHOD.stat().st_mtime_ns), make)


def _example() -> Example | None:
    """Of the first stored answers in which a question with few choices can be shown; rather one
    whose choices were scored as texts than one that has only their letters."""
    board = _own_board()
    if board is None:
        return None
    found: list[Example] = []
    for row, place, run, sha256 in _stored(board)[:MAX_FILES]:
        score, average = board.score(row, place), board.average_of(row)
        question = _question_to_show(sha256, score.n) if score else None
        if not (score and average and question):
            continue
        column = board.columns[place]
        example = Example(
            run=run,
            model=_name(board, row),
            benchmark=column.title,
            style=column.style,
            question=question,
            score=score,
            rank=int(board.ranks.rank[row]),
            span=board.ranks.span(row),
            ranked=board.ranked,
            average=average,
        )
        if not example.letters_alone:
            return example
        found.append(example)
    return found[0] if found else None


def _question_to_show(sha256: str, n: int) -> Question | None:
    """The first short question that was answered right and not without doubt, else any short one;
    None where the file cannot be read or has none."""
    try:
        rows = rows_in(path_of(sha256), range(min(n, MAX_READ)))
    except (Damaged, Unavailable, OSError):
        return None
    short = [
        question
        for question in map(read_question, rows.values())
        if question.right is not None
        and not question.withheld
        and 0 < len(question.title) <= LONGEST_QUESTION
        and 2 <= len(question.choices) <= MAX_CHOICES
        and not question.long_choices
    ]
    doubtful = (one for one in short if one.right and one.pick and one.pick.share < 0.9)
    return next(doubtful, None) or next(iter(short), None)


@dataclass
class Day:
    """What was added on one day."""

    date: date
    suites: list[tuple[Suite, str]] = field(default_factory=list)
    """With what changed in this version, as its file tells it."""
    tasks: list[tuple[TaskVersion, str]] = field(default_factory=list)
    """With the title that pages name it by."""
    models: list[HubModel] = field(default_factory=list)
    """Submitted for the first time; the first few of them."""
    models_n: int = 0

    @property
    def models_left(self) -> int:
        return self.models_n - len(self.models)


def changelog(request: HttpRequest) -> HttpResponseBase:
    """What changed: on this site, day by day, and in the software."""
    address = Address(request, {"page": "1"})
    suites = Suite.objects.annotate(day=TruncDate("created"))
    tasks = TaskVersion.objects.annotate(day=TruncDate("created"))
    models = HubModel.objects.annotate(day=TruncDate("first_seen"))
    of_each = [added.values_list("day", flat=True).distinct() for added in (suites, tasks, models)]
    dates = sorted({day for days in of_each for day in days})
    shown = part(address, "page", len(dates), DAYS)
    if redirect := address.redirect():
        return redirect
    days = {date: Day(date) for date in dates[::-1][shown.slice]}
    for suite in suites.filter(day__in=days).order_by("title", "version"):
        change = str(suite.changelog.get(suite.version, ""))
        days[suite.day].suites.append((suite, change))
    titles = dict(SuiteEntry.objects.order_by("suite__created").values_list("task", "title"))
    for task in tasks.filter(day__in=days).order_by("name", "version"):
        days[task.day].tasks.append((task, task.titled(titles.get(task.pk, ""))))
    for day, of_day, model in _new_models(days):
        days[day].models.append(model)
        days[day].models_n = of_day
    context = {
        "number": shown.number,
        "days": days.values(),
        "pages": shown.links,
        "software": prose.read_prose(CHANGELOG, below=1),
    }
    return kept.compressed(request, render_to_string("texts/changelog.html", context, request))


def _new_models(days: Iterable[date]) -> Iterator[tuple[date, int, HubModel]]:
    """The first few models of each day, each with its day and how many that day has in all."""
    models = (
        HubModel.objects.annotate(day=TruncDate("first_seen"))
        .filter(day__in=days)
        .annotate(
            place=Window(RowNumber(), partition_by=F("day"), order_by=["first_seen", "pk"]),
            of_day=Window(Count("pk"), partition_by=F("day")),
        )
    )
    for model in models.filter(place__lte=NAMED).order_by("first_seen", "pk"):
        yield model.day, model.of_day, model
