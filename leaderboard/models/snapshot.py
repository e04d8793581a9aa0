"""The board as it stood: pages read the newest snapshot, dates in the past an older one.

And the boards that could not be built, for operators.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class BoardSnapshot(models.Model):
    """A suite version in one style at one moment; appended, never changed once published."""

    suite = models.ForeignKey(
        "leaderboard.Suite", on_delete=models.CASCADE, related_name="snapshots"
    )
    style = models.CharField(max_length=16)
    """A prompt style, `own` for each benchmark's own, `all` for every column side by side."""
    built = models.DateTimeField()
    seconds = models.FloatField()
    """How long it took to build."""
    data_version = models.CharField(max_length=64)
    """Digest of what it shows: equal where nothing changed."""
    published = models.BooleanField(default=False)
    sha256 = models.CharField(max_length=64)
    """Of its file in the artifact store."""
    bytes = models.BigIntegerField()
    models_n = models.PositiveIntegerField()
    ranked_n = models.PositiveIntegerField()

    class Meta:
        get_latest_by = "built"
        indexes: ClassVar = [
            models.Index(fields=["suite", "style", "-built"], name="newest_snapshot"),
        ]

    def __str__(self) -> str:
        return f"{self.suite} {self.style} at {self.built:%Y-%m-%d %H:%M}"


class BoardFault(models.Model):
    """A board that could not be built when it was due; the row goes once it is built."""

    suite = models.ForeignKey("leaderboard.Suite", on_delete=models.CASCADE, related_name="faults")
    style = models.CharField(max_length=16)
    """As in `BoardSnapshot`."""
    message = models.CharField(max_length=500)
    since = models.DateTimeField(auto_now_add=True)
    last = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["since"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["suite", "style"], name="one_fault_of_a_board"),
        ]

    def __str__(self) -> str:
        return f"{self.suite} {self.style}: {self.message}"
