"""Where an account asks for its feed, and for a message when a submission has ended."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from leaderboard.accounts.endings import address_of, mail_goes_out
from leaderboard.accounts.private import private, signed_in
from leaderboard.models import Notices, User

ORDERS = ("feed", "no-feed", "mail", "no-mail")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def notices(request: HttpRequest) -> HttpResponse:
    user = signed_in(request)
    if request.method != "POST":
        return _page(request, user)
    wanted = request.POST.get("do", "")
    if wanted not in ORDERS:
        return _page(request, user, "Nothing was changed: choose one of the buttons.", status=422)
    if wanted == "mail" and (problem := _no_mail(user)):
        return _page(request, user, problem, status=422)
    changes: dict[str, dict[str, Any]] = {
        "feed": {"feed": uuid4()},
        "no-feed": {"feed": None},
        "mail": {"mail_since": timezone.now(), "site": request.build_absolute_uri("/")},
        "no-mail": {"mail_since": None},
    }
    Notices.objects.update_or_create(user=user, defaults=changes[wanted])
    return redirect("account-notices")


def _no_mail(user: User) -> str:
    """Why no message can reach this account; empty where one can."""
    if not mail_goes_out():
        return "This site sends no mail. The feed tells the same."
    if not address_of(user.pk):
        return "This account has no confirmed e-mail address to write to. The feed tells the same."
    return ""


def _page(
    request: HttpRequest, user: User, problem: str = "", *, status: int = 200
) -> HttpResponse:
    row = Notices.objects.filter(user=user).first()
    key = row and row.feed
    context = {
        "feed": request.build_absolute_uri(reverse("feed", args=[key])) if key else "",
        "mail": bool(row and row.mail_since),
        "no_mail": _no_mail(user),
        "address": address_of(user.pk),
        "problem": problem,
    }
    return private(render(request, "accounts/notices.html", context, status=status))
