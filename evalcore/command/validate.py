"""`evalcore validate`: really build tasks, and say what would fail and what is missing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from evalcore.command.selection import folder_of, specs_of
from evalcore.selection import library_of
from evalcore.task.config import TaskSpec

NOT_VALID = 1
"""Exit status when a task cannot be built, or lacks something of the checklist."""


def validate(options: argparse.Namespace) -> int:
    """Builds the first prompts of each task in a process of its own, one line for each task.

    Tasks that state our metadata are held against the checklist of the task guide as well.
    """
    from evalcore.authoring.build_check import build_checks

    leaves = {leaf.name: leaf for spec in specs_of(options) for leaf in spec.leaves()}
    folders = library_of(options.include_path).folders
    known = {name: folder for name, leaf in leaves.items() if (folder := folder_of(leaf, folders))}
    reports = build_checks(
        list(leaves.values()),
        time_limit=options.time_limit,
        limit=options.documents,
        rows=known if options.own_rows else None,
    )
    failed = 0
    for report in reports:
        failed += not report.ok
        verdict = f"ok, {report.requests} requests" if report.ok else f"fails: {report.reason}"
        needs = f" [{report.capability}]" if report.capability else ""
        sys.stdout.write(f"{report.task}: {verdict}{needs}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(leaves) - failed} of {len(leaves)} tasks can be built\n")
    ours = {name: leaf for name, leaf in leaves.items() if "benchmark" in leaf.metadata}
    lacking = _checklist({name: leaf for name, leaf in ours.items() if name in known}, known)
    return NOT_VALID if failed or lacking else 0


def _checklist(leaves: Mapping[str, TaskSpec], folders: Mapping[str, Path]) -> int:
    """Prints what each task lacks, alike ones together; how many lack something."""
    from evalcore.authoring.checklist import problems_of

    lacking: dict[str, list[str]] = {}
    tasks = 0
    for name, leaf in leaves.items():
        found = problems_of(leaf, folders[name])
        tasks += bool(found)
        for problem in found:
            lacking.setdefault(problem, []).append(name)
    for problem, names in lacking.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        sys.stdout.write(f"checklist: {names[0]}{more}: {problem}\n")
    if leaves:
        sys.stdout.write(f"{len(leaves) - tasks} of {len(leaves)} tasks pass the checklist\n")
    return tasks
