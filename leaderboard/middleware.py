"""What stands before every page: what is answered at once, and what no page can answer."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import has_vary_header, patch_cache_control

from leaderboard.health import healthz, metrics, readyz
from leaderboard.samples import Unavailable
from leaderboard.web import throttle, unseen

logger = logging.getLogger(__name__)

Answer = Callable[[HttpRequest], HttpResponse]

UNUSED = (
    "accelerometer",
    "autoplay",
    "camera",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "geolocation",
    "gyroscope",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "picture-in-picture",
    "publickey-credentials-get",
    "screen-wake-lock",
    "usb",
    "xr-spatial-tracking",
)
"""Powers of a browser that no page here uses, so that nothing put into one can use them."""
PERMISSIONS = ", ".join(f"{power}=()" for power in UNUSED)


def forbid_unused_powers(get_response: Answer) -> Answer:
    """Say with every answer which powers of the browser its page has not."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        return response

    return answer


def keep_personal_pages_private(get_response: Answer) -> Answer:
    """Say that a page for one reader is for no cache that others read from.

    `Vary: Cookie` alone asks each such cache to keep a copy for every cookie.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        signed_in = settings.SESSION_COOKIE_NAME in request.COOKIES
        said = response.get("Cache-Control", "")
        if not has_vary_header(response, "Cookie") or "no-store" in said:
            return response
        if not said:
            patch_cache_control(response, private=True, no_cache=True)
        elif signed_in:
            patch_cache_control(response, private=True)
        return response

    return answer


def mark_unseen_characters(get_response: Answer) -> Answer:
    """Put a mark for each character that would move or hide text around it.

    Compressed pages have theirs already (`leaderboard/web/kept.py`).
    """

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if is_page and not response.streaming and "Content-Encoding" not in response:
            html = response.content.decode()
            if (marked := unseen.marked(html)) != html:
                response.content = marked.encode()
        return response

    return answer


CHECKS: dict[str, Answer] = {"healthz": healthz, "readyz": readyz, "metrics": metrics}


def answer_health_checks(get_response: Answer) -> Answer:
    """Before hosts are compared and HTTP is redirected: a watcher asks by a bare address."""

    def answer(request: HttpRequest) -> HttpResponse:
        for name, check in CHECKS.items():
            if request.path_info == reverse(name) and request.method in ("GET", "HEAD"):
                return check(request)
        return get_response(request)

    return answer


def refuse_null_characters(get_response: Answer) -> Answer:
    """400 for an address or a cookie with a null character: nothing here has one in its name.

    PostgreSQL cannot even be asked for such a name, where SQLite answers that there is none.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        if "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            raise BadRequest("the address has a null character")
        if any("\0" in value for value in request.COOKIES.values()):
            raise BadRequest("a cookie has a null character")
        return get_response(request)

    return answer


AWAY_SECONDS = 60
"""After which a page or file that is not to be had is asked for again."""


class SayWhatIsUnavailable:
    """503 for a page or a file that needs a stored file, while the bucket does not answer."""

    def __init__(self, get_response: Answer) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Other errors are left to Django."""
        if not isinstance(error, Unavailable):
            return None
        logger.error("%s: %s", request.path, error)
        headers = {
            "Retry-After": str(AWAY_SECONDS),
            "Cache-Control": "no-store",
            "X-Robots-Tag": "noindex",
        }
        page = {"frame": "base.html", "path": request.get_full_path()}
        response = render(request, "503.html", page, status=503)
        for name, value in headers.items():
            response[name] = value
        return response


class SayWhenToAskAgain:
    """429 for who asked for more than one visitor may: a page in words, and when to ask again."""

    def __init__(self, get_response: Answer) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Other errors are left to Django."""
        if not isinstance(error, throttle.TooOften):
            return None
        context = {"too_often": error, "path": request.get_full_path()}
        response = render(request, "429.html", context, status=429)
        response["Retry-After"] = str(error.seconds)
        response["Cache-Control"] = "no-store"
        response["X-Robots-Tag"] = "noindex"
        if "HX-Request" in request.headers:
            # A part of a page was asked for, and this has no such part: it takes the whole page.
            response["HX-Retarget"] = response["HX-Reselect"] = "main"
            response["HX-Reswap"] = "outerHTML"
        return response
