"""The picture that other sites show beside a link to this one."""

from __future__ import annotations

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe

from evalcore.digest import digest_of
from leaderboard.board.picture import VERSION, draw_board
from leaderboard.catalogue.suites import find_suite
from leaderboard.snapshot import published
from leaderboard.snapshot.data import OWN

KEPT = 24 * 3600
"""Seconds; a new snapshot has another digest, so what is kept is never wrong."""


@require_safe
def picture(request: HttpRequest, reference: str) -> HttpResponse:
    """The first rows of a suite's board as a PNG of 1200 × 630."""
    suite = find_suite(reference)
    board = published.newest(suite, OWN)
    data = board.data_version if board else ""
    digest = digest_of([VERSION, suite.title, suite.version, data])
    etag = f'"{digest}"'
    headers = {"ETag": etag, "Cache-Control": "public, max-age=3600"}
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        return HttpResponseNotModified(headers=headers)
    png = cache.get_or_set(
        f"picture-{digest}", lambda: draw_board(board, suite.title, suite.version), KEPT
    )
    return HttpResponse(png, content_type="image/png", headers=headers)
