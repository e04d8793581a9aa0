"""Why results that stand are measured once more; appended, never changed."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Rerun(models.Model):
    """An operator's order to replace finished runs; the runs that it made name it."""

    reason = models.CharField(max_length=300)
    by = models.CharField(max_length=200)
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(reason=""), name="rerun_says_why"),
        ]

    def __str__(self) -> str:
        return self.reason
