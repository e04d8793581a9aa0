"""`python -m runners worker`: claims runs that fit its devices, and evaluates them.

It needs the database, PLUMBLINE_HOME and, to hear of new runs at once, the broker. Whoever starts
such workers (a tree, Slurm, Kubernetes) never owns the queue: each claims by lease as all do.
"""

from __future__ import annotations

import argparse
import logging
import math
import signal
import sys
import threading
from functools import partial
from time import monotonic

import django
from django.conf import settings

from runners import devices
from runners.devices import NoSuchDevice

logger = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds: what a lost hint costs at most."""
AFTER_A_FAULT = 30.0
BETWEEN_TRIES = 60.0
"""Seconds until a GPU that could not be used is tried again."""
STAYS = 10.0
"""Minutes without a run after which `--until-idle` ends a worker."""
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
"""Slurm by submitit says with USR2 that a job's time is nearly over."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--devices",
        default="",
        metavar="0,1|cpu",
        help="its GPUs by index or UUID, or the processor; without: all GPUs that there are",
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--drain", action="store_true", help="end as soon as nothing that waits fits")
    end.add_argument(
        "--until-idle",
        nargs="?",
        type=_minutes,
        const=STAYS,
        metavar="MINUTES",
        help=f"end when nothing has fitted for so long; {STAYS:.0f} where no number is given",
    )


def main(options: argparse.Namespace) -> int:
    """Until it is asked to stop, or to the end that `options` name; 1 where it cannot begin."""
    stopping = threading.Event()
    for number in STOPS:
        signal.signal(number, lambda *_: stopping.set())
    django.setup()
    from runners import confinement, driver, reconnect, registration
    from runners.own_name import own_name

    def stop(*_: object) -> None:
        stopping.set()
        reconnect.hurry()

    for number in STOPS:
        signal.signal(number, stop)

    if why := confinement.refusal():
        sys.stderr.write(f"plumbline: {why}\n")
        return 1
    try:
        gpus = devices.chosen(options.devices)
        with own_name(settings.PLUMBLINE_HOME, gpus) as name:
            devices.keep_to(gpus)
            if gpus:
                driver.make_devices()
            while gpus and (why := driver.refusal()):
                sys.stderr.write(f"plumbline: --devices {devices.stated(gpus)}: {why}\n")
                if options.drain or options.until_idle is not None:
                    return 1
                registration.refuse(name, gpus, why)
                # The site in the same tree, and other workers, go on.
                if stopping.wait(BETWEEN_TRIES):
                    return 0
            work(name, devices.stated(gpus), options, stopping)
    except NoSuchDevice as problem:
        sys.stderr.write(f"plumbline: --devices: {problem}\n")
        return 1
    return 0


def work(name: str, stated: str, options: argparse.Namespace, stopping: threading.Event) -> None:
    """Claim, evaluate, and wait where nothing fits."""
    from leaderboard.queue import claims
    from runners.execute import evaluate_claim
    from runners.hints import Hints
    from runners.housekeeping import Sweeper
    from runners.kept import Keeper
    from runners.reconnect import persistently
    from runners.registration import Registration

    longest = 0.0 if options.drain else (options.until_idle or math.inf) * 60
    with (
        Registration(name, stated) as here,
        Hints(stopping) as hints,
        Keeper() as keeper,
        Sweeper(stopping) as sweeper,
    ):
        sweeper.sweep_if_due()
        busy = monotonic()
        while not stopping.is_set():
            try:
                worker = here.announce(holds_a_model=keeper.holds_a_model)
                claim = persistently(partial(claims.claim_next, worker))
                if claim is not None:
                    hints.close()
                    evaluate_claim(claim, worker, stopping, keeper)
                    busy = monotonic()
                    continue
            except Exception:
                # What it was about is released with its lease; this worker may do other things.
                logger.exception("%s goes on after a fault", name)
                stopping.wait(AFTER_A_FAULT)
            if monotonic() - busy >= longest:
                logger.info("%s ends: nothing that waits fits it", name)
                break
            keeper.release_idle()
            sweeper.sweep_if_due()
            hints.wait(LOOK_EVERY)


def _minutes(stated: str) -> float:
    minutes = float(stated)
    if not (math.isfinite(minutes) and minutes > 0):
        raise ValueError(stated)
    return minutes
