"""Energy by the machine's own counters: of its processors (RAPL) and of the GPUs in use (NVML).

A counter is of a whole part of the machine, so whatever else ran there meanwhile is in it. Nothing
is estimated here: a part without a counter that can be read is not in the sum, and a model on a GPU
without one is not measured at all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

POWERCAP = Path("/sys/class/powercap")
Part = tuple[str, str]
"""Source and name, such as ("RAPL", "package-0")."""


@runtime_checkable
class Placed(Protocol):
    """A model that knows what it computes on; where another one does, nobody can tell."""

    @property
    def accelerators(self) -> Sequence[str]:
        """UUIDs of the GPUs that hold it, as NVML writes them; empty texts for those of another
        maker, and none where the processor computes."""
        ...


class Unreadable(Exception):
    """This counter says nothing, or nothing any more."""


@dataclass(frozen=True)
class Counter:
    """Energy of one part of the machine since some time in the past."""

    part: Part
    joules_a_step: float
    value: Callable[[], int]
    """How many steps it counted. Raises Unreadable."""
    steps: int | None = None
    """How many steps there are before it begins at 0 again; None where it never does."""


class Meter:
    """Joules of each part since it was made. Counters begin at 0 again, so it is read often."""

    def __init__(self, counters: Sequence[Counter] = ()) -> None:
        self._counters: dict[Part, Counter] = {}
        self._last: dict[Part, int] = {}
        self._joules: dict[Part, float] = {}
        for counter in counters:
            try:
                self._last[counter.part] = counter.value()
            except Unreadable:
                continue
            self._counters[counter.part] = counter
            self._joules[counter.part] = 0.0

    @classmethod
    def of(cls, model: object, powercap: Path = POWERCAP) -> Meter:
        """Of the parts that this model computes on; of none where one of its GPUs has no counter.

        The sum would otherwise be of the processor alone, and pass for the whole.
        """
        if not isinstance(model, Placed):
            return cls()
        try:
            gpus = [*gpu_counters(model.accelerators)]
        except Unreadable:
            return cls()
        return cls([*gpus, *processor_counters(powercap)])

    def read(self) -> dict[Part, float]:
        """By part the joules so far, without those whose counter can be followed no more."""
        for part, counter in list(self._counters.items()):
            try:
                now = counter.value()
                steps = _steps(self._last[part], now, counter.steps)
            except Unreadable:
                del self._counters[part], self._joules[part]
                continue
            self._last[part] = now
            self._joules[part] += steps * counter.joules_a_step
        return dict(self._joules)


def _steps(last: int, now: int, steps: int | None) -> int:
    if now >= last:
        return now - last
    if steps is None:
        raise Unreadable("the counter was reset")
    return now - last + steps


def processor_counters(powercap: Path = POWERCAP) -> Iterator[Counter]:
    """Processor packages, and the memory where it is counted apart: no zone is in another's count.

    Not the cores, which are in their package, nor the whole board, in which the packages are.
    """
    for zone in sorted(powercap.glob("intel-rapl:*")):
        # Of a zone within a zone the name has a second number.
        within = zone.name.count(":") > 1
        try:
            name = (zone / "name").read_text().strip()
            steps = int((zone / "max_energy_range_uj").read_text())
            if within and name == "dram":
                package = (powercap / zone.name.rpartition(":")[0] / "name").read_text().strip()
                name = f"{package} memory"
            elif within or not name.startswith("package"):
                continue
        except (OSError, ValueError):
            continue
        yield Counter(("RAPL", name), 1e-6, partial(_microjoules, zone), steps)


def _microjoules(zone: Path) -> int:
    try:
        return int((zone / "energy_uj").read_text())
    except (OSError, ValueError) as problem:
        raise Unreadable(str(problem)) from problem


def gpu_counters(uuids: Sequence[str]) -> Iterator[Counter]:
    """Those of these GPUs, by the library that comes with their driver. Raises Unreadable."""
    if not uuids:
        return
    try:
        library: Any = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as problem:
        raise Unreadable(str(problem)) from problem
    if library.nvmlInit_v2():
        raise Unreadable("NVML cannot be used here")
    for place, uuid in enumerate(uuids):
        handle, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
            raise Unreadable(f"NVML does not know the GPU {uuid}")
        library.nvmlDeviceGetName(handle, name, ctypes.c_uint(len(name)))
        number = f" ({place + 1})" if len(uuids) > 1 else ""
        value = partial(_millijoules, library, handle)
        value()
        yield Counter(("NVML", name.value.decode() + number), 1e-3, value)


def _millijoules(library: Any, handle: ctypes.c_void_p) -> int:
    """Since the GPU's driver was loaded."""
    value = ctypes.c_ulonglong()
    if library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(value)):
        raise Unreadable("NVML does not count the energy of this GPU")
    return int(value.value)
