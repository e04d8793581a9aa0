"""The tokens of one account: made, shown once, revoked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from leaderboard.accounts.private import private, signed_in
from leaderboard.models import ApiToken, User

MOST = 20
LONGEST_NUMBER = 19
"""Digits that no row's number has."""


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=60,
        error_messages={
            "required": "Say what it is for, so that you know later which one to revoke.",
            "max_length": "That is longer than 60 characters. Take a shorter name.",
            "null_characters_not_allowed": "There is a null character in it. Type it anew.",
        },
    )
    days = forms.TypedChoiceField(
        label="Ends after",
        coerce=int,
        initial=90,
        choices=[(30, "30 days"), (90, "90 days"), (365, "a year")],
        error_messages={
            "required": "Choose after how many days it ends: 30, 90 or 365.",
            "invalid_choice": "A token ends after 30, 90 or 365 days. Choose one of these.",
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def tokens(request: HttpRequest) -> HttpResponse:
    user = signed_in(request)
    if request.method != "POST":
        return _page(request, user, TokenForm())
    if "revoke" in request.POST:
        named = request.POST["revoke"]
        if named.isascii() and named.isdigit() and len(named) < LONGEST_NUMBER:
            ApiToken.objects.filter(user=user, pk=int(named)).delete()
        return redirect("account-tokens")
    form = TokenForm(request.POST)
    if ApiToken.objects.filter(user=user).count() >= MOST:
        problem = f"An account has {MOST} tokens at most. Revoke one that you do not need."
        form.add_error(None, problem)
    if not form.is_valid():
        return _page(request, user, form, status=422)
    expires = timezone.now() + timedelta(days=form.cleaned_data["days"])
    row, token = ApiToken.make(user, form.cleaned_data["name"], expires)
    # Not behind another address: the token would have to be kept somewhere until then.
    return _page(request, user, TokenForm(), made=row, token=token)


def _page(
    request: HttpRequest, user: User, form: TokenForm, *, status: int = 200, **made: Any
) -> HttpResponse:
    rows = list(ApiToken.objects.filter(user=user))
    context = {"form": form, "rows": rows, "now": timezone.now(), **made}
    answer = private(render(request, "accounts/tokens.html", context, status=status))
    answer["Cache-Control"] = "no-store"
    return answer
