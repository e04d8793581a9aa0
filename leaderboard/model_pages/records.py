"""What the database has of a model: its commits, its family, its runs, and who asked for them.

The best of many tries looks better than it is, so all tries of one submitter stay in sight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Prefetch, Q, QuerySet, Window, prefetch_related_objects
from django.shortcuts import get_object_or_404

from evalcore.lengths import NAMES
from leaderboard.model_pages import standing
from leaderboard.model_pages.standing import Boards, Place, place
from leaderboard.models import (
    Artifact,
    HubModel,
    Result,
    Run,
    Submission,
    Suite,
    SuiteEntry,
    Variant,
)
from leaderboard.queue import listed
from leaderboard.snapshot import OWN, Board, Score, published
from leaderboard.web import Address, part

RELATIVES = 12
"""So many models of the family, and names of the same weights, are listed."""
RUNS, REVISIONS, SUBMISSIONS = 20, 10, 10
"""Lines of a page of each list."""
STATES = {"": "All", **dict(Run.State.choices)}


@dataclass(frozen=True)
class ModelRecord:
    """A model in one of its commits and one suite."""

    model: HubModel
    variants: list[Variant]
    """All commits and precisions, the newest first."""
    variant: Variant | None
    """The one that the page is about."""
    suite: Suite | None
    suites: list[Suite]
    boards: Boards
    base: str
    """The model that its family is called by."""
    known_here: dict[str, HubModel]
    """By ID its base and what it is called now, where this site knows them."""
    same_weights: list[Variant]
    """Other models with equal weight files."""

    @property
    def place(self) -> Place | None:
        """On the chosen suite's own board."""
        return place(self.boards.own, self.variant.pk) if self.variant else None


def read_model(repo_id: str, address: Address) -> ModelRecord:
    """The commit and the suite that the address names; a name that is none becomes the default.

    Raises Http404 for a model that this site does not know.
    """
    of_model = Variant.objects.filter(hub_model__repo_id=repo_id).select_related("hub_model")
    variants = list(of_model.order_by("-created", "-pk"))
    model = variants[0].hub_model if variants else get_object_or_404(HubModel, repo_id=repo_id)
    keys = [variant.pk for variant in variants]
    submitted = Submission.objects.filter(variant__in=keys).order_by().values_list("suite")
    suites, older = standing.suites_of(
        [suite for (suite,) in submitted.distinct()], settings.PLUMBLINE_SUITE
    )
    suite = _suite(address, suites)
    own = published.newest(suite, OWN) if suite else None
    chosen = _chosen(address, keys, own)
    variant = next((variant for variant in variants if variant.pk == chosen), None)
    base = base_of(model, variant, variants)
    names = {base, model.renamed_to} - {"", model.repo_id}
    rows = HubModel.objects.filter(repo_id__in=names) if names else ()
    return ModelRecord(
        model=model,
        variants=variants,
        variant=variant,
        suite=suite,
        suites=suites,
        boards=standing.boards(suite, own, suites, older, chosen),
        base=base,
        known_here={row.repo_id: row for row in rows},
        same_weights=_with_same_weights(variant) if variant else [],
    )


def base_of(model: HubModel, variant: Variant | None, variants: Sequence[Variant]) -> str:
    """The model that its family is called by: a base that one of its commits states, or itself.

    `variants` are all of the model's, the newest first; `variant`, if any, is asked before them.
    """
    stated = (row.base_model for row in (variant, *variants) if row and row.base_model)
    return next(stated, model.repo_id)


def _suite(address: Address, suites: Sequence[Suite]) -> Suite | None:
    """The suite that the address names, else the first: the site's own where it knows the model."""
    address.choice("suite", ["", *(suite.name for suite in suites)])
    named = [suite for suite in suites if suite.name == address["suite"]]
    return next(iter([*named, *suites]), None)


def _chosen(address: Address, variants: Sequence[int], board: Board | None) -> int | None:
    """The one that the address names, else the best ranked, else the newest with an average."""
    if named := address.choice("variant", ["", *map(str, variants)]):
        return int(named)
    rows = {
        board.row_of[variant]: variant for variant in variants if board and variant in board.row_of
    }
    if board is None or not rows:
        return next(iter(variants), None)
    ranked = [row for row in rows if board.ranks.rank[row]]
    return rows[min(ranked or rows)]


def _with_same_weights(variant: Variant) -> list[Variant]:
    """The first of those with the same weight files under other names."""
    if not variant.weights_digest:
        return []
    equal = Variant.objects.filter(weights_digest=variant.weights_digest)
    others = equal.exclude(hub_model=variant.hub_model_id).select_related("hub_model")
    return list(others.order_by("hub_model__repo_id", "pk")[:RELATIVES])


@dataclass(frozen=True)
class Tries:
    """What one submitter has asked for of one family."""

    submitter: str
    """Empty for visitors without an account, who may be many."""
    models: int
    variants: int
    """Commits and precisions."""
    submissions: int


@dataclass(frozen=True)
class Family:
    """The base, and all that state it as theirs."""

    relatives: list[HubModel]
    """The first of the others."""
    n_relatives: int
    """How many others there are."""
    tries: list[Tries]


def family_of(model: HubModel, base: str) -> Family:
    stated = Variant.objects.filter(base_model=base).values("hub_model")
    named = HubModel.objects.filter(Q(repo_id=base) | Q(pk=model.pk)).values("pk")
    # As one condition with OR the database would read every model that there is.
    family = HubModel.objects.filter(pk__in=stated.union(named))
    others = family.exclude(pk=model.pk).order_by("repo_id").annotate(n=Window(Count("*")))
    first: list[HubModel] = list(others[:RELATIVES])
    n = getattr(first[0], "n") if first else 0  # noqa: B009
    return Family(first, n, _tries_of(model, family))


