"""A model that its author took out of the ranking, and when it came back."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from leaderboard.models.edition import Fact
from leaderboard.models.variant import HubModel


class Departure(Fact):
    """By the author or, for one who wrote to this site, by a moderator; it stays listed.

    While it lasts, `HubModel.departed` says so.
    """

    class Side(models.TextChoices):
        AUTHOR = "author", "its author"
        MODERATOR = "moderator", "a moderator, for its author"

    hub_model = models.ForeignKey(HubModel, on_delete=models.PROTECT, related_name="departures")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="departures"
    )
    side = models.CharField(max_length=10, choices=Side.choices)
    """As what they did it: a role of that moment."""
    words = models.CharField(max_length=250)
    at = models.DateTimeField(auto_now_add=True)
    ended = models.DateTimeField(null=True, blank=True)
    ended_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(words=""), name="departure_says_why"),
            models.UniqueConstraint(
                fields=["hub_model"],
                condition=Q(ended=None),
                name="one_lasting_departure_of_a_model",
            ),
        ]

    def __str__(self) -> str:
        return f"departure {self.pk} of {self.hub_model}"
