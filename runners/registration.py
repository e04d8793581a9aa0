"""A worker before the database: its name, which is its own while it lives; its row with what it can
hold, when it was seen and when it ended; and its patience where the database does not answer."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.models.functions import Now

from evalcore.model.hf.quantisation import installed_methods
from leaderboard.models import Worker
from leaderboard.models.variant import TRANSFORMERS
from runners import devices, sandboxed
from runners.cleanup import hold_lock
from runners.devices import CPU, Capacity, Gpu, NoSuchDevice

logger = logging.getLogger(__name__)


@contextmanager
def own_name(home: Path, gpus: Sequence[Gpu]) -> Iterator[str]:
    """`evaluate-cuda0@host` or `evaluate-cpu@host`, with a number where another has that.

    Jobs of an engine on one host may each have a GPU that they call 0, or some of its processors.
    The kernel lets go of the locks with the process. Raises NoSuchDevice for a GPU that another
    worker has.
    """
    host = socket.gethostname()
    # Celery takes a comma for the end of a name, and files of a broker have it in theirs.
    device = f"cuda{'+'.join(gpu.index for gpu in gpus)}" if gpus else CPU
    folder = home / "workers"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        for gpu in gpus:
            if not hold_lock(folder / _file_name(f"{host} {gpu.uuid}"), held):
                raise NoSuchDevice(
                    f"GPU {gpu.index} ({gpu.uuid}) has a worker already, whose files are in "
                    f"{home}: stop that, or name other devices"
                )
        for number in count(1):
            name = f"evaluate-{device}" + (f".{number}" if number > 1 else "") + f"@{host}"
            if hold_lock(folder / _file_name(name), held):
                break
        yield name


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.+@-]", "_", name) + ".lock"


LAST_WORDS = 3.0
"""Seconds for the database to hear that this worker ends."""


class Registration:
    """The row of one worker, from `announce` to `end`; `devices` are written as in `--devices`."""

    def __init__(self, name: str, devices: str) -> None:
        self._name = name
        self._devices = devices
        self._is_new = True
        self._holds: Capacity | None = None

    def announce(self, *, holds_a_model: bool = False) -> Worker:
        """Write that the worker lives and what is free on its devices, and return its row.

        What a kept model takes counts as free, since the worker gives it up for another: the row
        then has what was free before.
        """
        way = sandboxed.way_of_machine()
        holds = self._holds if holds_a_model else None
        holds = self._holds = holds or devices.capacity_of(self._devices, sandboxed.engine_python())
        store = partial(
            write_row,
            self._name,
            holds,
            sandboxed.backend(),
            runs_code=bool(settings.PLUMBLINE_TRUSTED_CODE) and way.namespaces,
            confinement=way.name,
            is_new=self._is_new,
        )
        worker = persistently(store)
        self._is_new = False
        return worker

    def end(self) -> None:
        """Write that the worker has ended. Without a database the age of its row shows it."""
        with suppress(DatabaseError, InterfaceError):
            persistently(self._write_end, seconds=LAST_WORDS)

    def _write_end(self) -> None:
        Worker.objects.filter(name=self._name).update(ended=Now())


def write_refusal(name: str, gpus: Sequence[Gpu], why: str) -> None:
    """Write that a worker can hold nothing, as its GPUs cannot be used.

    Without a database only the log says so: the worker has nothing to lose meanwhile.
    """
    nothing = Capacity(devices.device_name(gpus), memory_bytes=0, dtypes=())
    with suppress(DatabaseError, InterfaceError):
        write_row(name, nothing, sandboxed.backend(), refusal=why)


def write_row(
    name: str,
    holds: Capacity,
    backend: str = TRANSFORMERS,
    *,
    runs_code: bool = False,
    confinement: str = "",
    is_new: bool = False,
    refusal: str = "",
) -> Worker:
    """Write the worker's row, or its heartbeat where the row is there already."""
    columns = {
        "memory_bytes": holds.memory_bytes,
        "backend": backend,
        "dtypes": list(holds.dtypes),
        "quantisations": installed_methods(),
        "runs_code": runs_code,
        "confinement": confinement,
        "memory_in_use": devices.memory_in_use(holds.device, holds.memory_bytes),
        "seen": Now(),
        "ended": None,
        "refusal": refusal,
        **({"started": Now()} if is_new else {}),
    }
    # Pages name the device, so that only another one is written as such.
    if not Worker.objects.filter(name=name, device=holds.device).update(**columns):
        columns["device"] = holds.device
        Worker.objects.update_or_create(
            name=name, defaults=columns, create_defaults={**columns, "started": Now()}
        )
    return Worker.objects.get(name=name)


# Where the database does not answer, a worker connects again, and does what it would have. Every
# write for a claim is fenced by its token, so that doing one twice changes nothing: where the first
# was stored and only the answer was lost, the second finds the run no longer its own.

LONGEST_OUTAGE = 600.0
"""Seconds; a child works on meanwhile, and journals what it does."""
LAST_TRIES = 5.0
"""Seconds, where this process was asked to stop: what it holds is another's when its lease ends."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

Answer = TypeVar("Answer")

_hurries: list[float] = []


def hurry() -> None:
    """Have nothing in this process wait long for the database any more, which is to end."""
    _hurries.append(monotonic())


def persistently(ask: Callable[[], Answer], *, seconds: float = LONGEST_OUTAGE) -> Answer:
    """What `ask` gives, as soon as the database answers. Raises what it raised last."""
    until, pause = monotonic() + seconds, FIRST_PAUSE
    while True:
        try:
            return ask()
        except (OperationalError, InterfaceError) as problem:
            last = min([until, *(asked + LAST_TRIES for asked in _hurries)])
            if connection.in_atomic_block or monotonic() > last:
                raise
            logger.warning("the database does not answer, trying again: %s", problem)
            with suppress(OperationalError, InterfaceError):
                connection.close()
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
