"""A worker's row: what it holds now, that it lives, and that it ended when it did."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from django.db import DatabaseError, InterfaceError
from django.db.models.functions import Now

from evalcore.model.hf.quantisation import installed_methods
from leaderboard.models import Worker
from leaderboard.models.variant import TRANSFORMERS
from runners import backends, capacity, confinement, occupancy, trusted_code
from runners.capacity import Capacity
from runners.devices import Gpu
from runners.reconnect import persistently

LAST_WORDS = 3.0
"""Seconds for the database to hear that this worker ends."""


class Registration:
    """Of one worker on its devices, as `--devices` has them, from `announce` to `end`."""

    def __init__(self, name: str, devices: str) -> None:
        self._name = name
        self._devices = devices
        self._is_new = True
        self._holds: Capacity | None = None

    def announce(self, *, holds_a_model: bool = False) -> Worker:
        """Say that it lives and what is free on its devices now, which the row is returned with.

        What a model takes that the worker `holds` and will give up for another counts as free: it
        says what it said before it had it.
        """
        holds = self._holds if holds_a_model else None
        holds = self._holds = holds or capacity.now(self._devices, backends.python())
        tell = partial(
            write,
            self._name,
            holds,
            backends.backend(),
            runs_code=trusted_code.runs_code(),
            confinement=confinement.here().name,
            is_new=self._is_new,
        )
        worker = persistently(tell)
        self._is_new = False
        return worker

    def end(self) -> None:
        """Say that it is gone. Without a database its row says so by its age."""
        with suppress(DatabaseError, InterfaceError):
            persistently(self._write_end, seconds=LAST_WORDS)

    def _write_end(self) -> None:
        Worker.objects.filter(name=self._name).update(ended=Now())


def refuse(name: str, gpus: Sequence[Gpu], why: str) -> None:
    """Say that a worker is here and can hold nothing, as its GPUs cannot be used.

    Without a database nobody is told but the log: the worker has nothing to lose meanwhile.
    """
    nothing = Capacity(capacity.called(gpus), memory_bytes=0, dtypes=())
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
    told = {
        "memory_bytes": holds.memory_bytes,
        "backend": backend,
        "dtypes": list(holds.dtypes),
        "quantisations": installed_methods(),
        "runs_code": runs_code,
        "confinement": confinement,
        "memory_in_use": occupancy.now(holds.device, holds.memory_bytes),
        "seen": Now(),
        "ended": None,
        "refusal": refusal,
        **({"started": Now()} if is_new else {}),
    }
    # Pages name the device, so that only another one is written as such.
    if not Worker.objects.filter(name=name, device=holds.device).update(**told):
        told["device"] = holds.device
        Worker.objects.update_or_create(
            name=name, defaults=told, create_defaults={**told, "started": Now()}
        )
    return Worker.objects.get(name=name)
