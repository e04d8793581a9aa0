"""What a record must say to be a run's, and how its numbers become rows.

A record is what a worker's child wrote: nothing in it is believed that the run did not ask for.
"""

from __future__ import annotations

from dataclasses import asdict

from django.db.models import Exists, OuterRef

from evalcore.record import RunRecord
from leaderboard.models import Result, Run, SuiteEntry
from leaderboard.models.variant import TRANSFORMERS
from leaderboard.samples import vectors


class OtherTask(ValueError):
    """The record is of another task, or of another way of asking it, than the queued run."""


NOT_ASKED_FOR = ("delta", "gguf_file")
"""What a record may say of its model and no variant of the site does: none stands among others."""
ASKED_FOR = ("repository", "commit", "dtype", "adapter", "quantisation")
"""What it says of its model in the words of a variant."""


def _backend(record: RunRecord) -> str:
    return str((record.model.get("computed_by") or {}).get("name", TRANSFORMERS))


def computed_by(record: RunRecord) -> str:
    """The backend with its version, and on what: its kernels for a GPU are others than those for a
    processor. Empty for transformers, whose version is in the environment."""
    told = record.model.get("computed_by") or {}
    device = str(record.environment.get("device", "")).partition(":")[0]
    return f"{told.get('name')} {told.get('version')} on {device}"[:64] if told else ""


def check(run: Run, record: RunRecord) -> None:
    """Raises ValueError for a record that is not this run's, or has no result."""
    if record.run_key != run.run_key:
        raise OtherTask(
            f"record of {record.task}: run_key is {record.run_key[:12]}, "
            f"the queued run has {run.run_key[:12]}"
        )
    if record.model.get("unpinned"):
        raise ValueError(
            f"record of {record.task}: {record.model.get('repository')} was asked through a "
            "server, and nobody can pin what answers there to weights, so it stands in no column "
            "with models that are pinned: evaluate the published model with --model hf"
        )
    for kind in NOT_ASKED_FOR:
        if made_of := record.model.get(kind):
            raise ValueError(
                f"record of {record.task}: {record.model.get('repository')} was evaluated with "
                f"{kind} {made_of}, which is another variant than the one that was asked for"
            )
    variant = run.variant
    asked = (
        *(*variant.whole, variant.dtype, variant.adapter, variant.quantisation),
        *(variant.backend, variant.code),
    )
    pins = (str(record.model.get(pin) or "") for pin in ASKED_FOR)
    loaded = (*pins, _backend(record), ",".join(record.model.get("code") or ()))
    if loaded != asked:
        raise ValueError(f"record of {record.task}: {loaded} was evaluated, {asked} was asked for")
    if unpinned := sorted(t for t, pins in record.datasets.items() if not pins.get("commit")):
        raise ValueError(
            f"record of {record.task}: no commit is known of the data of {unpinned[0]}"
        )
    if record.limit is not None:
        raise ValueError(f"record of {record.task}: only {record.limit} documents were scored")
    if not record.own_results():
        raise ValueError(f"record of {record.task}: no result for the task itself")


def store(run: Run, record: RunRecord, by_question: vectors.Read | None) -> None:
    """Insert the record's numbers and scores by question; the caller holds the transaction.

    The first result of a suite's column fixes the comparability key that all others must share to
    stand in it.
    """
    stored = Result.objects.bulk_create(
        Result(
            run=run,
            task_name=row.task,
            subset=row.subset,
            metric=row.metric,
            filter=row.filter,
            value=row.value,
            stderr=row.stderr,
            low=row.low,
            high=row.high,
            n=row.n,
            higher_is_better=row.higher_is_better,
            comparability_key=row.comparability_key,
            **(asdict(row.lengths) if row.lengths else {}),
        )
        for row in record.results
    )
    if by_question is not None:
        own = [r for r in stored if r.task_name == record.task and not r.subset]
        vectors.store(own, by_question)
    for row in record.own_results():
        for key in ("", "chat_"):
            fixed = f"{key}comparability_key"
            columns = SuiteEntry.objects.filter(
                **{"metric": row.metric, "filter": row.filter, f"{key}run_key": run.run_key}
            )
            if run.rerun_id:
                # Where all that stood was replaced, the new ones fix it anew.
                standing = Result.objects.filter(
                    comparability_key=OuterRef(fixed), run__state=Run.State.DONE
                )
                open_columns = columns.filter(~Exists(standing))
            else:
                open_columns = columns.filter(**{fixed: ""})
            open_columns.update(**{fixed: row.comparability_key})
