"""The site's addresses, and two that fail on purpose: to look at what is shown then."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import path

from leaderboard.urls import handler404, urlpatterns

__all__ = ["handler404", "urlpatterns"]


def forbidden(_request: HttpRequest) -> HttpResponse:
    raise PermissionDenied("Only who submitted it may withdraw it.")


def broken(_request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


urlpatterns = [
    *urlpatterns,
    path("fault/forbidden", forbidden),
    path("fault/broken", broken),
]
