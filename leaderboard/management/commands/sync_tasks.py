"""Take over the tasks folder: `manage.py sync_tasks`, after each change of it; repeatable."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from leaderboard.catalogue import sync as catalogue
from leaderboard.models import Suite


class Command(BaseCommand):
    help = "Make the suites and tasks of PLUMBLINE_TASKS known to the site."

    def handle(self, *_args: Any, **_options: Any) -> None:
        try:
            synced = catalogue.sync(settings.PLUMBLINE_TASKS)
        except catalogue.CatalogueError as error:
            count = len(error.problems)
            raise CommandError(f"Nothing was stored, {count} problems:\n{error}") from None
        if not Suite.objects.filter(name=settings.PLUMBLINE_SUITE).exists():
            known = sorted(set(Suite.objects.values_list("name", flat=True)))
            raise CommandError(
                f"PLUMBLINE_SUITE={settings.PLUMBLINE_SUITE!r} is no suite of "
                f"{settings.PLUMBLINE_TASKS}: use one of {', '.join(known)}"
            )
        for kind, names in (("task", synced.tasks), ("suite", synced.suites)):
            for name in names:
                self.stdout.write(f"new {kind}: {name}")
        if not synced.tasks and not synced.suites:
            self.stdout.write("nothing new")
