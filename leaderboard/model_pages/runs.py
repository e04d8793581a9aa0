"""Everything that was ever asked of a model: its commits, its runs, its submissions, in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Prefetch, Q, QuerySet, prefetch_related_objects

from evalcore.lengths import NAMES
from leaderboard.model_pages.known import Known
from leaderboard.model_pages.places import Place, place
from leaderboard.models import Result, Run, Submission, SuiteEntry, Variant
from leaderboard.queue import listed
from leaderboard.snapshot import Score
from leaderboard.web import Address, part

RUNS, REVISIONS, SUBMISSIONS = 20, 10, 10
STATES = {"": "All", **dict(Run.State.choices)}


@dataclass(frozen=True)
class Revision:
    """A commit in one precision, with its place on the board where it has one."""

    variant: Variant
    place: Place | None
    url: str
    shown: bool


@dataclass(frozen=True)
class Ran:
    """A run with the number that a board would show, where it has one."""

    run: Run
    metric: str
    score: Score | None


def history(
    found: Known, numbers: Mapping[UUID, tuple[str, Score]], address: Address
) -> dict[str, Any]:
    """A page of each list and the filter of the runs, as the address asks for them.

    `numbers` are known already: by run the metric and the score. The number of queries does not
    depend on how much there is.
    """
    state = address.choice("state", STATES)
    counts = {**found.runs, "": sum(found.runs.values())}
    of_revisions = part(address, "revisions", len(found.variants), REVISIONS, "revisions")
    of_runs = part(address, "runs", counts.get(state, 0), RUNS, "runs")
    of_submissions = part(address, "submissions", found.submissions, SUBMISSIONS, "submissions")
    keys = [variant.pk for variant in found.variants]
    runs = Run.objects.filter(variant__in=keys)
    chosen = runs.filter(state=state) if state else runs
    submissions = Submission.objects.filter(variant__in=keys)
    related = submissions.select_related("variant", "suite", "submitter")
    return {
        "revisions": [
            Revision(
                variant,
                place(found.boards.own, variant.pk),
                address.url(variant=variant.pk, revisions=1),
                variant == found.variant,
            )
            for variant in found.variants[of_revisions.slice]
        ],
        "revisions_part": of_revisions,
        "runs": _ran(chosen, of_runs.slice, found.variants, numbers),
        "runs_part": of_runs,
        "states": [  # words, runs, address, and whether it is chosen
            (words, counts[name], address.url("runs", state=name, runs=1), name == state)
            for name, words in STATES.items()
            if counts.get(name) or not name
        ],
        "submissions": related.only(*_OF_SUBMISSION)[of_submissions.slice],
        "submissions_part": of_submissions,
    }


def _ran(
    chosen: QuerySet[Run],
    place: slice,
    variants: Sequence[Variant],
    numbers: Mapping[UUID, tuple[str, Score]],
) -> list[Ran]:
    order = ("-created", "task__benchmark", "pk")
    # Which these are an index says; to sort whole rows the database would read all of them.
    page = Run.objects.filter(pk__in=chosen.order_by(*order).values("pk")[place])
    light = listed(page).select_related(None).select_related("task").only(*_OF_RUN)
    runs = list(light.order_by(*order))
    by_key = {variant.pk: variant for variant in variants}
    for run in runs:
        run.variant = by_key[run.variant_id]
    others = [run for run in runs if run.pk not in numbers]
    read = {ran.run.pk: ran for ran in _read(others)}
    return [read.get(run.pk) or Ran(run, *numbers[run.pk]) for run in runs]


def _read(runs: Sequence[Run]) -> list[Ran]:
    """Those of which no number is known yet."""
    if not runs:
        return []
    whole = Prefetch("results", Result.objects.filter(subset="").only(*_OF_RESULT))
    prefetch_related_objects(runs, whole)
    keys = {run.run_key for run in runs}
    shown_by = {
        key: (entry.metric, entry.filter)
        for entry in SuiteEntry.objects.filter(Q(run_key__in=keys) | Q(chat_run_key__in=keys))
        for key, _ in entry.keys
    }
    return [
        _with_score(run, *shown_by.get(run.run_key, (run.task.primary_metric, ""))) for run in runs
    ]


_OF_SUBMISSION = (
    *("created", "state", "submitter__username", "variant__dtype"),
    *("suite__title", "suite__version"),
)
_OF_RESULT = ("run", "task_name", "metric", "filter", "value", "low", "high", "n", *NAMES)
_OF_RUN = (
    *("variant", "shots", "run_key", "state", "created", "not_before", "finished", "phase"),
    *("progress_done", "progress_total", "error_message", "task", "recall"),
    *("task__name", "task__benchmark", "task__style", "task__primary_metric"),
)


def _with_score(run: Run, metric: str, of_filter: str) -> Ran:
    own = [
        result
        for result in run.results.all()
        if (result.task_name, result.metric) == (run.task.name, metric)
        and of_filter in ("", result.filter)
    ]
    if not own:
        return Ran(run, metric, None)
    shown = own[0]
    score = Score(shown.value, shown.low, shown.high, shown.n, lengths=shown.lengths)
    return Ran(run, metric, score)
