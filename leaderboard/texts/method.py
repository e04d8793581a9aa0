"""How each number is made: `docs/method.md` as a page."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.template.loader import render_to_string

from leaderboard.web import kept
from leaderboard.web.prose import read_prose

SOURCE = settings.BASE_DIR / "docs" / "method.md"


def method(request: HttpRequest) -> HttpResponseBase:
    page = render_to_string("texts/method.html", {"prose": read_prose(SOURCE)}, request)
    return kept.compressed(request, page)
