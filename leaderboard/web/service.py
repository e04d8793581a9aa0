"""Pages for machines and for what went wrong: robots, favicon, not found."""

from __future__ import annotations

import errno
import sqlite3
import sys
from collections.abc import Callable
from difflib import get_close_matches

from django.conf import settings
from django.contrib.sitemaps import Sitemap
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Exists, OuterRef, QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponsePermanentRedirect,
    JsonResponse,
)
from django.shortcuts import render
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import is_valid_path, reverse
from django.views import defaults

from leaderboard.models import HubModel, Run, Suite, TaskVersion
from leaderboard.web import throttle
from leaderboard.web.address import bounded

CLOSE_BY = 3
LONGEST_REASON = 200


def robots(request: HttpRequest) -> HttpResponse:
    """Benchmark questions shall not become training text by way of this site."""
    of_runs = ("/runs/", "/cells/", "/compare?")
    of_days = ("/*?at=", "/*&at=")
    kept_out = (
        *of_runs,
        *of_days,
        "/submit?",
        "/submissions/",
        "/accounts/",
        "/corrections/new",
        "/tasks/*/keys/question",
        "/account",
        "/admin/",
    )
    lines = ["User-agent: *", *(f"Disallow: {address}" for address in kept_out)]
    lines += ["", f"Sitemap: {request.build_absolute_uri(reverse('sitemap'))}"]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain")


def favicon(_request: HttpRequest) -> HttpResponse:
    return HttpResponsePermanentRedirect(static("favicon.svg"))


def bad_request(_request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 Django passes it by this name
    """400 by a page that asks nothing of the request: its host may be the one that is wrong."""
    return HttpResponseBadRequest(render_to_string("400.html"))


FULL_SECONDS = 60
"""After which to try again where the disk was full."""
_FULL = "The disk of this site is full."
_TELL = "Nothing of it was stored. Try again in some minutes, or tell who runs this site."


def server_error(request: HttpRequest) -> HttpResponse:
    """500, or 503 where the disk is full, which its operator finds in the log like any fault."""
    if not is_disk_full(sys.exc_info()[1]):
        return defaults.server_error(request)
    if request.path_info.startswith("/api/"):
        told = {"field": "form", "code": "disk_full", "message": _FULL, "remedy": _TELL}
        response: HttpResponse = JsonResponse({"problems": [told]}, status=503)
    else:
        # Without the request: who asks, and what is in force, may take a disk to find out.
        page = render_to_string("503.html", {"frame": "bare.html", "disk_full": True})
        response = HttpResponse(page, status=503)
    response["Retry-After"] = str(FULL_SECONDS)
    response["Cache-Control"] = "no-store"
    return response


def is_disk_full(error: BaseException | None) -> bool:
    """Whether this, or what it came from, is that a disk or its quota had no room left."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return True
        if getattr(error, "pgcode", None) == _DISK_FULL_OF_POSTGRES:
            return True
        error = error.__cause__ or error.__context__
    return False


_DISK_FULL_OF_POSTGRES = "53100"


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404 with a way on: what is missing, a search, and what has a name like the one asked.

    An address that is one of ours but for a slash at its end leads there.
    """
    if address := _without_slash(request):
        return HttpResponsePermanentRedirect(address)
    path = bounded(request.path)
    asked = path.removeprefix("/models/") if path.startswith("/models/") else ""
    context = {
        "path": path,
        "reason": _reason(exception),
        "run": _run_address(request),
        "asked": asked,
        "word": asked.rpartition("/")[2],
        "close_by": _close_by(request, path),
    }
    return render(request, "404.html", context, status=404)


def _without_slash(request: HttpRequest) -> str:
    bare = request.path.rstrip("/")
    ours = bare != request.path and not bare.startswith(reverse("admin:index").rstrip("/"))
    if request.method not in ("GET", "HEAD") or not ours or not is_valid_path(bare):
        return ""
    query = request.META.get("QUERY_STRING", "")
    return f"{bare}?{query}" if query else bare


def _reason(exception: Exception) -> str:
    """The sentence that a page raised Http404 with; Django's own say nothing to a reader."""
    said = exception.args[0] if exception.args else ""
    if not isinstance(said, str) or isinstance(exception.__context__, ObjectDoesNotExist):
        return ""
    return said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON]}…"


