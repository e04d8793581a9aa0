"""What this site is, who answers for it, and how anybody checks a number of it."""

from __future__ import annotations

import re

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.cite import LICENCE


def about(request: HttpRequest) -> HttpResponse:
    context = {
        "operator": settings.PLUMBLINE_OPERATOR,
        "contact": settings.PLUMBLINE_CONTACT,
        "contact_link": _link(settings.PLUMBLINE_CONTACT),
        "licence": LICENCE,
    }
    return render(request, "pages/about.html", context)


def _link(contact: str) -> str:
    """Where a click on the contact leads; nowhere if it is neither an address nor a page."""
    if re.match(r"https?://", contact):
        return contact
    return f"mailto:{contact}" if re.fullmatch(r"[^\s@]+@[^\s@]+", contact) else ""
