"""What every page of one's own account needs: who is signed in, and an answer for them alone."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from leaderboard.models import User


def signed_in(request: HttpRequest) -> User:
    """Of a view behind `login_required`."""
    return User.objects.get(username=request.user.get_username())


def private(response: HttpResponse) -> HttpResponse:
    """Kept by no cache that others use, and found by no search."""
    response["Cache-Control"] = "private, no-cache"
    response["X-Robots-Tag"] = "noindex"
    return response
