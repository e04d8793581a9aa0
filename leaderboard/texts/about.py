"""What this site is, who answers for it, and how anybody checks a number of it."""

from __future__ import annotations

import re

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.template.loader import render_to_string

from leaderboard.catalogue.cite import LICENCE
from leaderboard.web import kept


def about(request: HttpRequest) -> HttpResponseBase:
    context = {
        "operator": settings.PLUMBLINE_OPERATOR,
        "contact": settings.PLUMBLINE_CONTACT,
        "contact_link": _link(settings.PLUMBLINE_CONTACT),
        "licence": LICENCE,
    }
    return kept.compressed(request, render_to_string("texts/about.html", context, request))


def _link(contact: str) -> str:
    """Where a click on the contact leads; nowhere if it is neither an address nor a page."""
    if re.match(r"https?://", contact):
        return contact
    return f"mailto:{contact}" if re.fullmatch(r"[^\s@]+@[^\s@]+", contact) else ""
