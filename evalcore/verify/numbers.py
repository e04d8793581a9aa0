"""The numbers of a record against those of its scored tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from evalcore.formats.run_files import Run
from evalcore.model.base import Mode
from evalcore.record import Failure, ResultRow
from evalcore.score.numbers.aggregate import aggregate
from evalcore.score.scored import ScoredTask
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.verify.report import Report

FIGURES = ("value", "stderr", "compat_stderr", "low", "high", "interval", "n", "higher_is_better")


def check_numbers(
    run: Run, spec: TaskSpec | GroupSpec, scored: Sequence[ScoredTask], report: Report
) -> None:
    """Every row of the record, and that there is no other."""
    record = run.record
    names = [leaf.name for leaf in spec.leaves()]
    if isinstance(spec, GroupSpec):
        names += [group.name for group in spec.groups()]
    # The run keys of the parts are not in a record: its own key is checked, theirs are not.
    keys = dict.fromkeys(names, record.run_key)
    _check(record.results, spec, scored, keys, run, report, "")
    if any(sample["contaminated"] is not None for sample in run.samples):
        marked = {_key(sample): sample["contaminated"] for sample in run.samples}
        clean = [task.only(lambda sample: marked[_key(sample)] is False) for task in scored]
        if not all(task.samples for task in clean):
            report.compare("numbers on clean documents", len(record.clean_results), 0)
            return
        _check(record.clean_results, spec, clean, keys, run, report, " on clean documents")


def _check(
    stated: Sequence[ResultRow],
    spec: TaskSpec | GroupSpec,
    scored: Sequence[ScoredTask],
    keys: dict[str, str],
    run: Run,
    report: Report,
    where: str,
) -> None:
    settings = run.record.settings
    rows, failures = aggregate(
        spec,
        scored,
        keys,
        mode=cast(Mode, run.record.mode),
        bootstrap_iters=settings.get("bootstrap_iters", 100_000),
        seed=settings.get("seed", 1234),
    )
    found = {_place(row): row for row in rows}
    for row in stated:
        other = found.pop(_place(row), None)
        what = " ".join(part for part in _place(row) if part) + where
        if other is None:
            report.differ(what, row.value, None)
            continue
        for figure in FIGURES:
            report.compare(f"{what}, {figure}", getattr(row, figure), getattr(other, figure))
        if row.task == run.record.task:
            report.compare(
                f"{what}, comparability key", row.comparability_key, other.comparability_key
            )
    for place, other in found.items():
        report.differ(" ".join(part for part in place if part) + where, None, other.value)
    if not where:
        _check_failures(run, failures, report)


def _key(sample: Mapping[str, Any]) -> tuple[str, int]:
    return sample["task"], sample["doc_id"]


def _place(row: ResultRow) -> tuple[str, str, str, str]:
    return row.task, row.subset, row.metric, row.filter


def _check_failures(run: Run, found: Sequence[Failure], report: Report) -> None:
    stated = {(failure.task, failure.metric, failure.filter) for failure in run.record.failures}
    again = {(failure.task, failure.metric, failure.filter) for failure in found}
    for place in sorted(stated ^ again):
        in_record = "failed" if place in stated else "did not fail"
        report.differ(" ".join(place), in_record, "failed" if place in again else "did not fail")
