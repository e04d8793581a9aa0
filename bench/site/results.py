"""What the benchmark of the site found, and on what; kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Times:
    """Of a number of answers, in seconds."""

    n: int
    median: float
    p95: float
    p99: float
    longest: float
    errors: int


@dataclass(frozen=True)
class Row:
    """One kind of page, alone on the server: one request after the other."""

    kind: str
    goal: float | None
    cold: Times
    """Each address for the first time since the server started or the board changed."""
    repeated: Times
    bytes: int
    """Of the largest answer, as sent."""
    compressed: bool
    queries: int
    """The most that one of them asks the database, cold."""

    @property
    def errors(self) -> int:
        return self.cold.errors + self.repeated.errors


@dataclass(frozen=True)
class Load:
    """Requests of all kinds at a steady rate."""

    rate: float
    seconds: float
    times: Times
    by_kind: Mapping[str, Times]
    shares: Mapping[str, int]
    """Of each kind in the mix, in percent."""
    cores: Mapping[str, float]
    """Who took which share of all cores: load generator, site, PostgreSQL, worker, everything
    else."""
    refused: int = 0
    """Those of the errors that were told at once to come again (503)."""


@dataclass(frozen=True)
class Results:
    """Of one run on one machine."""

    machine: str
    versions: Mapping[str, str]
    postgresql: Mapping[str, str]
    date: str
    minutes: float
    server: str
    """Its processes and threads."""
    models: int
    columns: int
    rows: Mapping[str, int]
    """By table."""
    generation: Mapping[str, float]
    """Seconds of each part."""
    after_start: Times
    """The first page, asked for once after each of several starts of the server."""
    kinds: Sequence[Row]
    loads: Sequence[Load]
    """At rising rates."""
    memory: int
    """Bytes of the site's processes after all of it."""
    boards_after_start: Mapping[str, float]
    """By style, in the order of their building: seconds until a process that has just started has
    built each board ..."""
    boards_after_run: Mapping[str, float]
    """... and until each shows that one run has ended, in a process that built them before."""
    beside_worker: Load | None = None
    """At the highest rate, while a worker on the same machine evaluates; None: not measured yet."""

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        found = json.loads(path.read_text())
        found["after_start"] = Times(**found["after_start"])
        found["kinds"] = [
            Row(**{**row, "cold": Times(**row["cold"]), "repeated": Times(**row["repeated"])})
            for row in found["kinds"]
        ]
        found["loads"] = [_load(load) for load in found["loads"]]
        if beside := found.get("beside_worker"):
            found["beside_worker"] = _load(beside)
        return cls(**found)


def _load(found: Mapping[str, Any]) -> Load:
    by_kind = {kind: Times(**one) for kind, one in found["by_kind"].items()}
    return Load(**{**found, "times": Times(**found["times"]), "by_kind": by_kind})
