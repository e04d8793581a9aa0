"""How many models one account may submit in a day, where that is not what everybody may."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models


class Quota(models.Model):
    """An operator's word on one account; without a row PLUMBLINE_USER_QUOTA holds.

    What was used of it is not counted here: the submissions themselves are.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="quota"
    )
    most = models.PositiveIntegerField(
        "submissions in 24 hours", help_text="0 takes none for now; the account stays as it is."
    )
    why = models.CharField("reason", max_length=200, blank=True, help_text="For operators alone.")

    class Meta:
        ordering: ClassVar = ["user__username"]

    def __str__(self) -> str:
        return f"{self.user}: {self.most} in 24 hours"
