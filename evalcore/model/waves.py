"""Requests that are answered wave after wave: all of a lower `wave` before any of a higher one."""

from __future__ import annotations

from collections.abc import Iterable

from evalcore.model.base import EncodedRequest


def in_waves(requests: Iterable[EncodedRequest]) -> list[list[int]]:
    """The places of the requests of each wave, the first one's first; within it as they stand."""
    waves: dict[int, list[int]] = {}
    for place, request in enumerate(requests):
        waves.setdefault(request.wave, []).append(place)
    return [waves[wave] for wave in sorted(waves)]
