"""Questions whose keys people dispute, and results without them: the effect of reports on keys."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from leaderboard.models.run import Result
from leaderboard.models.task import TaskVersion


class DisputedSet(models.Model):
    """Which questions of a task version are disputed; a change makes a new row."""

    task = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="disputed")
    docs_digest = models.CharField(max_length=64)
    questions = models.JSONField()
    """Pairs of leaf task and number there, in order."""
    n = models.PositiveIntegerField()
    made = models.DateTimeField(auto_now_add=True)
    current = models.BooleanField(default=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["task", "docs_digest"],
                condition=Q(current=True),
                name="one_current_disputed_set",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.n} disputed questions of {self.task}"


class SecondFigure(models.Model):
    """A result over all but the disputed questions. It never ranks."""

    disputed = models.ForeignKey(DisputedSet, on_delete=models.CASCADE, related_name="figures")
    result = models.ForeignKey(Result, on_delete=models.CASCADE, related_name="second_figures")
    n = models.PositiveIntegerField()
    """Questions that are left."""
    value = models.FloatField(null=True)
    """None where the result does not come out of its scores by question, so that no other would."""
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["disputed", "result"], name="one_second_figure"),
            models.CheckConstraint(
                condition=Q(value=None, low=None, high=None)
                | Q(low__lte=F("value"), high__gte=F("value")),
                name="second_figure_inside_its_interval",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.result_id} without {self.disputed}"
