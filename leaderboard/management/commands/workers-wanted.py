"""`manage.py workers-wanted --memory BYTES`: how many workers to start (docs/scaling.md)."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any

import sqlparse
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, connection

from evalcore.model.hf.quantisation import LIBRARIES
from leaderboard.models import Worker
from leaderboard.models.variant import NAMES, TRANSFORMERS, Dtype
from leaderboard.queue import wanted

MAX_BYTES = Worker.memory_bytes.field.MAX_BIGINT


class Command(BaseCommand):
    help = (
        "Print how many more workers of a kind the waiting runs could use: models that wait and "
        "fit such a worker, less the idle workers that may take them. 0 while all workers are "
        "paused or drained."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # A mistake is told in one line, for who reads it in a mail of cron's.
        return super().create_parser(prog_name, subcommand, usage=argparse.SUPPRESS, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--memory", metavar="BYTES", help="for models, on all GPUs of one worker together"
        )
        parser.add_argument(
            "--backend",
            default=TRANSFORMERS,
            help=f"what its workers compute models with: {' or '.join(NAMES)} (%(default)s)",
        )
        parser.add_argument(
            "--dtypes",
            default=",".join(Dtype.values),
            metavar="NAME,NAME",
            help="what they compute in (%(default)s)",
        )
        parser.add_argument(
            "--quantisations",
            default="",
            metavar="NAME,NAME",
            help=f"methods of quantised weights whose libraries they have: {', '.join(LIBRARIES)} "
            "(none)",
        )
        parser.add_argument(
            "--runs-code", action="store_true", help="they take models with code of their own"
        )
        parser.add_argument(
            "--sql", action="store_true", help="print the query in PostgreSQL's SQL instead"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        kind = Worker(
            memory_bytes=_bytes(options["memory"]),
            backend=_chosen("backend", options["backend"], NAMES)[0],
            dtypes=_chosen("dtypes", options["dtypes"], Dtype.values),
            quantisations=_chosen("quantisations", options["quantisations"], LIBRARIES),
            runs_code=options["runs_code"],
        )
        if options["sql"] and connection.vendor != "postgresql":
            raise CommandError("--sql: the site's database is not PostgreSQL, which KEDA asks")
        try:
            if options["sql"]:
                sql = wanted.workers_wanted_sql(kind)
                self.stdout.write(sqlparse.format(sql, reindent=True))
            else:
                self.stdout.write(str(wanted.workers_wanted(kind)))
        except OperationalError as problem:
            message = " ".join(str(problem).split())
            raise CommandError(f"the database does not answer: {message}") from None


def _bytes(option: str | None) -> int:
    if option and option.isascii() and option.isdigit() and 0 < int(option) <= MAX_BYTES:
        return int(option)
    stated = "is missing" if option is None else f"is {option!r}"
    raise CommandError(f"--memory {stated}: give a number of bytes, such as 79000000000")


def _chosen(option: str, stated: str, known: Collection[str]) -> list[str]:
    names = [name.strip() for name in stated.split(",")] if stated.strip() else []
    for name in names:
        if name not in known:
            raise CommandError(f"--{option} {stated!r}: {name!r} is none of {', '.join(known)}")
    if not names and option != "quantisations":
        raise CommandError(f"--{option} is empty: name one or more of {', '.join(known)}")
    return names
