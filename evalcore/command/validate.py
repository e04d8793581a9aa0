"""`evalcore validate`: really build tasks, and say what would fail."""

from __future__ import annotations

import argparse
import sys

from evalcore.command.selection import specs_of

NOT_VALID = 1
"""Exit status when a task cannot be built."""


def validate(options: argparse.Namespace) -> int:
    """Builds the first prompts of each task in a process of its own, one line for each task."""
    from evalcore.task.build_check import build_checks

    leaves = {leaf.name: leaf for spec in specs_of(options) for leaf in spec.leaves()}
    reports = build_checks(
        list(leaves.values()), time_limit=options.time_limit, limit=options.documents
    )
    failed = 0
    for report in reports:
        failed += not report.ok
        verdict = f"ok, {report.requests} requests" if report.ok else f"fails: {report.reason}"
        needs = f" [{report.capability}]" if report.capability else ""
        sys.stdout.write(f"{report.task}: {verdict}{needs}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(leaves) - failed} of {len(leaves)} tasks can be built\n")
    return NOT_VALID if failed else 0
