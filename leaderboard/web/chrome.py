"""What every page shares: navigation, its own lasting address, where models come from."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest

from leaderboard.web.address import bounded

NAVIGATION = (
    ("board", "Board"),
    ("charts", "Charts"),
    ("styles", "Prompt styles"),
    ("compare", "Compare"),
    ("submit", "Submit"),
)
# Pages that are reached from a page of the navigation and belong to it.
SECTION = {
    "gpu": "board",
    "model": "board",
    "run": "board",
    "run-recount": "board",
    "task": "board",
    "suites": "board",
    "charts-agreement": "charts",
    "charts-questions": "charts",
    "charts-spread": "charts",
    "suite": "board",
    "submission": "submit",
}
# Fields that make another page of an address; all others only choose among what it shows.
KEPT = {
    "board": ("suite", "style", "page"),
    "gpu": ("suite", "style", "bits"),
    "styles": ("suite", "benchmark"),
    "changelog": ("page",),
    "run": ("doc",),
    "charts": ("suite", "score", "against", "on", "page"),
    "charts-agreement": ("suite", "page"),
    "charts-questions": ("suite", "task", "page"),
    "charts-spread": ("suite", "benchmark", "page"),
}


def site(request: HttpRequest) -> dict[str, Any]:
    """Context processor; asks the database nothing."""
    match = request.resolver_match
    name = (match.url_name if match else None) or ""
    return {
        "navigation": NAVIGATION,
        "page_name": name,
        "section": SECTION.get(name, name),
        "canonical": _canonical(request, KEPT.get(name, ())),
        "origin": f"{request.scheme}://{request.get_host()}",
        "site_suite": settings.PLUMBLINE_SUITE,
        "hub": settings.HF_ENDPOINT,
        "open_submit": settings.PLUMBLINE_OPEN_SUBMIT,
    }


def _canonical(request: HttpRequest, kept: tuple[str, ...]) -> str:
    """The address under which search engines shall know the page."""
    query = urlencode(
        [(name, bounded(request.GET[name])) for name in kept if request.GET.get(name)]
    )
    return request.build_absolute_uri(request.path + (f"?{query}" if query else ""))
