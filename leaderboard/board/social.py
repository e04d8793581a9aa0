"""The picture that other sites show beside a link to this one."""

from __future__ import annotations

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from evalcore.digest import digest_of
from leaderboard.board.picture import draw_board
from leaderboard.catalogue.suites import find_suite
from leaderboard.snapshot import published
from leaderboard.snapshot.data import OWN
from leaderboard.web import kept

KEPT = 24 * 3600
"""Seconds; a picture is kept by the digest of all that it is made of, so it is never wrong."""


@require_safe
def picture(request: HttpRequest, reference: str) -> HttpResponseBase:
    """The first rows of a suite's board as a PNG of 1200 × 630."""
    suite = find_suite(reference)
    board = published.newest(suite, OWN)
    data = board.data_version if board else ""
    digest = digest_of([kept.release(), suite.title, suite.version, data])
    etag = f'"{digest}"'
    response = get_conditional_response(request, etag)
    if response is None:
        png = cache.get_or_set(
            f"picture-{digest}", lambda: draw_board(board, suite.title, suite.version), KEPT
        )
        response = HttpResponse(png, content_type="image/png")
    response["ETag"] = etag
    response["Cache-Control"] = "public, max-age=3600"
    return response
