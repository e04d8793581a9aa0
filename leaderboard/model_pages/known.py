"""What a model's page is made from: its commits, its family, and how often one submitter tried.

The best of many tries looks better than it is, so all tries of one submitter stay in sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Window
from django.shortcuts import get_object_or_404

from leaderboard.model_pages import places
from leaderboard.model_pages.places import Boards
from leaderboard.models import HubModel, Run, Submission, Suite, Variant
from leaderboard.snapshot import OWN, Board, published
from leaderboard.web import Address


@dataclass(frozen=True)
class Tries:
    """What one submitter has asked for of one family."""

    submitter: str
    """Empty for visitors without an account, who may be many."""
    models: int
    variants: int
    """Commits and precisions."""
    submissions: int


def base_of(model: HubModel, variant: Variant | None, variants: Sequence[Variant]) -> str:
    """The model that its family is called by: a base that one of its commits states, or itself.

    `variants` are all of the model's, the newest first; `variant`, if any, is asked before them.
    """
    stated = (named.base_model for named in (variant, *variants) if named and named.base_model)
    return next(stated, model.repo_id)


@dataclass(frozen=True)
class Family:
    """The base, and all that state it as theirs."""

    relatives: list[HubModel]
    """The first of the others."""
    n_relatives: int
    """How many others there are."""
    tries: list[Tries]


def family_of(model: HubModel, base: str) -> Family:
    family = _family(model, base)
    others = family.exclude(pk=model.pk).order_by("repo_id").annotate(n=Window(Count("*")))
    first: list[HubModel] = list(others[:RELATIVES])
    n = getattr(first[0], "n") if first else 0  # noqa: B009
    # Of few the keys are at hand: Django takes longer to write that condition than the database to
    # answer it.
    few = n == len(first)
    return Family(
        first,
        n,
        _tries_of(
            model, [model.pk, *(other.pk for other in first)] if few else family.values("pk")
        ),
    )


def _family(model: HubModel, base: str) -> QuerySet[HubModel]:
    stated = Variant.objects.filter(base_model=base).values("hub_model")
    named = HubModel.objects.filter(Q(repo_id=base) | Q(pk=model.pk)).values("pk")
    # As one condition with OR the database would read every model that there is.
    return HubModel.objects.filter(pk__in=stated.union(named))


def _tries_of(model: HubModel, family: Sequence[int] | QuerySet[HubModel, Any]) -> list[Tries]:
    """Of each who submitted this model and more of its family (all models of it, by primary key):
    how much; most tries first."""
    submitters = Submission.objects.filter(variant__hub_model=model).values("submitter")
    of_family = Submission.objects.filter(variant__hub_model__in=family)
    by_them = Q(submitter__in=submitters.exclude(submitter=None))
    if_visitors = Q(submitter=None, variant__hub_model=model)
    rows = (
        of_family.filter(by_them | if_visitors)
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


def with_same_weights(variant: Variant) -> QuerySet[Variant]:
    """The same weight files under other names."""
    if not variant.weights_digest:
        return Variant.objects.none()
    others = Variant.objects.filter(weights_digest=variant.weights_digest)
    named = others.exclude(hub_model=variant.hub_model_id).select_related("hub_model")
    return named.order_by("hub_model__repo_id", "pk")


RELATIVES = 12
"""So many models of the family, and names of the same weights, are listed."""


@dataclass(frozen=True)
class Known:
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
    here: dict[str, HubModel]
    """By ID its base and what it is called now, where this site knows them."""
    same_weights: list[Variant]
    runs: dict[str, int]
    """By state."""
    submissions: int


def known(repo_id: str, address: Address) -> Known:
    """What the address asks for; what it asks for in vain becomes its default.

    Raises Http404 for a model that this site does not know.
    """
    of_model = Variant.objects.filter(hub_model__repo_id=repo_id).select_related("hub_model")
    variants = list(of_model.order_by("-created", "-pk"))
    model = variants[0].hub_model if variants else get_object_or_404(HubModel, repo_id=repo_id)
    keys = [variant.pk for variant in variants]
    submitted = _counts(Submission.objects.filter(variant__in=keys), "suite")
    suites, older = places.suites_of(submitted, settings.PLUMBLINE_SUITE)
    suite = _suite(address, suites)
    own = published.newest(suite, OWN) if suite else None
    chosen = _chosen(address, keys, own)
    variant = next((variant for variant in variants if variant.pk == chosen), None)
    boards = places.boards(suite, own, suites, older, chosen)
    base = base_of(model, variant, variants)
    here = _here({base, model.renamed_to} - {"", model.repo_id})
    same_weights = list(with_same_weights(variant)[:RELATIVES]) if variant else []
    return Known(
        model=model,
        variants=variants,
        variant=variant,
        suite=suite,
        suites=suites,
        boards=boards,
        base=base,
        here=here,
        same_weights=same_weights,
        runs=_counts(Run.objects.filter(variant__in=keys), "state"),
        submissions=sum(submitted.values()),
    )


def _suite(address: Address, suites: Sequence[Suite]) -> Suite | None:
    """The suite that the address names, else the first: the site's own where it knows the model."""
    address.choice("suite", [suite.name for suite in suites])
    named = [suite for suite in suites if suite.name == address["suite"]]
    return next(iter([*named, *suites]), None)


def _chosen(address: Address, variants: Sequence[int], board: Board | None) -> int | None:
    """The one that the address names, else the best ranked, else the newest with an average."""
    if asked := address.choice("variant", ["", *map(str, variants)]):
        return int(asked)
    rows = {
        board.row_of[variant]: variant for variant in variants if board and variant in board.row_of
    }
    if board is None or not rows:
        return next(iter(variants), None)
    ranked = [row for row in rows if board.ranks.rank[row]]
    return rows[min(ranked or rows)]


def _here(names: set[str]) -> dict[str, HubModel]:
    rows = HubModel.objects.filter(repo_id__in=names) if names else ()
    return {model.repo_id: model for model in rows}


def _counts(rows: QuerySet[Any], field: str) -> dict[Any, int]:
    """By this field how many rows there are."""
    return dict(rows.order_by().values_list(field).annotate(n=Count("pk")))
