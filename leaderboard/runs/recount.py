"""A run's number counted again on request, from its stored answers, while the reader waits.

By an address that no crawler is led to: it writes nothing, so it needs no form, and the page that
links it stays the same for everybody.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field
from functools import cache
from threading import BoundedSemaphore
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from evalcore.digest import digest_of_file
from evalcore.record import Place, ResultRow, RunRecord
from leaderboard.models import Artifact, Result, Run
from leaderboard.models.run import MEASURED
from leaderboard.runs import headline
from leaderboard.samples import store as artifacts
from leaderboard.web import throttle

if TYPE_CHECKING:
    from evalcore.task.library.load import TaskLibrary

logger = logging.getLogger(__name__)

PER_MINUTE = 6
_AT_ONCE = BoundedSemaphore(1)
"""In each process: it is work for a processor, and pages shall not wait for it."""
WAITS = 10
"""Seconds for which a second reader waits for the first."""
MOST_SHOWN = 20
"""Differences that the page lists."""


@dataclass
class Outcome:
    """What a reader is told; `differences` are whatever is not as published."""

    result: Result | None
    """The number of the run's page."""
    again: ResultRow | None = None
    """The same number as it comes out now; None where it could not be counted."""
    numbers: int = 0
    questions: int = 0
    scored: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

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
    run = get_object_or_404(headline.runs(), pk=pk, state__in=MEASURED)
    files = {file.kind: file for file in run.artifacts.all()}
    if files.keys() != set(Artifact.Kind.values):
        raise Http404(f"run {pk} has no stored answers to count again")
    seconds = throttle.wait("recounts", PER_MINUTE, request)
    if not seconds and not _AT_ONCE.acquire(timeout=WAITS):
        seconds = WAITS
    if seconds:
        return _page(request, run, wait_seconds=seconds)
    try:
        outcome = _outcome(run, files)
    finally:
        _AT_ONCE.release()
    if outcome.differences:
        told = "; ".join(outcome.listed)
        logger.error("run %s does not come out as it was published: %s", run.pk, told)
    return _page(request, run, outcome)


def _page(
    request: HttpRequest, run: Run, outcome: Outcome | None = None, wait_seconds: int = 0
) -> HttpResponse:
    context = {"run": run, "metric": headline.metric(run), "outcome": outcome, "wait": wait_seconds}
    response = render(request, "runs/recount.html", context, status=429 if wait_seconds else 200)
    response["Cache-Control"] = "no-store"
    response["X-Robots-Tag"] = "noindex"
    if wait_seconds:
        response["Retry-After"] = str(wait_seconds)
    return response


def _outcome(run: Run, files: dict[str, Artifact]) -> Outcome:
    # Imported late: half a second that most processes of the site need not spend.
    from evalcore.verify.recount import differences
    from evalcore.verify.recount import recount as count

    results = list(run.results.all())
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
    outcome.numbers = len(counted.rows)
    outcome.questions, outcome.scored = counted.questions, counted.scored
    outcome.seconds, outcome.left = counted.seconds, counted.left
    return outcome


def _place(result: Result) -> Place:
    return Place(result.task_name, result.subset, result.metric, result.filter)


@cache
def _library() -> TaskLibrary:
    """For benchmarks whose scores are aggregated by code of ours."""
    from evalcore.task.library.load import TaskLibrary

    return TaskLibrary([settings.PLUMBLINE_TASKS])
