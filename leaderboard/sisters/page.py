"""Does it generalise? A benchmark beside its sister, model by model; drawn by the server."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.catalogue import every_suite
from leaderboard.models import Suite
from leaderboard.models import edition as editions
from leaderboard.sisters.view import ORDERS, address_of, lines, ticks, view
from leaderboard.stats import SISTERS_FEWEST
from leaderboard.web import Address, kept, part

PER_PAGE = 50
NAMED = 5
"""Models that stand out named in the sentence above the table."""


@require_safe
def sisters(request: HttpRequest) -> HttpResponseBase:
    """Chosen, ordered and paged by the address alone."""
    address = address_of(request)
    return kept.answer(request, editions.now, lambda: _page(request, address))


def _page(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    seen = view(address)
    shown = part(address, "page", seen.count, PER_PAGE, "table")
    if redirect := address.redirect():
        return redirect
    found = lines(seen, list(seen.gaps[shown.slice]))
    context = {
        "suite": seen.suite,
        "seen": seen,
        "fewest": SISTERS_FEWEST,
        "suites": _suites(seen.suite, address),
        "pairs": [
            (pair, address.url(pair=pair.name, page=1), pair == seen.pair) for pair in seen.pairs
        ],
        "lines": found,
        "ticks": ticks(seen),
        "part": shown,
        "orders": [
            (words, address.url("table", order=order, page=1), order == seen.order)
            for order, (words, _) in ORDERS.items()
        ],
        "above": lines(seen, seen.above[:NAMED]),
        "more_above": max(0, len(seen.above) - NAMED),
        "files": [
            (name, address.url(page=1).replace(request.path, reverse(f"sisters-{form}"), 1))
            for form, name in (("csv", "CSV"), ("json", "JSON"), ("parquet", "Parquet"))
        ],
    }
    return render_to_string("sisters/page.html", context, request)


def _suites(chosen: Suite | None, address: Address) -> list[tuple[Suite, str, bool]]:
    """The newest version of each suite that has sisters, and the one that is shown."""
    newest = {suite.name: suite for suite in every_suite() if suite.sisters}
    if chosen:
        newest[chosen.name] = chosen
    return [
        (suite, address.url(suite=suite.name, pair="", page=1), suite == chosen)
        for suite in sorted(newest.values(), key=lambda suite: suite.title)
    ]
