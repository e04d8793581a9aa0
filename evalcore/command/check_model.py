"""`evalcore check-model`: the conformance test on anybody's model."""

from __future__ import annotations

import argparse
import sys

from evalcore.command.selection import model_of

FAILED = 1
"""Exit status where a check fails."""


def check_model(options: argparse.Namespace) -> int:
    """Prints the report, which ends with pass or fail."""
    from evalcore.model.conformance import examine

    report = examine(model_of(options))
    sys.stdout.write(f"{report}\n")
    return 0 if report.passed else FAILED
