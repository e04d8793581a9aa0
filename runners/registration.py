"""A worker's name, which is its own while it lives, and its row: what it can hold, when it was seen
and when it ended."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from time import time

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models.functions import Now

from evalcore.model.hf.quantisation import installed_methods
from leaderboard.models import Worker
from leaderboard.models.variant import TRANSFORMERS
from runners import backends, devices, sandboxed
from runners.devices import CPU, Capacity, Gpu, NoSuchDevice
from runners.reconnect import persistently


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
            if not _lock(folder / _file_name(f"{host} {gpu.uuid}"), held):
                raise NoSuchDevice(
                    f"GPU {gpu.index} ({gpu.uuid}) has a worker already, whose files are in "
                    f"{home}: stop that, or name other devices"
                )
        for number in count(1):
            name = f"evaluate-{device}" + (f".{number}" if number > 1 else "") + f"@{host}"
            if _lock(folder / _file_name(name), held):
                break
        yield name


def forget_names(home: Path, unused_for: timedelta) -> int:
    """Remove the locks that no worker has held for so long; returns how many."""
    gone = 0
    for file in (home / "workers").glob("*.lock"):
        with ExitStack() as held, suppress(FileNotFoundError):
            is_old = time() - file.stat().st_mtime > unused_for.total_seconds()
            if is_old and _lock(file, held):
                file.unlink()
                gone += 1
    return gone


def _lock(file: Path, held: ExitStack) -> bool:
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        # Of a file that was forgotten in between, another could have its own in this place.
        if _lies_there(file, lock):
            break
        os.close(lock)
    os.utime(lock)
    held.callback(os.close, lock)
    return True


def _lies_there(file: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    return False


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
        holds = self._holds if holds_a_model else None
        holds = self._holds = holds or devices.capacity_of(self._devices, backends.python())
        tell = partial(
            write,
            self._name,
            holds,
            backends.backend(),
            runs_code=bool(settings.PLUMBLINE_TRUSTED_CODE) and sandboxed.here().namespaces,
            confinement=sandboxed.here().name,
            is_new=self._is_new,
        )
        worker = persistently(tell)
        self._is_new = False
        return worker

    def end(self) -> None:
        """Write that the worker has ended. Without a database the age of its row shows it."""
        with suppress(DatabaseError, InterfaceError):
            persistently(self._write_end, seconds=LAST_WORDS)

    def _write_end(self) -> None:
        Worker.objects.filter(name=self._name).update(ended=Now())


def refuse(name: str, gpus: Sequence[Gpu], why: str) -> None:
    """Write that a worker can hold nothing, as its GPUs cannot be used.

    Without a database only the log says so: the worker has nothing to lose meanwhile.
    """
    nothing = Capacity(devices.device_name(gpus), memory_bytes=0, dtypes=())
    with suppress(DatabaseError, InterfaceError):
        write(name, nothing, backends.backend(), refusal=why)


def write(
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
