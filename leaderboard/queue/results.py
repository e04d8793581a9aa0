"""From a run's record to its Result rows."""

from __future__ import annotations

from evalcore.record import RunRecord
from leaderboard.models import Result, Run, SuiteEntry
from leaderboard.samples import vectors


def store(run: Run, record: RunRecord, by_question: vectors.Read | None) -> None:
    """Insert the record's numbers and scores by question; the caller holds the transaction.

    The first result of a suite's column fixes the comparability key that all others must share to
    stand in it. Raises ValueError for a record that is not this run's, or has no result.
    """
    if record.run_key != run.run_key:
        raise ValueError(
            f"record of {record.task}: run_key is {record.run_key[:12]}, "
            f"the queued run has {run.run_key[:12]}"
        )
    variant = run.variant
    asked = (variant.hub_model.repo_id, variant.commit, variant.dtype)
    loaded = tuple(record.model.get(pin) for pin in ("repository", "commit", "dtype"))
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
        )
        for row in record.results
    )
    if by_question is not None:
        own = [r for r in stored if r.task_name == record.task and not r.subset]
        vectors.store(own, by_question)
    for row in record.own_results():
        SuiteEntry.objects.filter(
            run_key=run.run_key, metric=row.metric, filter=row.filter, comparability_key=""
        ).update(comparability_key=row.comparability_key)
