"""The numbers of a record against those of its scored tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from evalcore.formats.run_files import Run
from evalcore.model.base import Mode
from evalcore.record import ResultRow
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
    numbers = partial(
        aggregate,
        spec,
        # The run keys of the parts are not in a record: its own key is checked, theirs are not.
        run_keys={part.name: record.run_key for part in spec.parts()},
        mode=cast(Mode, record.mode),
        bootstrap_iters=record.settings.get("bootstrap_iters", 100_000),
        seed=record.settings.get("seed", 1234),
    )
    rows, failures = numbers(scored)
    _check(record.results, rows, record.task, report, "")
    stated, again = (
        {(failure.task, failure.metric, failure.filter) for failure in of}
        for of in (record.failures, failures)
    )
    for place in sorted(stated ^ again):
        said = ("failed", "did not fail") if place in stated else ("did not fail", "failed")
        report.differ(" ".join(place), *said)
    if any(sample["contaminated"] is not None for sample in run.samples):
        marked = {_key(sample): sample["contaminated"] for sample in run.samples}
        clean = [task.only(lambda sample: marked[_key(sample)] is False) for task in scored]
        if not all(task.samples for task in clean):
            report.compare("numbers on clean documents", len(record.clean_results), 0)
            return
        rows, _ = numbers(clean)
        _check(record.clean_results, rows, record.task, report, " on clean documents")


def _check(
    stated: Sequence[ResultRow], again: Sequence[ResultRow], whole: str, report: Report, where: str
) -> None:
    found = {row.place: row for row in again}
    for row in stated:
        other = found.pop(row.place, None)
        what = " ".join(part for part in row.place if part) + where
        if other is None:
            report.differ(what, row.value, None)
            continue
        for figure in FIGURES:
            report.compare(f"{what}, {figure}", getattr(row, figure), getattr(other, figure))
        if row.lengths is not None and other.lengths is not None:
            for name, count in asdict(row.lengths).items():
                report.compare(f"{what}, {name}", count, getattr(other.lengths, name))
        if row.task == whole:
            report.compare(
                f"{what}, comparability key", row.comparability_key, other.comparability_key
            )
    for place, other in found.items():
        report.differ(" ".join(part for part in place if part) + where, None, other.value)


def _key(sample: Mapping[str, Any]) -> tuple[str, int]:
    return sample["task"], sample["doc_id"]
