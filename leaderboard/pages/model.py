"""A model: which of its commits is ranked, its numbers, its runs, and who asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from leaderboard import family, snapshots
from leaderboard.board_data import OWN, Board
from leaderboard.models import HubModel, Suite, Variant
from leaderboard.pages import model_places, model_runs, model_scores
from leaderboard.pages.address import Address
from leaderboard.pages.wanted import Wanted

RELATIVES = 12
"""So many models of the family, and names of the same weights, are listed."""


def model(request: HttpRequest, repo_id: str) -> HttpResponse:
    """One commit in one precision in full, the others as a line each; the address says which."""
    shown = get_object_or_404(HubModel, repo_id=repo_id)
    pages = dict.fromkeys(("revisions", "runs", "submissions"), "1")
    address = Address(request, {"variant": "", "suite": "", "state": "", **pages})
    variants = list(shown.variants.order_by("-created", "-pk").values_list("pk", flat=True))
    submitted = shown.variants.values_list("submissions__suite", flat=True).distinct()
    suites, older = model_places.suites_of(set(submitted), settings.PLUMBLINE_SUITE)
    suite = _chosen(address, suites)
    board = snapshots.newest(suite, OWN) if suite else None
    chosen = _variant(address, variants, board)
    variant = (
        shown.variants.select_related("hub_model").filter(pk=chosen).first() if chosen else None
    )
    address.choice("state", model_runs.STATES)
    history = model_runs.history(shown, variants, chosen, board, address)
    if redirect := address.redirect():
        return redirect
    context = {
        "model": shown,
        "variant": variant,
        "suite": suite,
        "suites": [(one, address.url(suite=one.name), one == suite) for one in suites],
        "history": history,
        "renamed": HubModel.objects.filter(repo_id=shown.renamed_to or "").first(),
        **(_numbers(suite, suites, older, variant) if suite and variant else {}),
        **(_relations(shown, variant) if variant else {}),
    }
    return render(request, "pages/model.html", context)


def _chosen(address: Address, suites: Sequence[Suite]) -> Suite | None:
    """The suite that the address names, else the first: the site's own where it knows the model."""
    address.choice("suite", [suite.name for suite in suites])
    named = [suite for suite in suites if suite.name == address["suite"]]
    return next(iter([*named, *suites]), None)


def _variant(address: Address, variants: Sequence[int], board: Board | None) -> int | None:
    """The one that the address names, else the best ranked, else the newest with an average."""
    if asked := address.choice("variant", ["", *map(str, variants)]):
        return int(asked)
    rows = {board.row_of[one]: one for one in variants if board and one in board.row_of}
    if board is None or not rows:
        return next(iter(variants), None)
    ranked = [row for row in rows if board.ranks.rank[row]]
    return rows[min(ranked or rows)]


def _numbers(
    suite: Suite, suites: Sequence[Suite], older: Sequence[Suite], variant: Variant
) -> dict[str, Any]:
    """Its places on the boards, and its scores in the chosen suite."""
    own = model_places.place(suite, OWN, variant.pk)
    places = model_places.by_style(suite, own, variant.pk)
    elsewhere = [model_places.place(one, OWN, variant.pk) for one in suites if one != suite]
    before = [model_places.place(one, OWN, variant.pk, current=False) for one in older]
    others = [one for one in (*elsewhere, *before) if one]
    found = model_scores.benchmarks(suite, variant)
    files = Wanted(suite=suite.name, q=variant.hub_model.repo_id, cols="all")
    return {
        "own": own,
        "places": [*places, *others],
        "places_scale": model_places.scale_of([*places, *others]),
        "benchmarks": found,
        "scale": model_scores.scale_of(found),
        "files": [
            (words, files.url(to=f"board-{kind}"))
            for words, kind in (("CSV", "csv"), ("JSON", "json"), ("parquet", "parquet"))
        ],
        "pin_url": Wanted(suite=suite.name, pin=str(variant.pk)).url(),
    }


def _relations(shown: HubModel, variant: Variant) -> dict[str, Any]:
    base = family.base_of(shown, variant)
    members = family.family(shown, base)
    return {
        "same_weights": family.same_weights(variant)[:RELATIVES],
        "base": base,
        "tries": family.tries(shown, base),
        "relatives": members.exclude(pk=shown.pk).order_by("repo_id")[:RELATIVES],
        "n_relatives": members.count() - 1,
        "base_here": members.filter(repo_id=variant.base_model).first()
        if variant.base_model
        else None,
    }
