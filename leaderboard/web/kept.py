"""The one rule of caching: what decides whether a page that was made once is still true.

A page is kept in Django's cache `pages`, for visitors who are not signed in, under its address, the
release, the settings, the day, and the numbers of the editions that it shows (`models/edition.py`).
Whoever changes what a page shows moves such a number on in the same transaction. Nothing else is
asked. Its ETag is the digest of what the reader gets, so a browser's copy is right in any case.

Such a page has no secret and no token in it, so it is the same for all of them, and compressing it
tells nobody anything (docs/decisions/0012-board-rendering.md). A page for somebody signed in is
rendered each time.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.utils.text import compress_string
from zlib_ng import zlib_ng

from evalcore.digest import digest_of, digest_of_bytes
from leaderboard.web import throttle, unseen

KEEP_SECONDS = 24 * 60 * 60
"""The day is part of what a page is kept under."""
LEVEL = 6
"""Of compression by zlib-ng: the largest page in half of zlib's time, and 3 % smaller."""
_GZIP = 31
"""How zlib calls a gzip stream with the largest window."""
_CHECK_FIRST = "no-cache"
_PADDING = 100
"""Random bytes at most in a compressed page with a token: its length then tells nothing."""


class Page(NamedTuple):
    """As it is sent."""

    compressed: bytes
    etag: str
    listed: bool
    """Whether search engines may list it."""

    @classmethod
    def of(cls, text: str) -> Page:
        raw = unseen.marked(text).encode()
        compressed = zlib_ng.compress(raw, LEVEL, _GZIP)
        return cls(compressed, f'W/"{digest_of_bytes(raw)}"', not isinstance(text, Unlisted))


class Unlisted(str):
    """A page that search engines shall not list."""

    __slots__ = ()


_for_now: ContextVar[bool] = ContextVar("for_now", default=False)


def answer(
    request: HttpRequest,
    editions: Callable[[], object],
    render: Callable[[], str | HttpResponseBase],
) -> HttpResponseBase:
    """The page of this address, made by `render` unless it was kept; 304 where the browser has it.

    `editions` gives the numbers of all that the page shows; they are read before any of it. What
    `render` returns as a response (a redirect) is passed on. Raises TooOften where the page has to
    be made, is one of very many that can be asked for, and its reader asked for too many of them.
    """
    if request.user.is_authenticated or settings.DEBUG:
        _count_one_of_many(request)
        page = render()
        return page if isinstance(page, HttpResponseBase) else passing(request, page)
    always = [release(), site(), request.build_absolute_uri(), str(datetime.now(UTC).date())]
    key = digest_of([*always, repr(editions())])
    kept: Page | None = caches["pages"].get(key)
    if kept is None:
        _count_one_of_many(request)
        token = _for_now.set(False)
        try:
            page = render()
            lasting = not _for_now.get()
        finally:
            _for_now.reset(token)
        if isinstance(page, HttpResponseBase):
            return page
        kept = Page.of(page)
        if lasting:
            caches["pages"].set(key, kept, KEEP_SECONDS)
    return _sent(request, kept)


def _count_one_of_many(request: HttpRequest) -> None:
    """Of pages without a query and of nothing in particular there are only so many, which are never
    refused; of runs and models there are thousands."""
    found = request.resolver_match
    if request.GET or (found and (found.args or found.kwargs)):
        throttle.count_page(request)


def forget() -> None:
    """Make every page anew, as after a start: for tests, whose database goes back in time."""
    caches["pages"].clear()


def only_for_now() -> None:
    """That the page being made shows what is outdated without any change of an edition."""
    _for_now.set(True)


def compressed(request: HttpRequest, page: str) -> HttpResponseBase:
    """A page that is cheap to make: made each time, and compressed once."""
    return answer(request, lambda: digest_of(page), lambda: page)


def tag(request: HttpRequest, made_of: object) -> str:
    """The strong ETag of a file that is made while it is sent: of all that it is made of.

    Of the address it names the host alone: two addresses may ask for the same file.
    """
    return f'"{digest_of([release(), site(), request.build_absolute_uri("/"), made_of])}"'


def passing(request: HttpRequest, page: str) -> HttpResponse:
    """A page of one person, or another one with every second: compressed, and never kept."""
    marked = unseen.marked(page)
    response = HttpResponse(marked, headers={"Cache-Control": f"private, {_CHECK_FIRST}"})
    if _takes_gzip(request):
        response.content = compress_string(response.content, max_random_bytes=_PADDING)
        response["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ["Accept-Encoding"])
    if isinstance(page, Unlisted):
        response["X-Robots-Tag"] = "noindex"
    return response


def _sent(request: HttpRequest, page: Page) -> HttpResponseBase:
    found = get_conditional_response(request, etag=page.etag)
    if found is None and _takes_gzip(request):
        found = HttpResponse(page.compressed, headers={"Content-Encoding": "gzip"})
    response = found or HttpResponse(gzip.decompress(page.compressed))
    response["ETag"] = page.etag
    response["Cache-Control"] = _CHECK_FIRST
    patch_vary_headers(response, ["Accept-Encoding"])
    if not page.listed:
        response["X-Robots-Tag"] = "noindex"
    return response


def _takes_gzip(request: HttpRequest) -> bool:
    offered = request.headers.get("Accept-Encoding", "").lower().replace(" ", "").split(",")
    return any(
        coding == "gzip" or (coding.startswith("gzip;q=") and coding != "gzip;q=0")
        for coding in offered
    )


def site() -> list[str]:
    """What this site's settings say, of which any page may show something."""
    ours = [name for name in dir(settings) if name.startswith("PLUMBLINE_")]
    return [f"{name}={getattr(settings, name)}" for name in (*ours, "HF_ENDPOINT")]


@cache
def release() -> str:
    """Digest of what pages are made with: another release makes other pages of the same data.

    The engine is part of it: its statistics and words stand on pages, too.
    """
    folders = ("templates", "static", "leaderboard", "evalcore", "docs")
    files = sorted(
        file
        for folder in folders
        for file in Path(settings.BASE_DIR, folder).rglob("*")
        if file.suffix in (".html", ".jinja", ".css", ".js", ".py", ".md")
    )
    return digest_of(
        [file.read_text() for file in (*files, Path(settings.BASE_DIR, "CHANGELOG.md"))]
    )
