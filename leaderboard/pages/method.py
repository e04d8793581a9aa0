"""How each number is made: `docs/method.md` as a page."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.pages.prose import read_prose

SOURCE = settings.BASE_DIR / "docs" / "method.md"


def method(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/method.html", {"prose": read_prose(SOURCE)})
