"""Signing in, and the page of one's own account."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from allauth.account.models import EmailAddress
from allauth.account.views import LoginView
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.accounts.mailing import SaysThatMailFailed
from leaderboard.accounts.private import private
from leaderboard.models import role_of
from leaderboard.web import throttle


def _came_from(request: HttpRequest) -> str:
    """The page of this site that led here, so that one goes on there; empty where none did.

    The link stands on every page, and the page of a visitor is kept for others: it cannot say
    where it stands itself. Browsers tell it within a site.
    """
    where = urlsplit(request.headers.get("Referer", ""))
    here = where.netloc == request.get_host() and request.method == "GET"
    if not here or where.path.startswith(reverse("account")):
        return ""
    return where._replace(scheme="", netloc="", fragment="").geturl()


class SignIn(SaysThatMailFailed, LoginView):  # type: ignore[misc]
    """The form of an account; who tries too often in a minute has to wait for the next."""

    template_name = "accounts/login.html"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        most = settings.PLUMBLINE_SIGN_INS_PER_MINUTE
        seconds = throttle.wait("sign-ins", most, request)
        if not seconds:
            answer: HttpResponseBase = super().post(request, *args, **kwargs)
            return answer
        context = self.get_context_data(form=self.get_form(), seconds=seconds)
        response = render(request, self.template_name, context, status=429)
        response["Retry-After"] = str(seconds)
        return response

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        found: dict[str, Any] = super().get_context_data(**context)
        asked = self.request.POST.get("next") or self.request.GET.get("next", "")
        return found | {
            "next": asked or _came_from(self.request),
            "provider_name": settings.PLUMBLINE_OIDC_CLIENT_ID and settings.OIDC_NAME,
            "provider_id": settings.OIDC_ID,
            "may_sign_up": bool(settings.PLUMBLINE_MAIL_URL or settings.DEBUG),
        }


class Logout(LogoutView):
    """Signing out takes a POST; who comes by the address alone gets the button."""

    http_method_names = ("get", "head", "post", "options")

    def get(self, request: HttpRequest, *_args: object, **_kwargs: object) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect("board")
        return render(request, "accounts/logout.html")


@require_safe
@login_required
def account(request: HttpRequest) -> HttpResponse:
    user = request.user
    context = {
        "role": role_of(user),
        "addresses": list(EmailAddress.objects.filter(user_id=user.pk).order_by("-primary")),
        "identities": list(SocialAccount.objects.filter(user_id=user.pk).order_by("pk")),
        "provider_name": settings.OIDC_NAME,
    }
    return private(render(request, "accounts/page.html", context))
