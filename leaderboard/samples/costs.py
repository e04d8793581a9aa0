"""What a run took, read from its record and its samples once and kept as a row.

Seconds and joules say something of a model only beside others on the same kind of machine, so the
machine is kept with them; where it is not known there is neither.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from django.db.models import Exists, OuterRef

from evalcore.record import RunRecord
from leaderboard.models import Artifact, Run, RunCost, SuiteEntry
from leaderboard.models.edition import changing, note
from leaderboard.models.run import MEASURED
from leaderboard.samples import store as artifacts

logger = logging.getLogger(__name__)

_RESPONSE = "responses.list.element."
_COLUMNS = (
    *(f"{_RESPONSE}{name}" for name in ("kind", "n_context_tokens", "text")),
    f"{_RESPONSE}token_ids",
)
MOST_TOKENS = 10**13
"""Of one run; a million tokens for each of a million questions is a tenth of it."""
_GPUS = re.compile(r"[1-9][0-9]* x .+")
"""How workers call their GPUs; what they say of processors is no kind of machine."""


def read(run: Run, record: RunRecord, samples: Path | None) -> RunCost:
    """The row of a run; without its samples nobody can count its tokens.

    What cannot be counted is left out: it is no reason to lose a result.
    """
    seconds = joules = None
    machine = _machine(run, record)
    # Of answers that an earlier process gave, nobody knows how long they took.
    if machine and not record.requests.get("journalled"):
        seconds = _above_zero([record.timing.get("answers")])
        joules = _above_zero([meter.get("joules") for meter in record.energy])
    return RunCost(
        run=run,
        questions=max(1, int(record.samples.rows)),
        tokens=_counted(run, samples) if samples else None,
        seconds=seconds,
        joules=joules,
        hardware=machine,
        counters=_counters(record) if joules else "",
    )


def _counted(run: Run, samples: Path) -> int | None:
    try:
        tokens = tokens_in(samples)
    except (OSError, ValueError, KeyError, OverflowError, pa.ArrowException) as problem:
        logger.warning("%s: its tokens cannot be counted: %s", run, problem)
        return None
    return tokens if tokens is not None and tokens <= MOST_TOKENS else None


def _above_zero(parts: Sequence[Any]) -> float | None:
    """Their sum; None where one of them is no number, as no child is believed to write one."""
    if not all(isinstance(part, int | float) for part in parts):
        return None
    try:
        total = float(sum(parts))
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return total if 0 < total < inf else None


def tokens_in(samples: Path) -> int | None:
    """Of all requests in a file: what was read, and what was scored or written.

    None where a single one does not say: a sum of the others would pass for the whole.
    """
    total = 0
    with pq.ParquetFile(samples) as file:
        for batch in file.iter_batches(columns=list(_COLUMNS), use_threads=False):
            responses = batch.column("responses").flatten()
            context = pc.fill_null(responses.field("n_context_tokens"), 0)
            after = pc.fill_null(pc.list_value_length(responses.field("token_ids")), 0)
            wrote = pc.equal(responses.field("kind"), "generate_until")
            silent = pc.and_(wrote, pc.equal(pc.fill_null(responses.field("text"), ""), ""))
            counted = pc.and_(pc.greater(context, 0), pc.or_(pc.greater(after, 0), silent))
            if not pc.all(counted, min_count=0).as_py():
                return None
            total += (pc.sum(context).as_py() or 0) + (pc.sum(after).as_py() or 0)
    return total or None


_read_all = False
"""Whether this process has found that none is missing: since then each has come with its run."""


def read_due() -> None:
    """A part of what finished runs of an earlier version took; nothing once all are read."""
    global _read_all
    _read_all = _read_all or not fill_missing()


def fill_missing(limit: int = 50) -> int:
    """Read what finished runs of before took, the newest first; how many runs were looked at.

    A run whose files are lost has a row that says nothing.
    """
    none_yet = ~Exists(RunCost.objects.filter(run=OuterRef("pk")))
    has_record = Exists(Artifact.objects.filter(run=OuterRef("pk"), kind=Artifact.Kind.RECORD))
    found = Run.objects.filter(none_yet, has_record, state__in=MEASURED)
    newest = found.order_by("-finished", "pk")
    runs = list(newest.select_related("worker").prefetch_related("artifacts")[:limit])
    if not runs:
        return 0
    rows = [_of_files(run) for run in runs]
    with changing():
        RunCost.objects.bulk_create(rows, ignore_conflicts=True)
        if len(runs) < limit:
            # Boards are built anew once, at the end: those of thousands of models take minutes.
            note("data", of=set(SuiteEntry.objects.order_by().values_list("suite", flat=True)))
    return len(runs)


def _of_files(run: Run) -> RunCost:
    paths = {file.kind: artifacts.path_of(file.sha256) for file in run.artifacts.all()}
    samples = paths.get(Artifact.Kind.SAMPLES)
    try:
        record = RunRecord.read(paths[Artifact.Kind.RECORD])
        return read(run, record, samples if samples and samples.is_file() else None)
    except (OSError, ValueError) as problem:
        logger.warning("%s: what it took cannot be read: %s", run, problem)
        return RunCost(run=run, questions=1)


def _machine(run: Run, record: RunRecord) -> str:
    """As the worker called it when it stored the run; of runs of before, only GPUs are known."""
    told = str(record.environment.get("hardware", ""))
    if not told and run.worker and _GPUS.fullmatch(run.worker.device):
        told = run.worker.device
    backend = (record.model.get("computed_by") or {}).get("name")
    return f"{told}, {backend}"[:160] if told and backend else told[:160]


def _counters(record: RunRecord) -> str:
    """Whether processors, their memory and GPUs were counted: sums of other parts are others."""
    return " + ".join(sorted({_part(meter) for meter in record.energy}))[:160]


def _part(meter: Mapping[str, Any]) -> str:
    if meter.get("source") == "RAPL":
        return "memory" if "memory" in str(meter.get("part")) else "processor"
    return "GPU"
