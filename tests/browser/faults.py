"""The site's addresses, and some that fail on purpose: to look at what is shown then."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import path

from leaderboard.samples import Unavailable
from leaderboard.urls import handler404, urlpatterns
from leaderboard.web import throttle

__all__ = ["handler404", "urlpatterns"]


def forbidden(_request: HttpRequest) -> HttpResponse:
    raise PermissionDenied("Only who submitted it may withdraw it.")


def often(_request: HttpRequest) -> HttpResponse:
    raise throttle.TooOften("You asked for very many pages within a minute.", 40)


def away(_request: HttpRequest) -> HttpResponse:
    raise Unavailable("the bucket is silent")


def broken(_request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


urlpatterns = [
    *urlpatterns,
    path("fault/forbidden", forbidden),
    path("fault/often", often),
    path("fault/broken", broken),
    path("fault/away", away),
]
