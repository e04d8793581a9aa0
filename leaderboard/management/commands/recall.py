"""Recall wrong results: `manage.py recall --engine VERSION --reason TEXT [--dry-run]`."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.corrections import recalls, reports
from leaderboard.models import Recall, Run

LISTED = 40


class Command(BaseCommand):
    help = (
        "Take results from every board, rank and average at once, mark them, and queue them to be "
        "measured again; or undo that. Everybody reads the reason on the page of corrections."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--engine", nargs="+", metavar="VERSION", help="all that it computed")
        what.add_argument("--task", nargs="+", metavar="NAME@VERSION", help="all of this version")
        what.add_argument(
            "--runs", nargs="+", metavar="ID", help="IDs of runs, or SHA-256 of their files"
        )
        what.add_argument("--undo", type=int, metavar="NUMBER", help="let a recall's results stand")
        what.add_argument("--again", type=int, metavar="NUMBER", help="queue what is not queued")
        parser.add_argument("--reason", default="", help="one sentence, shown to everybody")
        parser.add_argument("--dry-run", action="store_true", help="only list what is concerned")

    def handle(self, *_args: Any, **options: Any) -> None:
        by = getpass.getuser()
        try:
            for kind in Recall.Kind.values:
                if options[kind]:
                    return self._recall(kind, options[kind], by, options)
            for name in ("undo", "again"):
                if options[name] is not None:
                    self._of_recall(name, options[name], by, options)
        except reports.Refused as problem:
            raise CommandError(f"--{problem}") from None

    def _recall(self, kind: str, named: list[str], by: str, options: dict[str, Any]) -> None:
        if options["dry_run"]:
            self._list(kind, named)
            return
        made, taken = recalls.recall(
            kind, named, reason=options["reason"], by=by, progress=self._progress
        )
        self.stdout.write(f"recall {made.pk} took {taken.words}")
        self._queued(taken.queued)

    def _list(self, kind: str, named: list[str]) -> None:
        found = recalls.look(kind, named)
        stand = recalls.free_runs(kind, named).filter(state=Run.State.DONE)
        stand = stand.select_related("variant__hub_model", "task")
        for run in stand.order_by("variant__hub_model__repo_id", "task__name", "pk")[:LISTED]:
            self.stdout.write(f"{run.pk}  {run.variant.hub_model.repo_id}  {run.task}")
        if found.stand > LISTED:
            self.stdout.write(f"and {found.stand - LISTED} more")
        self.stdout.write(f"{found.words} would be recalled; nothing was changed")

    def _of_recall(self, name: str, number: int, by: str, options: dict[str, Any]) -> None:
        made = Recall.objects.filter(pk=number).first()
        if made is None:
            raise CommandError(f"--{name}: there is no recall {number}; /corrections lists all")
        if options["dry_run"]:
            n = made.runs.count()
            self.stdout.write(f"recall {number} holds {n} results; nothing was changed")
        elif name == "undo":
            n = recalls.undo(made, reason=options["reason"], by=by)
            self.stdout.write(f"recall {number} is undone: results that stand again: {n}")
        else:
            self._queued(recalls.again(made, by=by, progress=self._progress))

    def _progress(self, done: str, n: int, total: int) -> None:
        self.stdout.write(f"{n:,} of {total:,} runs {done}")

    def _queued(self, n: int) -> None:
        self.stdout.write(f"{n} {'run is' if n == 1 else 'runs are'} queued to measure again")
