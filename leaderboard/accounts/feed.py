"""One account's submissions as an Atom feed, at an address that nobody can guess.

Feed readers cannot sign in. What the feed shows stands on public pages, but not which of them are
one person's: the address keeps that, and can be renewed.
"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.views.decorators.http import require_safe

from leaderboard.accounts.private import private
from leaderboard.accounts.progress import told, with_progress
from leaderboard.models import Notices, Submission

MOST = 50


@require_safe
def feed(request: HttpRequest, key: UUID) -> HttpResponse:
    notices = get_object_or_404(Notices, feed=key, user__is_active=True)
    rows = with_progress(Submission.objects.filter(submitter_id=notices.user_id))
    atom = Atom1Feed(
        title="Your submissions on Plumbline",
        link=request.build_absolute_uri(reverse("account-submissions")),
        description="",
        feed_url=request.build_absolute_uri(),
        language="en",
    )
    for row in rows.order_by("-created", "pk")[:MOST]:
        address = request.build_absolute_uri(row.get_absolute_url())
        atom.add_item(
            title=f"{row.variant.hub_model.repo_id}: {told(row)}",
            link=address,
            description=f"{row.variant.told}, on {row.suite.title} {row.suite.version}",
            unique_id=f"urn:uuid:{row.pk}",
            pubdate=row.created,
            updateddate=max(row.created, row.last or row.created),
        )
    response = HttpResponse(atom.writeString("utf-8"), content_type=atom.content_type)
    return private(response)
