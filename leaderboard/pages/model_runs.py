"""Everything that was ever asked of a model: its commits, its runs, its submissions, in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Prefetch, QuerySet

from leaderboard.board_data import Board, Score
from leaderboard.models import HubModel, Result, Run, Submission, SuiteEntry, Variant
from leaderboard.pages.address import Address
from leaderboard.pages.listing import listed
from leaderboard.pages.model_places import Place
from leaderboard.pages.paging import Part, part

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


@dataclass(frozen=True)
class History:
    """A page of each list, and the filter of the runs."""

    revisions: list[Revision]
    revisions_part: Part
    runs: list[Ran]
    runs_part: Part
    states: list[tuple[str, int, str, bool]]
    """Words, runs, address and whether it is chosen."""
    submissions: QuerySet[Submission]
    submissions_part: Part


def history(
    model: HubModel,
    variants: Sequence[int],
    shown: int | None,
    board: Board | None,
    address: Address,
) -> History:
    """What the address asks for; the number of queries does not depend on how much there is.

    `variants` are all of the model's by primary key, the newest first, and `shown` the one that the
    page is about.
    """
    counts = _counts(model)
    state = address["state"]
    submissions = Submission.objects.filter(variant__hub_model=model)
    of_revisions = part(address, "revisions", len(variants), REVISIONS, "revisions")
    of_runs = part(address, "runs", counts[state], RUNS, "runs")
    of_submissions = part(address, "submissions", submissions.count(), SUBMISSIONS, "submissions")
    runs = Run.objects.filter(variant__hub_model=model)
    chosen = runs.filter(state=state) if state else runs
    related = submissions.select_related("variant", "suite", "submitter")
    return History(
        revisions=[
            Revision(
                variant,
                _place(board, variant),
                address.url(variant=variant.pk, revisions=1),
                variant.pk == shown,
            )
            for variant in _variants(variants[of_revisions.slice])
        ],
        revisions_part=of_revisions,
        runs=_ran(chosen.order_by("-created", "task__benchmark", "pk")[of_runs.slice]),
        runs_part=of_runs,
        states=[
            (words, counts[name], address.url("runs", state=name, runs=1), name == state)
            for name, words in STATES.items()
            if counts[name] or not name
        ],
        submissions=related[of_submissions.slice],
        submissions_part=of_submissions,
    )


def _counts(model: HubModel) -> dict[str, int]:
    """Runs by state, and of all under the empty name."""
    runs = Run.objects.filter(variant__hub_model=model).order_by()
    by_state = dict(runs.values_list("state").annotate(n=Count("pk")))
    return {name: by_state.get(name, 0) for name in STATES} | {"": sum(by_state.values())}


def _variants(wanted: Sequence[int]) -> list[Variant]:
    found = Variant.objects.in_bulk(list(wanted))
    return [found[pk] for pk in wanted if pk in found]


def _place(board: Board | None, variant: Variant) -> Place | None:
    row = board.row_of.get(variant.pk) if board else None
    return None if board is None or row is None else Place(board, row, current=True)


def _ran(chosen: QuerySet[Run]) -> list[Ran]:
    whole = Prefetch("results", Result.objects.filter(subset=""))
    light = listed(chosen).defer("log_tail", "environment", "dataset_commits")
    runs = list(light.prefetch_related(whole))
    entries = SuiteEntry.objects.filter(run_key__in={run.run_key for run in runs})
    shown_by = {key: of for key, *of in entries.values_list("run_key", "metric", "filter")}
    return [
        _with_score(run, *shown_by.get(run.run_key, (run.task.primary_metric, ""))) for run in runs
    ]


def _with_score(run: Run, metric: str, of_filter: str) -> Ran:
    own = [
        result
        for result in run.results.all()
        if (result.task_name, result.metric) == (run.task.name, metric)
        and of_filter in ("", result.filter)
    ]
    score = Score(own[0].value, own[0].low, own[0].high, own[0].n) if own else None
    return Ran(run, metric, score)
