"""What a model's page is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count
from django.shortcuts import get_object_or_404

from leaderboard.model_pages import family, places
from leaderboard.model_pages.places import Boards
from leaderboard.models import HubModel, Run, Submission, Suite, Variant
from leaderboard.snapshot import published
from leaderboard.snapshot.data import OWN, Board
from leaderboard.web.address import Address

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
    submitted = _submitted(keys)
    suites, older = places.suites_of(submitted, settings.PLUMBLINE_SUITE)
    suite = _suite(address, suites)
    own = published.newest(suite, OWN) if suite else None
    chosen = _chosen(address, keys, own)
    variant = next((one for one in variants if one.pk == chosen), None)
    boards = places.boards(suite, own, suites, older, chosen)
    base = family.base_of(model, variant, variants)
    here = _here({base, model.renamed_to} - {"", model.repo_id})
    same_weights = list(family.same_weights(variant)[:RELATIVES]) if variant else []
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
        runs=_runs(keys),
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
    rows = {board.row_of[one]: one for one in variants if board and one in board.row_of}
    if board is None or not rows:
        return next(iter(variants), None)
    ranked = [row for row in rows if board.ranks.rank[row]]
    return rows[min(ranked or rows)]


def _submitted(variants: Sequence[int]) -> dict[int, int]:
    """By suite how often they were submitted to it."""
    rows = Submission.objects.filter(variant__in=variants).order_by().values_list("suite")
    return dict(rows.annotate(n=Count("pk")))


def _here(names: set[str]) -> dict[str, HubModel]:
    rows = HubModel.objects.filter(repo_id__in=names) if names else ()
    return {model.repo_id: model for model in rows}


def _runs(variants: Sequence[int]) -> dict[str, int]:
    """By state how many there are."""
    rows = Run.objects.filter(variant__in=variants).order_by().values_list("state")
    return dict(rows.annotate(n=Count("pk")))
