"""The workers, and what they are told: `manage.py pool pause --worker NAME --why TEXT`."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, Q

from leaderboard.models import PoolOrder, Run, Worker
from leaderboard.queue import estimate, orders


class Command(BaseCommand):
    help = "List the workers; or pause, drain or resume one of them, or all."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "order",
            nargs="?",
            choices=(*PoolOrder.Kind.values, orders.RESUME),
            help="pause: take nothing new; drain: give back what is begun, too; resume: go on",
        )
        parser.add_argument("--worker", help="its name; without: all")
        parser.add_argument("--why", default="", help="one sentence for the page of workers")

    def handle(self, *_args: Any, **options: Any) -> None:
        order, named = options["order"], options["worker"]
        # A script's variable that is not set must not drain the whole pool.
        if named is not None and not named.strip():
            raise CommandError(
                "--worker: the name is empty: name one that `manage.py pool` lists, "
                "or leave the option out for all of them"
            )
        if order is None:
            self._list()
            return
        worker = orders.EVERYBODY if named is None else named
        try:
            if order == orders.RESUME:
                if not orders.lift(worker):
                    self.stdout.write(f"{worker or 'the pool'} had no order")
            else:
                orders.give(order, worker, by=getpass.getuser(), why=options["why"])
        except orders.NoSuchWorker as problem:
            raise CommandError(f"--worker: {problem}") from None
        standing = orders.standing(worker)
        said = f"{standing.get_kind_display().lower()}" if standing else "at work"
        self.stdout.write(f"{worker or 'all workers'}: {said}")

    def _list(self) -> None:
        running = Count("runs", filter=Q(runs__state=Run.State.RUNNING))
        workers = list(Worker.objects.annotate(held=running).order_by("name"))
        told = orders.by_name([orders.EVERYBODY, *(worker.name for worker in workers)])
        if everybody := told.get(orders.EVERYBODY):
            self.stdout.write(f"all workers: {everybody.get_kind_display().lower()}")
        now = estimate.database_now()
        for worker in workers:
            silent = now - worker.seen
            state = "alive" if silent <= estimate.ALIVE else "not seen lately"
            state = "cannot work" if worker.refusal and state == "alive" else state
            state = "ended" if worker.ended else state
            order = told.get(worker.name)
            words = [
                worker.name,
                worker.device,
                state + (f", {order.get_kind_display().lower()}" if order else ""),
                f"{worker.held} running",
                f"seen {worker.seen:%Y-%m-%d %H:%M:%S} UTC",
                *([worker.refusal] if state == "cannot work" else []),
            ]
            self.stdout.write("\t".join(words))
        if not workers:
            self.stdout.write("no worker was seen yet")
