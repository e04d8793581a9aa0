"""How much energy a run took: as the machine's counters say, or else as far as can be estimated.

The engine records what the counters of GPUs and processors went up by while the model answered
(evalcore/energy.py). Where none could be read, what is given is an estimate and says so: the power
that the GPU's maker rates it at, times how long the run computed. The rest of the machine is not in
it, and nothing is said of a device whose rating is not in the list. What either means in CO₂
depends on where the power came from, which nobody told us.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evalcore.record import RunRecord

JOULES = 3_600_000
"""In a kilowatt hour."""

# Watts by the name that the driver reports: the board power in the makers' data sheets.
RATED_WATTS = {
    "NVIDIA H200": 700,
    "NVIDIA H100 80GB HBM3": 700,
    "NVIDIA H100 PCIe": 350,
    "NVIDIA A100-SXM4-80GB": 400,
    "NVIDIA A100-SXM4-40GB": 400,
    "NVIDIA A100 80GB PCIe": 300,
    "NVIDIA A100-PCIE-40GB": 250,
    "NVIDIA L40S": 350,
    "NVIDIA L40": 300,
    "NVIDIA L4": 72,
    "NVIDIA A40": 300,
    "NVIDIA RTX A6000": 300,
    "NVIDIA GeForce RTX 4090": 450,
    "NVIDIA GeForce RTX 3090": 350,
    "Tesla T4": 70,
}


@dataclass(frozen=True)
class Measured:
    """Kilowatt hours by counters, and of which parts of the machine they are."""

    kilowatt_hours: float
    parts: tuple[str, ...]


def measured(record: RunRecord) -> Measured | None:
    """What the record says that counters counted; None where it has none."""
    if not record.energy:
        return None
    joules = sum(one["joules"] for one in record.energy)
    parts = tuple(f"{one['part']} ({one['source']})" for one in record.energy)
    return Measured(joules / JOULES, parts)


@dataclass(frozen=True)
class Estimate:
    """Kilowatt hours if devices of this rated power (watts, all together) never rested."""

    kilowatt_hours: float
    watts: int


def estimate(device: str, seconds: float) -> Estimate | None:
    """Of a worker's device, as in "2 x NVIDIA L4"; None where its rated power is not known."""
    match = re.fullmatch(r"([1-9][0-9]*) x (.+)", device)
    rated = RATED_WATTS.get(match[2]) if match else None
    if match is None or rated is None:
        return None
    watts = int(match[1]) * rated
    return Estimate(watts * seconds / JOULES, watts)
