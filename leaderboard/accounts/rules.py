"""What django-allauth asks us: who may sign up, who must confirm an address, who is asking."""

from __future__ import annotations

import logging
from smtplib import SMTPException
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.core.validators import RegexValidator
from django.http import HttpRequest

from leaderboard.accounts.identity import Provider
from leaderboard.accounts.told import kept_of
from leaderboard.web import throttle

logger = logging.getLogger(__name__)

NAME_VALIDATORS = [
    RegexValidator(
        r"\A[A-Za-z0-9][A-Za-z0-9_.-]{1,39}\Z",
        "A name has 2 to 40 letters, digits, dots, hyphens or underscores, and begins with a "
        "letter or digit.",
    )
]
"""Narrower than Django's: a name with an @ could be somebody else's address."""


class MailFailed(Exception):
    """The message was not sent: try again in some minutes."""


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]
    """Accounts of this site, with a password."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Where there is no mail, no address can be confirmed, and nobody can sign up by one."""
        return bool(settings.PLUMBLINE_MAIL_URL or settings.DEBUG)

    def get_client_ip(self, request: HttpRequest) -> str:
        return throttle.visitor_of(request)

    def get_login_stages(self) -> list[str]:
        return [f"{__name__}.ConfirmedAddress"]

    def send_mail(self, template_prefix: str, email: str, told: dict[str, Any]) -> None:
        """Raises MailFailed where the server of mail does not take it; the log says why."""
        try:
            super().send_mail(template_prefix, email, told)
        except (SMTPException, OSError) as problem:
            logger.error(
                "mail could not be sent by PLUMBLINE_MAIL_URL, %s: %s",
                type(problem).__name__,
                problem,
            )
            raise MailFailed from problem

    def add_message(self, *args: Any, **options: Any) -> None:
        """Pages say what they did: nothing is carried over to the next one."""


class ConfirmedAddress(EmailVerificationStage):  # type: ignore[misc]
    """Who signed up by an address has to confirm it before the first signing in.

    An account that the operator made, or that came from the identity provider, has none here.
    """

    def handle(self) -> Any:
        user = self.login.user
        if user and not EmailAddress.objects.filter(user=user).exists():
            return None, True
        return super().handle()


class Identities(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Accounts that another site vouches for."""

    def get_provider(self, request: HttpRequest, provider: str, client_id: str = "") -> Provider:
        """Ours, of which allauth's own register knows nothing."""
        return Provider(request, app=self.get_app(request, provider, client_id))

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:  # noqa: ARG002
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:  # noqa: ARG002
        """Refuse an answer that was not made for this very attempt; keep what `told.py` says.

        allauth compares issuer, audience and time; it sends no nonce, so we do (`identity.py`).
        """
        told = sociallogin.account.extra_data
        signed, told_apart = told.get("id_token") or {}, told.get("userinfo") or {}
        nonce = sociallogin.state.get("nonce")
        if not nonce or signed.get("nonce") != nonce:
            raise PermissionDenied("the identity token was made for another attempt")
        if signed.get("sub") != told_apart.get("sub"):
            raise PermissionDenied("identity token and user information are of two people")
        # Some providers tell an address without being asked: it would be compared with others'.
        sociallogin.email_addresses = []
        if not sociallogin.account.pk:
            sociallogin.user.email = ""
        sociallogin.account.extra_data = kept_of(told_apart)
        if sociallogin.account.pk:
            sociallogin.account.save(update_fields=["extra_data"])
