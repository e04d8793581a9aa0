"""`python -m runners`: the site with its workers, as one process tree; `… PART`: one part alone."""

from __future__ import annotations

import argparse
import os
import sys

from django.core.exceptions import ImproperlyConfigured

from runners.supervisor import commands, main, site_host


def one_or_all() -> int:
    """The tree, or in place of this process the part that was named, as in a container."""
    parser = argparse.ArgumentParser(prog="python -m runners", description=__doc__)
    parser.add_argument("part", nargs="?", choices=commands(), help="run this part alone")
    part = parser.parse_args().part
    if part is None:
        return main()
    if part == "site":
        try:
            site_host()
        except ImproperlyConfigured as problem:
            sys.stderr.write(f"plumbline: {problem}\n")
            return 1
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
    command = commands()[part]
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    sys.exit(one_or_all())
