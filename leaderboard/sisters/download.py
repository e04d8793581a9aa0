"""The table of a pair as a file: all of its models, in the page's order, in full precision.

Where nothing can be said of a pair the table is empty, and `unanswered` says why.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from django.http import Http404, HttpRequest
from django.urls import reverse

from leaderboard.models import SisterGap
from leaderboard.sisters.view import View, address_of, view
from leaderboard.snapshot import TableFile
from leaderboard.tasks import sisters

BATCH = 1_000
"""Rows that are made at a time."""
NUMBERS = ("score", "sister", "expected", "gap", "low", "high", "p_value")


def file(request: HttpRequest) -> TableFile:
    address = address_of(request)
    seen = view(address)
    suite, pair, analysis = seen.suite, seen.pair, seen.analysis
    if suite is None or pair is None or analysis is None:
        raise Http404("there are no gaps to a sister yet")
    site = request.build_absolute_uri("/").rstrip("/")
    page = address.url(suite=f"{suite.name}@{suite.version}", pair=pair.name, page=1)
    return TableFile(
        name=f"plumbline-{suite.name}-{suite.version}-{_of_file(pair)}-{analysis.built:%Y-%m-%d}",
        built=analysis.built,
        about={
            "suite": suite.name,
            "suite_version": suite.version,
            "task": pair.column.task.name,
            "sister_task": pair.sister.task.name,
            "comparability_key": analysis.comparability_key,
            "sister_comparability_key": analysis.sister_key,
            "built": analysis.built.isoformat(),
            "data_version": analysis.data_version,
            "order": seen.order,
            "address": f"{site}{page.replace(request.path, reverse('sisters'), 1)}",
        },
        details={
            "differs": pair.differs,
            "models": analysis.models_n,
            "scatter": analysis.scatter,
            "unanswered": analysis.unanswered,
        },
        batches=lambda: _batches(seen),
    )


def _of_file(pair: sisters.Pair) -> str:
    """Its name without the colon, which some systems allow in no name of a file."""
    return pair.name.replace(":", "-beside-")


def _batches(seen: View) -> Iterator[pa.RecordBatch]:
    for start in range(0, max(seen.count, 1), BATCH):
        yield _batch(list(seen.gaps[start : start + BATCH]))


def _batch(gaps: list[SisterGap]) -> pa.RecordBatch:
    variants = [gap.variant for gap in gaps]
    return pa.RecordBatch.from_pydict(
        {
            "model": pa.array([one.hub_model.repo_id for one in variants], pa.string()),
            "commit": pa.array([one.commit for one in variants], pa.string()),
            "dtype": pa.array([one.dtype for one in variants], pa.string()),
            "asked": pa.array([one.told for one in variants], pa.string()),
            **{
                name: pa.array([getattr(gap, name) for gap in gaps], pa.float64())
                for name in NUMBERS
            },
            "stands_out": pa.array([gap.stands_out for gap in gaps], pa.bool_()),
            "beyond": pa.array([gap.beyond for gap in gaps], pa.bool_()),
        }
    )
