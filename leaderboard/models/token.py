"""Words by which a program speaks for an account, kept as digests."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models

BEGINNING = "plumb_"
"""So that a token which lies where it should not is known for what it is."""
RANDOM_BYTES = 32
SHOWN = len(BEGINNING) + 6


class ApiToken(models.Model):
    """One token of one account. The token itself is nowhere: who loses it makes another."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens"
    )
    name = models.CharField(max_length=60)
    prefix = models.CharField(max_length=SHOWN)
    """Its first characters, by which its owner tells it from others."""
    digest = models.CharField(max_length=64, unique=True)
    """SHA-256: nobody guesses 256 random bits, so nothing slower is needed."""
    created = models.DateTimeField(auto_now_add=True)
    expires = models.DateTimeField()
    last_used = models.DateTimeField(null=True)
    """Within a minute."""

    class Meta:
        ordering: ClassVar = ["-created", "-pk"]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user}"

    @classmethod
    def make(cls, user: models.Model, name: str, expires: datetime) -> tuple[ApiToken, str]:
        """The row, and the token, which is never seen again."""
        token = BEGINNING + secrets.token_urlsafe(RANDOM_BYTES)
        row = cls.objects.create(
            user=user, name=name, prefix=token[:SHOWN], digest=digest_of(token), expires=expires
        )
        return row, token


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
