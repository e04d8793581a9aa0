"""Did two backends give the same answers? Recorded of two runs, and never changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from django.db import models
from django.db.models import Q

from leaderboard.models.run import Run


class Agreement(models.Model):
    """A run of another backend beside one by transformers: the same model, the same requests.

    Its numbers are those of `evalcore.agreement`, which also has the bounds.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="agreement")
    reference = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="agreements")
    documents = models.PositiveIntegerField()
    responses = models.PositiveIntegerField()
    largest = models.FloatField()
    beyond = models.PositiveIntegerField()
    flags = models.PositiveIntegerField()
    texts = models.PositiveIntegerField()
    scored_otherwise = models.PositiveIntegerField()
    difference = models.FloatField()
    within = models.BooleanField()
    why = models.TextField(blank=True)
    """Which bounds are passed, or why the two cannot be compared."""
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(within=True, why="") | (Q(within=False) & ~Q(why="")),
                name="disagreement_says_why",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run} by {self.run.computed_by}"


Shown = tuple[str, str, int]
"""A backend with its version and kind of device, a precision, and the number of a task."""


def shown_to_agree(tasks: Iterable[int]) -> set[Shown]:
    """What was shown to agree with transformers on these tasks, and nowhere shown not to."""
    rows = Agreement.objects.filter(run__task__in=list(tasks)).values_list(
        "run__computed_by", "run__variant__dtype", "run__task", "within"
    )
    found: dict[bool, set[Shown]] = {True: set(), False: set()}
    for computed_by, dtype, task, within in rows:
        found[within].add((computed_by, dtype, task))
    return found[True] - found[False]
