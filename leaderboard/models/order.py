"""What the operator has told workers to do: to pause, or to give back what they have."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class PoolOrder(models.Model):
    """A standing order to one worker or to all; it holds until it is lifted."""

    class Kind(models.TextChoices):
        PAUSE = "pause", "Paused"
        DRAIN = "drain", "Drained"

    EVERYBODY: ClassVar = ""

    worker = models.CharField(max_length=200, primary_key=True)
    """A worker's name; EVERYBODY for all, also those to come."""
    kind = models.CharField(max_length=8, choices=Kind.choices)
    why = models.CharField(max_length=200, blank=True)
    by = models.CharField(max_length=200)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.kind} {self.worker or 'everybody'}"
