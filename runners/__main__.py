"""`python -m runners`: the site with its workers, as one process tree; `… PART`: one part alone."""

from __future__ import annotations

import argparse
import os
import sys

from django.core.exceptions import ImproperlyConfigured

from runners.supervisor import commands, evaluate, main, site_host


def one_or_all() -> int:
    """The tree, or in place of this process the part that was named, as in a container."""
    parser = argparse.ArgumentParser(prog="python -m runners", description=__doc__)
    parts = parser.add_subparsers(dest="part", metavar="PART")
    alone = commands()
    for name in alone:
        parts.add_parser(name, help="run this part alone")
    parts.add_parser("evaluate", help="run the workers of all devices of this machine")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
    if options.part is None:
        return main()
    if options.part == "evaluate":
        return evaluate()
    if options.part == "site":
        try:
            site_host()
        except ImproperlyConfigured as problem:
            sys.stderr.write(f"plumbline: {problem}\n")
            return 1
    command = alone[options.part]
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    sys.exit(one_or_all())
