"""What a run took: tokens, seconds and energy, and on which kind of machine."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q


class RunCost(models.Model):
    """Of all questions of a run; null where its record or its samples do not say it.

    Read from its files when it is finished, never changed (`leaderboard/samples/costs.py`).
    """

    run = models.OneToOneField(
        "leaderboard.Run", on_delete=models.CASCADE, primary_key=True, related_name="cost"
    )
    questions = models.PositiveIntegerField()
    tokens = models.BigIntegerField(null=True)
    """Read and written, each request in full, however much of it was computed once for several."""
    seconds = models.FloatField(null=True)
    """In which the model answered; null where an earlier process had answered some."""
    joules = models.FloatField(null=True)
    hardware = models.CharField(max_length=160, blank=True)
    """The kind of machine, and the backend where it is not transformers; empty where unknown."""
    counters = models.CharField(max_length=160, blank=True)
    """What the energy was counted of; empty without energy."""

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(questions__gt=0), name="cost_is_of_questions"),
            models.CheckConstraint(
                condition=(Q(tokens=None) | Q(tokens__gt=0))
                & (Q(seconds=None) | Q(seconds__gt=0))
                & (Q(joules=None) | Q(joules__gt=0)),
                name="cost_is_above_zero",
            ),
        ]

    def __str__(self) -> str:
        return f"cost of {self.run_id}"
