"""Runs of other backends held beside those of transformers: background work, `compare_due` first.

A backend shares the board's columns with transformers where its answers to the same requests lie
within the bounds of `evalcore.agreement`; until that is shown its rows stand there without a rank.
"""

from __future__ import annotations

import json
from typing import Any

from django.db.models import QuerySet

from evalcore.agreement import SAMPLE_FIELDS, NotTheSame, agreement_of
from evalcore.record import RunRecord, read_samples
from leaderboard.models import Agreement, Artifact, Run, SuiteEntry
from leaderboard.models.edition import SITE, changing, note
from leaderboard.models.variant import TRANSFORMERS
from leaderboard.samples import store as artifacts

MOST = 4
"""Pairs of runs that are compared at a time: other work waits behind it."""
_IDENTITY = ("commit", "dtype", "quantisation", "adapter_base", "adapter_base_commit", "chat")
"""What two variants share that differ in their backend alone, beside the repository."""


def compare_due() -> int:
    """Compare finished runs of other backends that have a twin by transformers; how many."""
    compared = 0
    for run in _waiting():
        if compared == MOST:
            break
        if twin := twin_of(run):
            _compare(run, twin)
            compared += 1
    return compared


def twin_of(run: Run) -> Run | None:
    """The newest finished run of the same model on the same requests by transformers."""
    variant = run.variant
    same = {f"variant__{name}": getattr(variant, name) for name in _IDENTITY}
    return (
        Run.objects.filter(
            variant__hub_model=variant.hub_model_id,
            variant__backend=TRANSFORMERS,
            run_key=run.run_key,
            state=Run.State.DONE,
            **same,
        )
        .order_by("-finished")
        .first()
    )


def _waiting() -> QuerySet[Run]:
    return (
        Run.objects.filter(state=Run.State.DONE, agreement=None)
        .exclude(variant__backend=TRANSFORMERS)
        .select_related("variant", "task")
        .order_by("finished")
    )


def _compare(run: Run, twin: Run) -> None:
    found = _found(run, twin)
    entries = SuiteEntry.objects.filter(task__benchmark=run.task.benchmark)
    with changing():
        Agreement.objects.get_or_create(run=run, defaults={"reference": twin, **found})
        suites = entries.order_by().values_list("suite", flat=True).distinct()
        note("data", of=suites, benchmarks=())
        note("pages", of=[SITE])


def _found(run: Run, twin: Run) -> dict[str, Any]:
    try:
        (record, samples), (other, others) = _stored(run), _stored(twin)
        agreement = agreement_of(
            record,
            read_samples(artifacts.path_of(samples), SAMPLE_FIELDS),
            other,
            read_samples(artifacts.path_of(others), SAMPLE_FIELDS),
        )
    except NotTheSame as problem:
        counts = ("documents", "responses", "largest", "beyond", "flags", "texts")
        none = dict.fromkeys((*counts, "scored_otherwise", "difference"), 0)
        return {**none, "within": False, "why": str(problem)}
    numbers = {
        name: getattr(agreement, name)
        for name in (
            *("documents", "responses", "largest", "beyond", "flags", "texts"),
            *("scored_otherwise", "difference", "within"),
        )
    }
    return {**numbers, "why": "; ".join(agreement.problems)}


def _stored(run: Run) -> tuple[RunRecord, str]:
    """The run's record, and the digest of its samples."""
    digests = dict(run.artifacts.values_list("kind", "sha256"))
    record = artifacts.path_of(digests[Artifact.Kind.RECORD]).read_text(encoding="utf-8")
    return RunRecord.of(json.loads(record)), digests[Artifact.Kind.SAMPLES]
