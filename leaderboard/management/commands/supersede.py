"""Measure again what stands: `manage.py supersede --task NAME[@VERSION] --reason TEXT`."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.models import HubModel, TaskVersion
from leaderboard.queue import reruns


class Command(BaseCommand):
    help = (
        "Queue a run in the place of each result that stands of a task: by its newest version, or "
        "as it was asked. The results stay published until the new ones are stored."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--task", required=True, help="NAME, or NAME@VERSION for those alone")
        parser.add_argument("--model", default="", help="OWNER/NAME: of this model alone")
        parser.add_argument("--reason", required=True, help="one sentence, shown to everybody")

    def handle(self, *_args: Any, **options: Any) -> None:
        task, model = options["task"], options["model"]
        name, at, version = task.partition("@")
        if at and not version:
            raise CommandError(
                f"--task: {task!r} names no version: write {name}@VERSION, or {name} for all"
            )
        versions = TaskVersion.objects.filter(name=name).values_list("version", flat=True)
        if not versions:
            raise CommandError(f"--task: no task is called {name!r}: see the pages of tasks")
        if version and version not in versions:
            known = ", ".join(sorted(versions))
            raise CommandError(f"--task: {name} has no version {version!r}, only {known}")
        if model and not HubModel.objects.filter(repo_id=model).exists():
            raise CommandError(f"--model: no model {model!r} was submitted: give OWNER/NAME")
        runs = reruns.finished(task, model).select_related("variant", "task").order_by("finished")
        try:
            ordered = reruns.rerun(runs, by=getpass.getuser(), reason=options["reason"])
        except reruns.NoReason as problem:
            raise CommandError(f"--{problem}") from None
        count = len(ordered.queued)
        self.stdout.write(f"{count} {'run is' if count == 1 else 'runs are'} queued")
        for n, what in (
            (ordered.measured, "were measured by the newest version already"),
            (ordered.asked, "are waited for already"),
            (ordered.gone, "are asked so by no suite in the newest version"),
            (ordered.departed, "are of models that their authors took out of the ranking"),
        ):
            if n:
                self.stdout.write(f"{n} {what}")
