"""How an account hears of its submissions without looking: a feed, and a message at the end."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from leaderboard.models.submission import Submission


class Notices(models.Model):
    """What one account asked for; nothing comes to who has no row."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices"
    )
    feed = models.UUIDField(null=True, unique=True)
    """In the address of the feed, drawn anew where that is renewed; None for no feed."""
    mail_since = models.DateTimeField(null=True)
    """Messages tell of what ends after it; None for no messages."""
    site = models.CharField(max_length=300, blank=True)
    """Where the site was when they asked for messages: links in a message are whole addresses."""

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(mail_since=None) | ~Q(site=""), name="messages_know_the_site"
            ),
        )

    def __str__(self) -> str:
        return f"notices of {self.user}"


class EndNotice(models.Model):
    """The message about one submission's end was sent, or is being sent: there is one at most."""

    submission = models.OneToOneField(
        Submission, on_delete=models.CASCADE, related_name="end_notice"
    )
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"end of {self.submission}"
