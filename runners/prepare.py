"""`python -m runners.prepare`: what must be done before the site and its workers start."""

from __future__ import annotations

import django
from django.conf import settings
from django.core.management import call_command


def main() -> None:
    django.setup()
    from leaderboard import snapshots, vectors  # tables can be imported only after the setup

    call_command("migrate", interactive=False, verbosity=0)
    call_command("sync_tasks")
    while vectors.fill_missing():
        pass  # runs of an earlier version, of which the scores by question were not yet kept
    if suite := snapshots.newest_suite(settings.PLUMBLINE_SUITE):
        snapshots.build_first(suite)
    if not settings.DEBUG:
        call_command("collectstatic", interactive=False, verbosity=0)


if __name__ == "__main__":
    main()
