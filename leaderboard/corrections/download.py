"""All reports on keys that were ever given as a file, those of a struck one without its text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from leaderboard.models import Edition, Ruling
from leaderboard.models.edition import SITE
from leaderboard.snapshot import TableFile

BATCH = 1_000
"""Rows that are made at a time."""
_FIELDS: dict[str, pa.DataType] = {
    "ruling": pa.int64(),
    **{name: pa.string() for name in ("task", "task_version", "part")},
    "doc_id": pa.int64(),
    **{name: pa.string() for name in ("doc_digest", "docs_digest", "question")},
    **{name: pa.string() for name in ("verdict", "answer", "reason", "source", "by", "at")},
    **{name: pa.string() for name in ("ended", "ending", "ended_by", "ending_words")},
    "counts": pa.bool_(),
}


def file(request: HttpRequest) -> TableFile:
    task = request.GET.get("task", "")[:201]
    found = Ruling.objects.order_by("pk").select_related("task", "by", "ended_by")
    if task:
        found = found.filter(task__name=task)
    # It moves on with every ruling, and with every account that is renamed or gone.
    edition = Edition.objects.filter(of=SITE).values_list("pages", flat=True).first() or 0
    return TableFile(
        name=f"plumbline-rulings-{task or 'all'}-{timezone.now():%Y-%m-%d}",
        built=timezone.now(),
        about={"rulings_of": task or "all tasks", "edition": str(edition)},
        details={},
        batches=lambda: _batches(found),
        rows="rulings",
    )


def _batches(found: QuerySet[Ruling]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema(list(_FIELDS.items()))
    start = 0
    while True:
        rows = list(found[start : start + BATCH])
        if rows or not start:
            yield pa.RecordBatch.from_pylist([_row(row) for row in rows], schema=schema)
        if len(rows) < BATCH:
            return
        start += BATCH


def _row(ruling: Ruling) -> dict[str, object]:
    said = not ruling.is_struck
    return {
        "ruling": ruling.pk,
        "task": ruling.task.name,
        "task_version": ruling.task.version,
        "part": ruling.part,
        "doc_id": ruling.doc_id,
        "doc_digest": ruling.doc_digest,
        "docs_digest": ruling.docs_digest,
        "question": ruling.question,
        "verdict": ruling.verdict,
        "answer": ruling.answer if said else None,
        "reason": ruling.reason if said else None,
        "source": ruling.source if said else None,
        "by": str(ruling.by) if ruling.by else None,
        "at": _moment(ruling.at),
        "ended": _moment(ruling.ended),
        "ending": ruling.ending or None,
        "ended_by": str(ruling.ended_by) if ruling.ended_by else None,
        "ending_words": ruling.ending_words or None,
        "counts": ruling.ended is None and ruling.by is not None and ruling.by.is_active,
    }


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
