"""What is a person's own here: their submissions, all of it as a file, deletion."""

from __future__ import annotations

from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.accounts.private import private, signed_in
from leaderboard.accounts.progress import with_progress
from leaderboard.models import (
    ApiToken,
    Notices,
    Quota,
    Report,
    ReportAnswer,
    Ruling,
    RunEvent,
    Submission,
    User,
    role_of,
)
from leaderboard.web import Address, part

PER_PAGE = 50
NOBODY = "a deleted account"
"""Stands in the history of runs for who asked for them."""


@require_safe
@login_required
def submissions(request: HttpRequest) -> HttpResponseBase:
    """All that this account submitted, the newest first."""
    own = Submission.objects.filter(submitter_id=request.user.pk)
    address = Address(request, {"page": "1"})
    shown = part(address, "page", own.count(), PER_PAGE)
    if elsewhere := address.redirect():
        return elsewhere
    context = {
        "rows": with_progress(own).order_by("-created", "pk")[shown.slice],
        "pages": shown.links,
        "total": shown.total,
    }
    return private(render(request, "accounts/submissions.html", context))


@require_safe
@login_required
def export(request: HttpRequest) -> HttpResponse:
    """All that the site has of this account, as one JSON object; times are in UTC."""
    user = signed_in(request)
    response = JsonResponse(_all_of(user), json_dumps_params={"indent": 2})
    response["Content-Disposition"] = f'attachment; filename="plumbline-{user.pk}.json"'
    return private(response)


def _all_of(user: User) -> dict[str, Any]:
    own = Submission.objects.filter(submitter=user).select_related("variant__hub_model", "suite")
    return {
        "account": {
            "name": user.username,
            "role": role_of(user),
            "joined": user.date_joined,
            "last_signed_in": user.last_login,
            "email": user.email,
            "has_password": user.has_usable_password(),
        },
        "addresses": list(
            EmailAddress.objects.filter(user=user).values("email", "verified", "primary")
        ),
        "identities": [
            {
                "provider": one.provider,
                "id": one.uid,
                "told": one.extra_data,
                "since": one.date_joined,
            }
            for one in SocialAccount.objects.filter(user=user).order_by("pk")
        ],
        "quota": Quota.objects.filter(user=user).values_list("most", flat=True).first(),
        "tokens": list(
            ApiToken.objects.filter(user=user)
            .order_by("pk")
            .values(*("name", "prefix", "created", "expires", "last_used"))
        ),
        "notices": list(Notices.objects.filter(user=user).values("feed", "mail_since", "site")),
        "submissions": [
            {
                "id": one.pk,
                "created": one.created,
                "state": one.state,
                "model": one.variant.hub_model.repo_id,
                "requested_revision": one.requested_revision,
                "commit": one.variant.commit,
                "dtype": one.variant.dtype,
                "suite": f"{one.suite.name}@{one.suite.version}",
            }
            for one in own.order_by("created", "pk")
        ],
        "reports": list(
            Report.objects.filter(by=user)
            .order_by("pk")
            .values(
                *("id", "kind", "hub_model__repo_id", "run", "task__name", "task__version", "part"),
                *("doc_id", "verdict", "answer", "reason", "evidence", "at", "state", "closed"),
            )
        ),
        "answers_to_reports": list(
            ReportAnswer.objects.filter(by=user)
            .order_by("pk")
            .values("report", "side", "text", "at")
        ),
        "rulings": list(
            Ruling.objects.filter(by=user)
            .order_by("pk")
            .values("report", "effect", "words", "side", "at", "undone")
        ),
        "votes": list(user.votes.order_by("created").values("submission", "created")),
    }


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def delete(request: HttpRequest) -> HttpResponse:
    """End the account; who types its name means it. Evaluations stay, without the name."""
    user = signed_in(request)
    if request.method != "POST":
        return private(render(request, "accounts/delete.html"))
    problem = ""
    if user.is_staff:
        problem = "An account of an operator is deleted in the administration, by another operator."
    elif request.POST.get("name", "") != user.username:
        problem = f"That is not the name of this account: type {user.username}."
    if problem:
        return private(render(request, "accounts/delete.html", {"problem": problem}, status=422))
    with transaction.atomic():
        of_its_runs = RunEvent.objects.filter(run__submissions__submitter=user, by=user.username)
        of_its_runs.update(by=NOBODY)
        user.delete()
    logout(request)
    return redirect("account-deleted")


@require_safe
def deleted(request: HttpRequest) -> HttpResponse:
    return private(render(request, "accounts/deleted.html"))
