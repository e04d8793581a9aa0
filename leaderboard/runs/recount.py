"""A run's number counted again on request, from its stored answers, beside the requests.

A count that takes longer than a moment is asked for again by its page until it is there. The
address changes no data, so it needs no form; no crawler is led to it. Its answer is one element,
`#counted`, which the page of a run and the card on the board put in the place of their own.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from django.conf import settings
from django.core.cache import caches
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from evalcore.digest import digest_of, digest_of_file
from evalcore.record import Place, ResultRow, RunRecord
from leaderboard.models import Artifact, Result, Run
from leaderboard.models.run import MEASURED
from leaderboard.runs import headline
from leaderboard.samples import Unavailable, vectors
from leaderboard.samples import store as artifacts
from leaderboard.web import background, throttle

if TYPE_CHECKING:
    from evalcore.task.library.load import TaskLibrary

logger = logging.getLogger(__name__)

PER_MINUTE = 6
MOST_WAITING = 20
"""Counts that wait or are under way in each process of the site."""
KEEP_SECONDS = 60
"""For which those who wait for an outcome find it."""
LAST_SECONDS = 30 * 86_400
"""For which pages tell when a number was counted last, and what came out."""
LEFT_ALONE_SECONDS = 120
"""For which a count of another process is waited for; that process may be gone."""
FULL_SECONDS = 10
"""After which to ask again where too many wait."""
MOST_SHOWN = 20
"""Differences that the page lists."""


@dataclass
class Outcome:
    """What came out; `differences` are whatever is not as published."""

    result: Result | None
    """The number of the run's page."""
    again: ResultRow | None = None
    """The same number as it comes out now; None where it could not be counted."""
    right: int | None = None
    """How many answers are right, where the number is their share."""
    numbers: int = 0
    questions: int = 0
    scored: int = 0
    seconds: float = 0.0
    at: str = ""
    """When it was counted, in ISO 8601."""
    differences: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What was not counted again, and why."""

    @classmethod
    def from_json(cls, outcome: Mapping[str, Any], result: Result | None) -> Outcome:
        """What `as_json` gave, with the number that stands in the database."""
        again = outcome["again"]
        return cls(**{**outcome, "result": result, "again": again and ResultRow.of(again)})

    def as_json(self) -> dict[str, Any]:
        """Without the number of the run's page, which is in the database."""
        outcome = {name: value for name, value in vars(self).items() if name != "result"}
        return {**outcome, "again": self.again.as_json() if self.again else None}

    @property
    def counted_at(self) -> datetime | None:
        return datetime.fromisoformat(self.at) if self.at else None

    @property
    def published_right(self) -> int | None:
        """How many right answers the published number stands for."""
        if self.right is None or self.result is None:
            return None
        right = round(self.result.value * self.result.n)
        return right if isclose(right / self.result.n, self.result.value, abs_tol=1e-9) else None

    @property
    def verdict(self) -> str:
        """`differs`, `same`, or `unknown` where nothing could be counted."""
        if self.differences:
            return "differs"
        return "same" if self.again else "unknown"

    @property
    def listed(self) -> list[str]:
        return self.differences[:MOST_SHOWN]

    @property
    def more(self) -> int:
        return max(0, len(self.differences) - MOST_SHOWN)


