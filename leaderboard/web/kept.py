"""Pages that are rendered once and kept in this process, for visitors who are not signed in.

Such a page has no secret and no token in it, so it is the same for all of them, and compressing it
tells nobody anything (docs/decisions/0012-board-rendering.md). A page for somebody signed in is
rendered each time.
"""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.utils.text import compress_string
from zlib_ng import zlib_ng

from evalcore.digest import digest_of

ROOM = 32 * 2**20
"""Bytes of compressed pages that a process keeps."""
LEVEL = 6
"""Of compression by zlib-ng: the largest page in half of zlib's time, and 3 % smaller."""
_GZIP = 31
"""How zlib calls a gzip stream with the largest window."""
_CHECK_FIRST = "no-cache"
_PADDING = 100
"""Random bytes at most in a compressed page with a token: its length then tells nothing."""


class Kept:
    """Compressed pages by key; those asked for longest ago make room."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._pages: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
            return self._pages.get(key)

    def put(self, key: str, page: bytes) -> None:
        with self._lock:
            self._bytes += len(page) - len(self._pages.pop(key, b""))
            self._pages[key] = page
            while self._bytes > self._room:
                self._bytes -= len(self._pages.popitem(last=False)[1])


_kept = Kept(ROOM)


def answer(
    request: HttpRequest, of: object, render: Callable[[], str | HttpResponseBase]
) -> HttpResponseBase:
    """The page of this address, made by `render` unless it was kept; 304 where the browser has it.

    `of` is everything besides the address, the release and the settings that the page depends on.
    What `render` returns as a response (a redirect) is passed on.
    """
    if request.user.is_authenticated or settings.DEBUG:
        page = render()
        return page if isinstance(page, HttpResponseBase) else _of_one_person(request, page)
    key = digest_of([release(), site(), request.build_absolute_uri(), repr(of)])
    etag = f'W/"{key}"'
    if unchanged := get_conditional_response(request, etag=etag):
        return _marked(unchanged, etag)
    kept = _kept.get(key)
    if kept is None:
        page = render()
        if isinstance(page, HttpResponseBase):
            return page
        kept = zlib_ng.compress(page.encode(), LEVEL, _GZIP)
        _kept.put(key, kept)
    if _takes_gzip(request):
        response = HttpResponse(kept, headers={"Content-Encoding": "gzip"})
    else:
        response = HttpResponse(gzip.decompress(kept))
    return _marked(response, etag)


def compressed(request: HttpRequest, page: str) -> HttpResponseBase:
    """A page that is cheap to make: made each time, so it is its own stamp, and compressed once."""
    return answer(request, page, lambda: page)


def passing(request: HttpRequest, page: str) -> HttpResponse:
    """A page that is another one with every second: compressed, and never kept."""
    return _of_one_person(request, page)


def _of_one_person(request: HttpRequest, page: str) -> HttpResponse:
    response = HttpResponse(page, headers={"Cache-Control": f"private, {_CHECK_FIRST}"})
    if _takes_gzip(request):
        response.content = compress_string(response.content, max_random_bytes=_PADDING)
        response["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


def _marked(response: HttpResponseBase, etag: str) -> HttpResponseBase:
    response["ETag"] = etag
    response["Cache-Control"] = _CHECK_FIRST
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


def _takes_gzip(request: HttpRequest) -> bool:
    offered = request.headers.get("Accept-Encoding", "").lower().replace(" ", "").split(",")
    return any(
        one == "gzip" or (one.startswith("gzip;q=") and one != "gzip;q=0") for one in offered
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
