"""All reports on keys that were ever given as a file, those of a struck one without its text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from leaderboard.models import Edition, Report, Ruling
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
    keys = Report.objects.filter(kind=Report.Kind.KEY, task__isnull=False)
    found = keys.order_by("pk").select_related("task", "by").prefetch_related("rulings__by")
    if task:
        found = found.filter(task__name=task)
    # It moves on with every report, and with every account that is renamed or gone.
    edition = Edition.objects.filter(of=SITE).values_list("pages", flat=True).first() or 0
    return TableFile(
        name=f"plumbline-rulings-{task or 'all'}-{timezone.now():%Y-%m-%d}",
        built=timezone.now(),
        about={"rulings_of": task or "all tasks", "edition": str(edition)},
        details={},
        batches=lambda: _batches(found),
        rows="rulings",
    )


def _batches(found: QuerySet[Report]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema(list(_FIELDS.items()))
    start = 0
    while True:
        rows = list(found[start : start + BATCH])
        if rows or not start:
            yield pa.RecordBatch.from_pylist([_row(row) for row in rows], schema=schema)
        if len(rows) < BATCH:
            return
        start += BATCH


_ENDINGS: dict[str, str] = {
    Report.State.CHANGED: "changed",
    Report.State.WITHDRAWN: "withdrawn",
    Report.State.WITHHELD: "struck",
}


def _row(report: Report) -> dict[str, object]:
    said = not report.is_withheld
    struck: Ruling | None = next(iter(report.rulings.all()), None)
    ended_by = struck.by if struck else report.by if report.closed else None
    return {
        "ruling": report.pk,
        "task": report.task.name if report.task else None,
        "task_version": report.task.version if report.task else None,
        "part": report.part,
        "doc_id": report.doc_id,
        "doc_digest": report.doc_digest,
        "docs_digest": report.docs_digest,
        "question": report.question,
        "verdict": report.verdict,
        "answer": report.answer if said else None,
        "reason": report.reason if said else None,
        "source": report.evidence if said else None,
        "by": str(report.by) if report.by else None,
        "at": _moment(report.at),
        "ended": _moment(report.closed),
        "ending": _ENDINGS.get(report.state),
        "ended_by": str(ended_by) if ended_by else None,
        "ending_words": struck.words if struck else None,
        "counts": not report.closed and report.by is not None and report.by.is_active,
    }


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