def _tries_of(model: HubModel, family: QuerySet[HubModel]) -> list[Tries]:
    """Of each who submitted this model and more of its family: how much; most tries first."""
    submitters = Submission.objects.filter(variant__hub_model=model).values("submitter")
    by_them = Q(submitter__in=submitters.exclude(submitter=None))
    if_visitors = Q(submitter=None, variant__hub_model=model)
    rows = (
        Submission.objects.filter(variant__hub_model__in=family.values("pk"))
        .filter(by_them | if_visitors)
        .order_by()
        .values_list("submitter__username")
        .annotate(
            models=Count("variant__hub_model", distinct=True),
            variants=Count("variant", distinct=True),
            submissions=Count("pk", distinct=True),
        )
        .order_by("-variants", "submitter__username")
    )
    return [Tries(name or "", *counts) for name, *counts in rows if counts[1] > 1]


def run_with_files(runs: Sequence[UUID]) -> UUID | None:
    """The first of these runs whose stored answers can be counted again."""
    rows = Artifact.objects.filter(run__in=runs).order_by().values_list("run")
    files = dict(rows.annotate(n=Count("kind")))
    return next((run for run in runs if files.get(run) == len(Artifact.Kind.values)), None)


@dataclass(frozen=True)
class Revision:
    """A commit in one precision, with its place on the board where it has one."""

    variant: Variant
    place: Place | None
    url: str
    shown: bool


def revisions(record: ModelRecord, address: Address) -> dict[str, Any]:
    """A page of the commits and precisions."""
    shown = part(address, "revisions", len(record.variants), REVISIONS, "parts")
    rows = [
        Revision(
            variant,
            place(record.boards.own, variant.pk),
            address.url(variant=variant.pk, revisions=1),
            variant == record.variant,
        )
        for variant in record.variants[shown.slice]
    ]
    return {"revisions": rows, "revisions_part": shown}


@dataclass(frozen=True)
class RunLine:
    """A run with the number that a board would show, where it has one."""

    run: Run
    metric: str
    score: Score | None


def runs(record: ModelRecord, address: Address) -> dict[str, Any]:
    """A page of the runs in the state that the address names, and how many there are in each.

    The address names one of STATES.
    """
    keys = [variant.pk for variant in record.variants]
    every = Run.objects.filter(variant__in=keys)
    counts = dict(every.order_by().values_list("state").annotate(n=Count("pk")))
    counts[""] = sum(counts.values())
    state = address["state"]
    shown = part(address, "runs", counts.get(state, 0), RUNS, "parts")
    chosen = every.filter(state=state) if state else every
    return {
        "runs": _run_lines(chosen, shown.slice, record.variants),
        "runs_part": shown,
        "running": bool(counts.get(Run.State.RUNNING)),
        "states": [  # words, runs, address, and whether it is chosen
            (words, counts[name], address.url("parts", state=name, runs=1), name == state)
            for name, words in STATES.items()
            if counts.get(name) or not name
        ],
    }


def _run_lines(chosen: QuerySet[Run], shown: slice, variants: Sequence[Variant]) -> list[RunLine]:
    order = ("-created", "task__benchmark", "pk")
    # Which these are an index says; to sort whole rows the database would read all of them.
    page = Run.objects.filter(pk__in=chosen.order_by(*order).values("pk")[shown])
    light = listed(page).select_related(None).select_related("task").only(*_OF_RUN)
    found = list(light.order_by(*order))
    by_key = {variant.pk: variant for variant in variants}
    for run in found:
        run.variant = by_key[run.variant_id]
    whole = Prefetch("results", Result.objects.filter(subset="").only(*_OF_RESULT))
    prefetch_related_objects(found, whole)
    columns = _columns({run.run_key for run in found})
    return [
        _run_line(run, *columns.get(run.run_key, (run.task.primary_metric, ""))) for run in found
    ]


def _columns(keys: set[str]) -> Mapping[str, tuple[str, str]]:
    """By run key the metric and the filter of the column in which a board shows it."""
    if not keys:
        return {}
    entries = SuiteEntry.objects.filter(Q(run_key__in=keys) | Q(chat_run_key__in=keys))
    return {key: (entry.metric, entry.filter) for entry in entries for key, _ in entry.keys}


def _run_line(run: Run, metric: str, of_filter: str) -> RunLine:
    own = [
        result
        for result in run.results.all()
        if (result.task_name, result.metric) == (run.task.name, metric)
        and of_filter in ("", result.filter)
    ]
    if not own:
        return RunLine(run, metric, None)
    shown = own[0]
    score = Score(shown.value, shown.low, shown.high, shown.n, lengths=shown.lengths)
    return RunLine(run, metric, score)


_OF_RESULT = ("run", "task_name", "metric", "filter", "value", "low", "high", "n", *NAMES)
_OF_RUN = (
    *("variant", "shots", "run_key", "state", "created", "not_before", "finished", "phase"),
    *("progress_done", "progress_total", "error_message", "task", "recall"),
    *("task__name", "task__benchmark", "task__style", "task__primary_metric"),
)


def submissions(record: ModelRecord, address: Address) -> dict[str, Any]:
    """A page of what was asked for, the newest first."""
    keys = [variant.pk for variant in record.variants]
    every = Submission.objects.filter(variant__in=keys)
    shown = part(address, "submissions", every.count(), SUBMISSIONS, "parts")
    related = every.select_related("variant", "suite", "submitter").only(
        *("created", "state", "submitter__username", "variant__dtype"),
        *("suite__title", "suite__version"),
    )
    return {"submissions": related[shown.slice], "submissions_part": shown}
