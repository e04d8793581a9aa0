"""Somebody's word that a model's numbers should not be trusted, its answers, and the decision."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from leaderboard.models.edition import Fact
from leaderboard.models.variant import HubModel


class Flag(Fact):
    """Raised by an account, decided by a moderator; it stays listed whatever was decided.

    Upheld, the moderator's words are the model's mark (`HubModel.flag_reason`).
    """

    class State(models.TextChoices):
        OPEN = "open", "Not decided yet"
        UPHELD = "upheld", "Upheld"
        DISMISSED = "dismissed", "Dismissed"
        WITHHELD = "withheld", "Dismissed, its text withheld"
        LIFTED = "lifted", "Lifted"

    hub_model = models.ForeignKey(HubModel, on_delete=models.PROTECT, related_name="flags")
    reason = models.CharField(max_length=250)
    evidence = models.CharField(max_length=2000)
    """Text, with addresses of pages in it or not."""
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="flags"
    )
    at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    decision = models.CharField(max_length=250, blank=True)
    """The newest decision in the moderator's words."""
    decided = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(reason="") & ~Q(evidence=""), name="flag_says_why"),
            models.CheckConstraint(
                condition=Q(state="open", decision="", decided=None)
                | (~Q(state="open") & ~Q(decision="") & Q(decided__isnull=False)),
                name="decided_flag_says_why",
            ),
            models.UniqueConstraint(
                fields=["hub_model", "by"],
                condition=Q(state="open"),
                name="one_open_flag_of_an_account_for_a_model",
            ),
        ]

    def __str__(self) -> str:
        return f"flag {self.pk} of {self.hub_model}"

    def get_absolute_url(self) -> str:
        return reverse("report", args=[self.pk])


class FlagAnswer(Fact):
    """What somebody said to a flag, in the order in which it was said."""

    class Side(models.TextChoices):
        MODERATOR = "moderator", "moderator"
        AUTHOR = "author", "author of the model"
        RAISED = "raised", "raised it"

    flag = models.ForeignKey(Flag, on_delete=models.CASCADE, related_name="answers")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="flag_answers"
    )
    side = models.CharField(max_length=10, choices=Side.choices)
    """As what they said it: a role of that moment."""
    text = models.CharField(max_length=2000)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(text=""), name="answer_says_something"),
        ]

    def __str__(self) -> str:
        return f"{self.get_side_display()} to {self.flag}"
