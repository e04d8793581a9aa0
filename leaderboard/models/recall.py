"""Results that were found to be wrong after they were published: which, why, and since when."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse

from leaderboard.models.edition import Fact


class Recall(Fact):
    """Somebody's word that results are wrong. It stands until it is undone, and stays listed.

    The runs that it took say so by `Run.recall`; those that end while it stands and that it names
    by their version join them.
    """

    class Kind(models.TextChoices):
        ENGINE = "engine", "Version of the engine"
        TASK = "task", "Version of a task"
        RUNS = "runs", "Runs or files"

    ASIDE: ClassVar = ("settled",)
    SITE = "the site"
    """Who recalls a result with which no board can be built."""

    kind = models.CharField(max_length=8, choices=Kind.choices)
    named = models.JSONField()
    """A list: versions, NAME@VERSION of tasks, or IDs of runs and digests of their files."""
    reason = models.CharField(max_length=500)
    by = models.CharField(max_length=200)
    at = models.DateTimeField()
    results = models.PositiveIntegerField(default=0)
    """How many runs it took when it was made; kept when it is undone."""
    settled = models.DateTimeField(null=True, blank=True, editable=False)
    """Some minutes after it was committed: boards built later were built without these results."""
    undone = models.DateTimeField(null=True, blank=True)
    undone_by = models.CharField(max_length=200, blank=True)
    undone_why = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(reason=""), name="recall_says_why"),
            models.CheckConstraint(
                condition=Q(undone=None, undone_why="")
                | (Q(undone__isnull=False) & ~Q(undone_why="")),
                name="undone_recall_says_why",
            ),
        ]

    def __str__(self) -> str:
        return f"recall {self.pk}: {self.reason}"

    def get_absolute_url(self) -> str:
        return reverse("recall", args=[self.pk])

    @property
    def stands(self) -> bool:
        return self.undone is None
