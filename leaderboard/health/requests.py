"""How long the site takes to answer, by page and status: counted over all its processes.

Each process keeps its own counts in a file (prometheus-client's multiprocess mode, for which
`leaderboard/gunicorn_config.py` makes the folder); whoever is asked for the metrics adds them up.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from prometheus_client import Histogram

from leaderboard.web import page_of

Answer = Callable[[HttpRequest], HttpResponse]

UNCOUNTED = "plumbline.uncounted"
"""Set in the environment of a request that nobody sent: a page that is rendered beforehand."""
SECONDS = Histogram(
    "plumbline_http_request_duration_seconds",
    "Time until the head of the answer, by the name of the page and the status.",
    ("page", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


def time_requests(get_response: Answer) -> Answer:
    """Count every answer with its time; checks of health and metrics come before this."""

    def answer(request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        response = get_response(request)
        if UNCOUNTED not in request.META:
            took = time.perf_counter() - began
            SECONDS.labels(page_of(request), str(response.status_code)).observe(took)
        return response

    return answer
