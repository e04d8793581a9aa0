"""What the workers that are alive can hold."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from leaderboard.models import Worker

ALIVE = timedelta(minutes=2)
"""A worker that has not been seen for so long does not count."""


def live_workers() -> list[Worker]:
    return list(Worker.objects.filter(seen__gte=timezone.now() - ALIVE))


def largest_memory(workers: list[Worker], dtype: str) -> int | None:
    """Bytes of the largest of these workers that computes in `dtype`; None where none does."""
    return max((w.memory_bytes for w in workers if dtype in w.dtypes), default=None)


def holds(worker: Worker, needed_bytes: int, dtype: str) -> bool:
    """Whether the worker can evaluate a model that needs so much memory in `dtype`."""
    return needed_bytes <= worker.memory_bytes and dtype in worker.dtypes
