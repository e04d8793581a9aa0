"""Pages for machines and for what went wrong: health, robots, favicon, not found."""

from __future__ import annotations

from difflib import get_close_matches

from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.shortcuts import render
from django.templatetags.static import static

from leaderboard.models import HubModel

CLOSE_BY = 3


def healthz(_request: HttpRequest) -> HttpResponse:
    """200 where the site reaches its database; any failure is a 500 as everywhere."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return HttpResponse("ok\n", content_type="text/plain", headers={"Cache-Control": "no-store"})


def robots(_request: HttpRequest) -> HttpResponse:
    """Benchmark questions shall not become training text by way of this site."""
    return HttpResponse(
        "User-agent: *\nDisallow: /runs/\nDisallow: /submit\nDisallow: /admin/\n",
        content_type="text/plain",
    )


def favicon(_request: HttpRequest) -> HttpResponse:
    return HttpResponsePermanentRedirect(static("favicon.svg"))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    """404 with a way on: a search, and the models whose IDs look like the one asked for."""
    asked = request.path.removeprefix("/models/") if request.path.startswith("/models/") else ""
    context = {
        "path": request.path,
        "asked": asked,
        "word": asked.rpartition("/")[2],
        "close_by": _close_by(asked) if asked else [],
    }
    return render(request, "404.html", context, status=404)


def _close_by(asked: str) -> list[HubModel]:
    owner = asked.partition("/")[0]
    known = HubModel.objects.filter(repo_id__istartswith=owner[:4])[:500]
    by_id = {model.repo_id: model for model in [*known, *HubModel.objects.order_by("-pk")[:500]]}
    return [by_id[repo_id] for repo_id in get_close_matches(asked, by_id, CLOSE_BY, cutoff=0.55)]
