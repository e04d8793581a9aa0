"""A cache in Redis for all processes of the site, which goes on without it where it is away.

What is counted there must never be why a page fails: while Redis does not answer, each process
counts for itself, and asks it again some seconds later.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, ClassVar

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

AWAY_SECONDS = 10.0
"""For which a Redis that did not answer is left alone."""
ENTRIES = 100_000


class AsJson:
    """How values are written: as text, so that whoever writes into Redis runs no code here."""

    def dumps(self, value: Any) -> bytes | int:
        # A number as it is: Redis itself counts it up.
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class SharedCache(RedisCache):
    """Django's cache in Redis; of its methods those that limits, ours and allauth's, stand on."""

    _away_until: ClassVar[float] = 0.0

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        here = {**params, "OPTIONS": {"MAX_ENTRIES": ENTRIES}}
        self._here = LocMemCache(f"instead of {self.key_prefix}", here)

    def add(self, key: Any, *args: Any, **options: Any) -> bool:
        return bool(self._either("add", key, *args, **options))

    def get(self, key: Any, *args: Any, **options: Any) -> Any:
        return self._either("get", key, *args, **options)

    def set(self, key: Any, *args: Any, **options: Any) -> None:
        self._either("set", key, *args, **options)

    def incr(self, key: Any, *args: Any, **options: Any) -> int:
        return int(self._either("incr", key, *args, **options))

    def delete(self, key: Any, *args: Any, **options: Any) -> bool:
        return bool(self._either("delete", key, *args, **options))

    def _either(self, name: str, *args: Any, **options: Any) -> Any:
        if time.monotonic() >= SharedCache._away_until:
            try:
                return getattr(super(), name)(*args, **options)
            except (RedisError, OSError) as error:
                SharedCache._away_until = time.monotonic() + AWAY_SECONDS
                logger.error(
                    "the shared cache (PLUMBLINE_CACHE_URL) does not answer (%s): each process "
                    "counts for itself meanwhile",
                    type(error).__name__,
                )
        return getattr(self._here, name)(*args, **options)
