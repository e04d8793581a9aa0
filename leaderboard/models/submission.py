"""Who asked for an evaluation."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.signals import post_delete
from django.dispatch import receiver
from django.urls import reverse

from leaderboard.models.edition import SITE, Fact, changing, note


class User(AbstractUser):
    """An account. Our own table from the first migration, so that it can grow."""

    class Meta(AbstractUser.Meta):
        # What they are for is told in `role.py`.
        permissions: ClassVar = [
            ("submit", "Submits models"),
            ("moderate", "Judges what others submit"),
            ("operate", "Answers for the site"),
        ]

    def save(self, *args: Any, **options: Any) -> None:
        with changing():
            super().save(*args, **options)
            if options.get("update_fields") != ["last_login"]:
                note("pages", of=[SITE])


@receiver(post_delete, sender=User)
def _gone(**_: Any) -> None:
    note("pages", of=[SITE])  # submissions are nobody's now


class Submission(Fact):
    """One person's wish to see a variant on a suite; runs are shared between submissions."""

    class State(models.TextChoices):
        ACTIVE = "active", "Active"
        WITHDRAWN = "withdrawn", "Withdrawn"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created = models.DateTimeField(auto_now_add=True)
    submitter = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="submissions"
    )
    visitor = models.CharField(max_length=64, blank=True)
    """Keyed digest of the address from which somebody without an account submitted it."""
    requested_revision = models.CharField(max_length=200)
    variant = models.ForeignKey(
        "leaderboard.Variant", on_delete=models.PROTECT, related_name="submissions"
    )
    suite = models.ForeignKey(
        "leaderboard.Suite", on_delete=models.PROTECT, related_name="submissions"
    )
    runs = models.ManyToManyField("leaderboard.Run", related_name="submissions")
    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)

    class Meta:
        ordering: ClassVar = ["-created"]

    def __str__(self) -> str:
        return f"{self.variant} on {self.suite}"

    def get_absolute_url(self) -> str:
        return reverse("submission", args=[self.id])


class Vote(models.Model):
    """Somebody without a part in a submission wants to see it sooner; one of each, for good."""

    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="votes")
    voter = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="votes"
    )
    visitor = models.CharField(max_length=64, blank=True)
    """Keyed digest of the address of who has no account."""
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["submission", "voter"],
                condition=models.Q(voter__isnull=False),
                name="one_vote_per_account",
            ),
            models.UniqueConstraint(
                fields=["submission", "visitor"],
                condition=models.Q(voter=None),
                name="one_vote_per_visitor",
            ),
            models.CheckConstraint(
                condition=models.Q(voter__isnull=False, visitor="")
                | (models.Q(voter=None) & ~models.Q(visitor="")),
                name="somebody_votes",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.voter or 'a visitor'} for {self.submission}"
