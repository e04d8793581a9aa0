"""Every comparison of a backend with transformers that was made here."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from evalcore.agreement import BOUNDS, HALF_PRECISION, MOST_OF_ERROR, MOST_SCORED_OTHERWISE
from leaderboard.models import Agreement
from leaderboard.models import edition as editions
from leaderboard.web import Address, kept, part

ON_A_PAGE = 50


@require_safe
def backends(request: HttpRequest) -> HttpResponseBase:
    address = Address(request, {"page": "1"})
    return kept.answer(request, editions.now, lambda: _page(request, address))


def _page(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    rows = Agreement.objects.select_related(
        "run__variant__hub_model", "run__task", "reference"
    ).order_by("-created", "-pk")
    shown = part(address, "page", rows.count(), ON_A_PAGE, "comparisons")
    if redirect := address.redirect():
        return redirect
    context = {
        "rows": rows[shown.slice],
        "part": shown,
        "bounds": BOUNDS,
        "half": HALF_PRECISION["bfloat16"],
        "otherwise": f"{MOST_SCORED_OTHERWISE:.0%}",
        "of_error": MOST_OF_ERROR,
    }
    return render_to_string("backends/page.html", context, request)
