"""`evalcore verify`: every number of results again, from their samples."""

from __future__ import annotations

import argparse
import sys

from evalcore.command.files import read
from evalcore.selection import library_of
from evalcore.values import folders
from evalcore.verify import Report
from evalcore.verify import verify as verify_run

DIFFERENT = 1
"""Exit status when a number differs, or none could be computed again."""

MOST_LINES = 50
"""Differences that are printed of one record."""


def verify(options: argparse.Namespace) -> int:
    """Prints each difference and what could not be computed again."""
    library = library_of(folders(options.include_path))
    reports = [verify_run(run, library, options.level) for run in read(options.files)]
    for report in reports:
        sys.stdout.write(_text(report))
    return 0 if all(report.ok for report in reports) else DIFFERENT


def _text(report: Report) -> str:
    verdict = "agrees" if report.ok else "DIFFERS" if report.differences else "NOT VERIFIED"
    done = f"{report.numbers} figures"
    if report.scores:
        done += f" and {report.scores} scores of documents"
    lines = [f"{report.task} ({report.source.name}), level {report.level}: {verdict}; {done}"]
    lines += [f"  {line}" for line in report.differences[:MOST_LINES]]
    if (more := len(report.differences) - MOST_LINES) > 0:
        lines.append(f"  and {more} more differences")
    lines += [f"  not computed again: {line}" for line in report.unchecked]
    return "\n".join(lines) + "\n"
