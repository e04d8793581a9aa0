"""A worker that an engine (Slurm, Kubernetes, Ray) was asked for, and what became of it."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models


class Launch(models.Model):
    """One worker of one kind. Written before the engine is asked, so that none is forgotten."""

    class State(models.TextChoices):
        ASKING = "asking", "Is being asked for"
        WAITING = "waiting", "Asked for"
        UP = "up", "At work"
        ENDED = "ended", "Ended"
        FAILED = "failed", "Did not come"

    OPEN: ClassVar = (State.ASKING, State.WAITING, State.UP)
    """States in which it may cost something."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=64)
    """As the operator's file of launches calls it."""
    engine = models.CharField(max_length=16)
    handle = models.CharField(max_length=200, blank=True)
    """What the engine calls it."""
    state = models.CharField(max_length=8, choices=State.choices, default=State.ASKING)
    gpus = models.PositiveSmallIntegerField()
    hours = models.FloatField()
    """After which the engine ends it."""
    price = models.FloatField()
    """Of an hour."""
    asked = models.DateTimeField()
    came = models.DateTimeField(null=True, blank=True)
    ended = models.DateTimeField(null=True, blank=True)
    claims = models.PositiveIntegerField(default=0)
    """How often it took runs."""
    why = models.TextField(blank=True)
    """Of its end."""

    class Meta:
        ordering: ClassVar = ["-asked"]
        indexes: ClassVar = [
            models.Index(fields=["kind", "-asked"], name="launches_of_a_kind"),
            models.Index(fields=["state"], name="launches_by_state"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.engine}"