@require_safe
def recount(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The verdict, or words that it is being counted, cannot be counted now, or is asked too often.

    A part of a page is put in its place whatever the status says, so it always comes as 200 or 202.
    """
    run = get_object_or_404(headline.runs(), pk=pk, state__in=MEASURED)
    files = {file.kind: file for file in run.artifacts.all()}
    results = list(run.results.all())
    if files.keys() != set(Artifact.Kind.values):
        if "HX-Request" in request.headers:
            return _page(request, run, results, stored=False)
        raise Http404(f"run {pk} has no stored answers to count again")
    key = _key(run, results)
    known = caches["default"].get(key)
    if isinstance(known, dict):
        return _page(
            request, run, results, Outcome.from_json(known, headline.primary(run, results))
        )
    begins = not jobs.has(key)
    if begins:
        if known == COUNTING:
            return _page(request, run, results, counting=True)
        if seconds := throttle.wait("recounts", PER_MINUTE, request):
            return _page(request, run, results, wait_seconds=seconds, status=429)
    try:
        outcome = jobs.ask(key, partial(_counted, key, run, files, results))
    except background.NotReady:
        return _page(request, run, results, counting=True)
    except background.TooMuchWork:
        return _page(request, run, results, wait_seconds=FULL_SECONDS, status=503)
    except Unavailable:
        jobs.forget(key)
        return _page(request, run, results, away=True, status=503)
    if begins:  # Nobody else waits for it, so the next who asks has it counted anew.
        jobs.forget(key)
        caches["default"].delete(key)
    return _page(request, run, results, outcome)


def last_outcome(run: Run, results: Sequence[Result]) -> Outcome | None:
    """What came out when the run was counted last; None where nobody did of late."""
    last = caches["default"].get(_last_key(run.pk))
    if not isinstance(last, dict) or last["key"] != _key(run, results):
        return None
    return Outcome.from_json(last["outcome"], headline.primary(run, results))


def last_counted(pk: UUID) -> str:
    """When the run was counted last, as text that decides whether a kept page is still true."""
    last = caches["default"].get(_last_key(pk))
    return str(last["outcome"]["at"]) if isinstance(last, dict) else ""


jobs: background.Background[Outcome] = background.Background(
    "recount", threads=1, most=MOST_WAITING, keep_seconds=KEEP_SECONDS
)
"""One at a time in each process: it is work for a processor, and pages need that, too."""
COUNTING = "counting"
"""Stands in the cache, which all processes of a site with a Redis share, until the outcome does."""


def _key(run: Run, results: Sequence[Result]) -> str:
    """Of a run with these numbers."""
    return f"recount-{digest_of([str(run.pk), [[str(r.pk), r.value, r.n] for r in results]])}"


def _last_key(pk: UUID) -> str:
    return f"counted-last-{pk}"


def _page(
    request: HttpRequest,
    run: Run,
    results: Sequence[Result],
    outcome: Outcome | None = None,
    *,
    counting: bool = False,
    away: bool = False,
    stored: bool = True,
    wait_seconds: int = 0,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "run": run,
        "metric": headline.metric(run),
        "outcome": outcome,
        "counting": counting,
        "away": away,
        "stored": stored,
        "wait": wait_seconds,
    }
    template, status = "runs/recount.html", 202 if counting else status
    if "HX-Request" in request.headers:
        template, status = "runs/counted.html", 202 if counting else 200
    else:
        primary = headline.primary(run, results)
        context |= {
            "primary": primary,
            "squares": headline.squares(primary) if primary else None,
            "can_be_counted": True,
        }
    response = render(request, template, context, status=status)
    response["Cache-Control"] = "no-store"
    response["X-Robots-Tag"] = "noindex"
    if wait_seconds:
        response["Retry-After"] = str(wait_seconds)
    return response


def _counted(
    key: str, run: Run, files: Mapping[str, Artifact], results: Sequence[Result]
) -> Outcome:
    """In a thread of its own; the log gets whatever is not as published, once."""
    shared = caches["default"]
    shared.set(key, COUNTING, LEFT_ALONE_SECONDS)
    try:
        outcome = _outcome(run, files, results)
    except BaseException:
        shared.delete(key)
        raise
    if outcome.differences:
        listed = "; ".join(outcome.listed)
        logger.error("run %s does not come out as it was published: %s", run.pk, listed)
    outcome.at = timezone.now().isoformat(timespec="seconds")
    shared.set(key, outcome.as_json(), KEEP_SECONDS)
    shared.set(_last_key(run.pk), {"key": key, "outcome": outcome.as_json()}, LAST_SECONDS)
    return outcome


def _outcome(run: Run, files: Mapping[str, Artifact], results: Sequence[Result]) -> Outcome:
    # Imported late: half a second that most processes of the site need not spend.
    from evalcore.verify.recount import differences
    from evalcore.verify.recount import recount as count

    outcome = Outcome(headline.primary(run, results))
    paths = {kind: artifacts.path_of(file.sha256) for kind, file in files.items()}
    if lost := [kind for kind, path in paths.items() if not path.is_file()]:
        outcome.differences = [f"{files[kind]}: its file is not in the store" for kind in lost]
        return outcome
    stated = files[Artifact.Kind.RECORD].sha256
    if (found := digest_of_file(paths[Artifact.Kind.RECORD])) != stated:
        outcome.differences.append(f"SHA-256 of the record: stated {stated}, found {found}")
    try:
        record = RunRecord.read(paths[Artifact.Kind.RECORD])
        seed = secrets.randbits(32)
        counted = count(record, paths[Artifact.Kind.SAMPLES], _library(), seed=seed)
    except ValueError as problem:
        outcome.differences.append(str(problem))
        return outcome
    named = files[Artifact.Kind.SAMPLES].sha256
    if named not in (counted.digest, record.samples.sha256):
        outcome.differences.append(f"SHA-256 of the answers: stored as {named}")
    outcome.differences += counted.differences
    if counted.rows:
        for result in results:
            outcome.differences += differences(result, counted.rows.get(_place(result)))
    # What record and database state alike is one difference to a reader.
    outcome.differences = list(dict.fromkeys(outcome.differences))
    outcome.again = counted.rows.get(_place(outcome.result)) if outcome.result else None
    outcome.right = _right_answers(paths[Artifact.Kind.SAMPLES], outcome.again)
    outcome.numbers = len(counted.rows)
    outcome.questions, outcome.scored = counted.questions, counted.scored
    outcome.seconds, outcome.left = counted.seconds, counted.left
    return outcome


def _right_answers(samples: Path, number: ResultRow | None) -> int | None:
    """How many questions are right; None where the number is not the share of right answers."""
    if number is None:
        return None
    scores = vectors.scores_in(samples, number.metric, number.filter)
    if scores is None or not np.isin(scores, (0.0, 1.0)).all():
        return None
    is_share = isclose(float(scores.mean()), number.value, abs_tol=vectors.SAME)
    return int(scores.sum()) if is_share and len(scores) == number.n else None


def _place(result: Result) -> Place:
    return Place(result.task_name, result.subset, result.metric, result.filter)


@cache
def _library() -> TaskLibrary:
    """For benchmarks whose scores are aggregated by code of ours."""
    from evalcore.task.library.load import TaskLibrary

    return TaskLibrary([settings.PLUMBLINE_TASKS])
