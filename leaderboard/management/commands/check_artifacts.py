"""`manage.py check_artifacts`: is every stored file what its row says, and has every file a row?"""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from leaderboard.samples import checking, store


class Command(BaseCommand):
    help = (
        "Compare every artifact and board with its file, by size and digest, and find files that "
        "nothing names. One line for each fault, with what to do; exit status 1 where there is one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--collect",
            action="store_true",
            help="remove files that nothing names and that are older than a day",
        )

    def handle(self, *_args: Any, collect: bool, **_options: Any) -> None:
        found = 0
        for fault in checking.faults():
            shown = store.storage().shown(fault.name)
            if collect and fault.remedy == checking.OF_NOBODY and checking.collect(fault.name):
                self.stdout.write(f"{shown}: removed")
                continue
            found += 1
            self.stdout.write(f"{shown}: {fault.wrong}: {fault.remedy}")
        self.stdout.write(f"{found} fault{'' if found == 1 else 's'}")
        if found:
            sys.exit(1)
