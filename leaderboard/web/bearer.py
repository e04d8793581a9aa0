"""Programs that speak for an account: `Authorization: Bearer …` instead of a session's cookie."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from leaderboard.models import ApiToken
from leaderboard.models.token import digest_of
from leaderboard.web import throttle

NOTED_EVERY = timedelta(minutes=1)
"""The last use of a token is written no more often."""


class NoAccount(Exception):
    """The request speaks for nobody; where `wait_seconds`, nobody is looked for until then."""

    def __init__(self, message: str, remedy: str, wait_seconds: int = 0) -> None:
        self.message, self.remedy, self.wait_seconds = message, remedy, wait_seconds
        super().__init__(f"{message} {remedy}")


def authenticate(request: HttpRequest) -> None:
    """Make the owner of the token the request's user; a session has no part in it.

    Raises NoAccount.
    """
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise NoAccount(
            "There is no token in this request.",
            "Make one on the page of your account and send it as Authorization: Bearer TOKEN.",
        )
    found = ApiToken.objects.filter(digest=digest_of(token.strip())).select_related("user").first()
    now = timezone.now()
    if found is None or not found.user.is_active:
        # As often as passwords are tried, and from the same network.
        if seconds := throttle.wait("tokens", settings.PLUMBLINE_SIGN_INS_PER_MINUTE, request):
            message = "Too many tokens were tried from your network in a minute."
            raise NoAccount(message, f"Try again in {seconds} s.", seconds)
        raise NoAccount(
            "This token is none of this site's, or was revoked.",
            "Make another one on the page of your account.",
        )
    if found.expires <= now:
        raise NoAccount(
            f"The token “{found.name}” expired on {found.expires:%-d %B %Y}.",
            "Make another one on the page of your account.",
        )
    if found.last_used is None or now - found.last_used >= NOTED_EVERY:
        ApiToken.objects.filter(pk=found.pk).update(last_used=now)
    request.user = found.user
    throttle.count_by_account(request)
