"""What every page shares: the navigation, who is signed in, where models come from."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

NAVIGATION = (
    ("board", "Board"),
    ("styles", "Prompt styles"),
    ("queue", "Queue"),
    ("submit", "Submit"),
)
# Pages that are reached from a page of the navigation and belong to it.
SECTION = {"model": "board", "run": "board", "submission": "queue"}


def site(request: HttpRequest) -> dict[str, Any]:
    """Context processor; asks the database nothing."""
    name = request.resolver_match.url_name if request.resolver_match else None
    return {
        "navigation": NAVIGATION,
        "section": SECTION.get(name or "", name),
        "hub": settings.HF_ENDPOINT,
        "open_submit": settings.PLUMBLINE_OPEN_SUBMIT,
    }