def _run_address(request: HttpRequest) -> str:
    match = request.resolver_match
    of_run = match is not None and (match.url_name or "").startswith("run")
    return reverse("run", args=[match.kwargs["pk"]]) if match and of_run else ""


def _close_by(request: HttpRequest, path: str) -> list[tuple[str, str]]:
    """Name and address of models, tasks or suites called nearly like what `path` asks for.

    None for who asks for very many addresses that are none: to compare names takes a while.
    """
    _, section, asked = ("/" + path.strip("/") + "//").split("/", 2)
    names = _NAMES.get(section)
    asked = asked.rstrip("/")
    if names is None or not asked:
        return []
    if throttle.wait("guesses", settings.PLUMBLINE_PAGES_PER_MINUTE, request):
        return []
    close = get_close_matches(asked, names(asked), CLOSE_BY, cutoff=0.55)
    return [(name, reverse(section.removesuffix("s"), args=[name])) for name in close]


def _models(asked: str) -> list[str]:
    """Those of an owner called alike, and the newest: there may be too many to look at all."""
    ids = HubModel.objects.values_list("repo_id", flat=True)
    alike = ids.filter(repo_id__istartswith=asked.partition("/")[0][:4])[:500]
    return [*dict.fromkeys([*alike, *ids.order_by("-pk")[:500]])]


def _names(model: type[TaskVersion] | type[Suite]) -> list[str]:
    return list(model.objects.order_by("name").values_list("name", flat=True).distinct())


_NAMES: dict[str, Callable[[str], list[str]]] = {
    "models": _models,
    "tasks": lambda _: _names(TaskVersion),
    "suites": lambda _: _names(Suite),
}


class Pages(Sitemap):  # type: ignore[type-arg]
    def items(self) -> list[str]:
        return [
            "board",
            "styles",
            "compare",
            "queue",
            "pool",
            "submit",
            "suites",
            "backends",
            "charts",
            "charts-agreement",
            "charts-questions",
            "charts-spread",
            "corrections",
            "method",
            "about",
            "changelog",
        ]

    def location(self, item: str) -> str:
        return reverse(item)


class Suites(Sitemap):  # type: ignore[type-arg]
    """The newest version of each under its name, every version under its own address."""

    def items(self) -> list[str]:
        versions = list(Suite.objects.order_by("name", "created").values_list("name", "version"))
        names = dict.fromkeys(name for name, _ in versions)
        return [*names, *(f"{name}@{version}" for name, version in versions)]

    def location(self, item: str) -> str:
        return reverse("suite", args=[item])


class Tasks(Sitemap):  # type: ignore[type-arg]
    def items(self) -> QuerySet[TaskVersion, str]:
        return TaskVersion.objects.order_by("name").values_list("name", flat=True).distinct()

    def location(self, item: str) -> str:
        return reverse("task", args=[item])


class Models(Sitemap):  # type: ignore[type-arg]
    """Those of which anything was measured."""

    def items(self) -> QuerySet[HubModel]:
        done = Run.objects.filter(variant__hub_model=OuterRef("pk"), state=Run.State.DONE)
        return HubModel.objects.filter(Exists(done)).order_by("pk")


SECTION = {"sitemaps": {"pages": Pages, "suites": Suites, "tasks": Tasks, "models": Models}}
INDEX = {**SECTION, "sitemap_url_name": "sitemap-section"}
"""What Django's two views of a sitemap are told; models fill a file for every 50,000."""
