"""`evalcore agree`: whether two backends gave the same answers to the same requests."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from evalcore.agreement import Agreement, NotTheSame, agreement_of
from evalcore.command.files import read
from evalcore.command.options import OptionError
from evalcore.formats.run_files import Run
from evalcore.progress import empty_table, say

BEYOND_BOUNDS = 1
"""Exit status where a bound is passed."""


def agree(options: argparse.Namespace) -> int:
    """Prints a table or JSON, one row for each task that both runs have."""
    first = read([options.a])
    others = {run.record.task: run for run in read([options.b])}
    pairs = [(run, others.pop(run.record.task, None)) for run in first]
    found = [_agreement(run, twin) for run, twin in pairs if twin is not None]
    alone = [run.record.task for run, twin in pairs if twin is None] + list(others)
    if not found:
        raise OptionError(f"{options.a} and {options.b} have no task in common: {alone}")
    if options.json:
        rows = [{**asdict(row), "within": row.within} for row in found]
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        _print(found)
    for task in alone:
        sys.stderr.write(f"evalcore: {task} is in one run alone and was not compared\n")
    return 0 if all(row.within for row in found) else BEYOND_BOUNDS


def _agreement(run: Run, twin: Run) -> Agreement:
    for one in (run, twin):
        if not one.samples:
            raise OptionError(f"{one.source}: {one.why_without}: run it with --log_samples")
    try:
        return agreement_of(run.record, run.samples, twin.record, twin.samples)
    except NotTheSame as problem:
        raise OptionError(str(problem)) from problem


def _print(found: list[Agreement]) -> None:
    columns = ("task", "documents", "responses", "largest Δ (nats)", "flags", "texts")
    table = empty_table(*columns, "scored otherwise", "Δ score", "agree")
    for row in found:
        table.add_row(
            row.task,
            str(row.documents),
            str(row.responses),
            f"{row.largest:.2g}",
            str(row.flags),
            str(row.texts),
            str(row.scored_otherwise),
            f"{row.difference:+.4f}",
            "yes" if row.within else "no",
        )
    say(table)
    for row in found:
        for problem in row.problems:
            say(f"{row.task}: {problem}")
