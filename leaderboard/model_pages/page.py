"""A model: which of its commits is ranked, its numbers, its runs, and who asked for them."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from leaderboard.board import Wanted
from leaderboard.model_pages import picture as model_picture
from leaderboard.model_pages import places as model_places
from leaderboard.model_pages import render, scores
from leaderboard.model_pages import runs as model_runs
from leaderboard.model_pages.known import Known, family_of, known
from leaderboard.model_pages.portrait import portrait
from leaderboard.models import HubModel, Run, Suite, Variant
from leaderboard.models import edition as editions
from leaderboard.web import Address, kept


@require_safe
def model(request: HttpRequest, repo_id: str) -> HttpResponseBase:
    """One commit in one precision in full, the others as a line each; the address says which."""
    pages = dict.fromkeys(("revisions", "runs", "submissions"), "1")
    address = Address(request, {"variant": "", "suite": "", "state": "", **pages})
    return kept.answer(request, editions.now, lambda: _page(request, repo_id, address))


def _page(request: HttpRequest, repo_id: str, address: Address) -> str | HttpResponseBase:
    try:
        found = known(repo_id, address)
    except Http404:
        former = HubModel.objects.filter(renamed_to=repo_id).first()
        if former is None:
            raise
        return HttpResponseRedirect(former.get_absolute_url())
    if Run.State.RUNNING in found.runs:
        kept.only_for_now()  # how far it is, is no new edition
    model, variant, suite = found.model, found.variant, found.suite
    numbers = scores.known(suite, variant, found.boards.every) if suite and variant else None
    history = model_runs.history(found, numbers.of_run if numbers else {}, address)
    if redirect := address.redirect():
        return redirect
    context = {
        "model": model,
        "variant": variant,
        "suite": suite,
        "suites": [
            (other, address.url(suite=other.name), other == suite) for other in found.suites
        ],
        "history": history,
        "runs": render.runs(history["runs"]) if history["runs"] else "",
        "renamed": found.here.get(model.renamed_to),
        **(_numbers(found, numbers, suite, variant) if suite and variant and numbers else {}),
        **(_portrait(found, variant) if variant else {}),
        **(_relations(found, variant) if variant else {}),
    }
    return render_to_string("model_pages/page.html", context, request)


def _numbers(found: Known, numbers: scores.Known, suite: Suite, variant: Variant) -> dict[str, Any]:
    """Its places on the boards, and its scores in the chosen suite."""
    places = model_places.places(found.boards, variant.pk)
    benchmarks = numbers.benchmarks
    scale = scores.scale_of(benchmarks)
    files = Wanted(suite=suite.name, q=variant.hub_model.repo_id, cols="all")
    return {
        "own": model_places.place(found.boards.own, variant.pk),
        "places": places,
        "places_scale": model_places.scale_of(places),
        "scale": scale,
        "scores": render.scores(benchmarks, scale) if benchmarks else "",
        "files": [
            (words, files.url(to=f"board-{kind}"))
            for words, kind in (("CSV", "csv"), ("JSON", "json"), ("Parquet", "parquet"))
        ],
        "pin_url": Wanted(suite=suite.name, pin=str(variant.pk)).url(),
    }


def _portrait(found: Known, variant: Variant) -> dict[str, Any]:
    """What the first screen shows: nothing where its board does not have it yet."""
    shown = portrait(found.boards, variant.pk, found.base)
    return {
        "portrait": shown,
        "profile": render.profile(shown) if shown and shown.rows else "",
        "share_title": model_picture.headline(found),
        "picture_url": model_picture.picture_url(found),
        "picture_alt": f"{model_picture.headline(found)}; its ranks on each benchmark",
    }


def _relations(found: Known, variant: Variant) -> dict[str, Any]:
    family = family_of(found.model, found.base)
    return {
        "same_weights": found.same_weights,
        "base": found.base,
        "tries": family.tries,
        "relatives": family.relatives,
        "n_relatives": family.n_relatives,
        "base_here": found.here.get(variant.base_model),
    }
