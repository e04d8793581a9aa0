"""What a run of the bench found, with the machine and versions it found it on; kept as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.equality import Difference
from bench.profiling import Profile
from bench.scaling import Point
from bench.sidebyside import Conditions, Row, Side
from bench.timing import Comparison

PACKAGES = ("lm_eval", "torch", "transformers", "tokenizers")


@dataclass(frozen=True)
class Results:
    """Of one run on one machine."""

    machine: str
    """Processor, memory and GPU; neither a name nor a place of the machine."""
    versions: Mapping[str, str]
    date: str
    minutes: float
    """By the clock, of the whole run."""
    conditions: Conditions
    models: Mapping[str, int]
    """Parameters, by name."""
    rows: Sequence[Row]
    points: Sequence[Point]
    profiles: Sequence[Profile]
    comparisons: Sequence[Comparison]
    """Work that needs no model."""

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        found = json.loads(path.read_text())
        found["conditions"] = _of(Conditions, found["conditions"])
        found["rows"] = [_row(row) for row in found["rows"]]
        found["points"] = [_of(Point, point) for point in found["points"]]
        found["profiles"] = [_of(Profile, profile) for profile in found["profiles"]]
        found["comparisons"] = [_of(Comparison, comparison) for comparison in found["comparisons"]]
        return cls(**found)


def _row(found: dict[str, Any]) -> Row:
    for name in ("ours", "theirs"):
        side = found[name]
        side["difference"] = _of(Difference, side["difference"])
        found[name] = _of(Side, side)
    row: Row = _of(Row, found)
    return row


def _of(kind: Any, found: Mapping[str, Any]) -> Any:
    """A dataclass of JSON, whose lists were tuples."""
    names = [field.name for field in fields(kind)]
    values = {name: found[name] for name in names}
    return kind(
        **{name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
    )


def machine(gpu: str | None) -> str:
    """The processor, how many of it, its memory, and the GPU."""
    parts = [f"{_processor()}, {os.cpu_count()} cores"]
    if hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        parts.append(f"{memory / 2**30:.0f} GiB of memory")
    if gpu:
        parts.append(gpu)
    return ", ".join(parts)


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.is_file():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    from evalcore import __version__

    found = {name: version(name) for name in PACKAGES}
    return {"evalcore": __version__, "Python": platform.python_version(), **found}


def today() -> str:
    return datetime.now(UTC).date().isoformat()
