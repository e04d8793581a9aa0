"""The operator's file of launches: which engine, which kinds of workers, within which budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evalcore.model.hf.quantisation import LIBRARIES
from leaderboard.models import Worker
from leaderboard.models.variant import NAMES, TRANSFORMERS, Dtype

ENGINES = ("kubernetes", "ray", "slurm")


class WrongFile(ValueError):
    """The file cannot be used; one sentence with field, value and remedy."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may never be exceeded; None is without a limit."""

    workers_at_once: int
    gpus_at_once: int | None = None
    gpu_hours_per_day: float | None = None
    money_per_day: float | None = None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Workers that can be asked for, and what one of them holds."""

    name: str
    gpus: int
    memory_bytes: int
    """For models, on all its GPUs together."""
    hours: float
    """After which the engine ends it."""
    price: float
    """Of an hour, in whatever money the budget is in."""
    idle_minutes: float
    """Without a run that fits, until it ends by itself."""
    dtypes: tuple[str, ...]
    quantisations: tuple[str, ...]
    backend: str
    runs_code: bool
    options: Mapping[str, Any] = field(hash=False)
    """What the engine is told of it."""

    def as_worker(self, memory_bytes: int | None = None) -> Worker:
        """A worker of this kind, to be held beside runs; `memory_bytes` where one said it has."""
        return Worker(
            name=self.name,
            memory_bytes=min(self.memory_bytes, memory_bytes or self.memory_bytes),
            dtypes=list(self.dtypes),
            quantisations=list(self.quantisations),
            backend=self.backend,
            runs_code=self.runs_code,
        )


@dataclass(frozen=True, kw_only=True)
class Configuration:
    engine: str
    options: Mapping[str, Any]
    after_minutes: float
    """Runs that some live worker could take wait so long before another is asked for."""
    show_up_minutes: float
    """A worker that was asked for and has not come after so long is given up."""
    budget: Budget
    kinds: tuple[Kind, ...]


def read(file: Path) -> Configuration:
    """Raises WrongFile."""
    try:
        stated = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise WrongFile(
            f"PLUMBLINE_LAUNCH={file}: {problem.strerror}: name a file that can be read"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        said = " ".join(str(problem).split())
        raise WrongFile(f"PLUMBLINE_LAUNCH={file}: no YAML: {said}: mend it there") from None
    fields = _Fields(stated, f"{file}")
    engine = fields.choice("engine", ENGINES)
    configuration = Configuration(
        engine=engine,
        options=fields.mapping("options"),
        after_minutes=fields.number("after_minutes", 15.0),
        show_up_minutes=fields.number("show_up_minutes", 60.0),
        budget=_budget(fields.part("budget")),
        kinds=tuple(_kind(part) for part in fields.parts("kinds")),
    )
    fields.end()
    names = [kind.name for kind in configuration.kinds]
    if len(set(names)) < len(names):
        raise WrongFile(f"{file}: kinds: {', '.join(names)}: give each a name of its own")
    return configuration


def _budget(fields: _Fields) -> Budget:
    budget = Budget(
        workers_at_once=fields.whole("workers_at_once"),
        gpus_at_once=fields.whole("gpus_at_once") if "gpus_at_once" in fields else None,
        gpu_hours_per_day=fields.number("gpu_hours_per_day", None),
        money_per_day=fields.number("money_per_day", None),
    )
    fields.end()
    return budget


def _kind(fields: _Fields) -> Kind:
    kind = Kind(
        name=fields.text("name"),
        gpus=fields.whole("gpus"),
        memory_bytes=int(fields.number("memory_gb") * 10**9),
        hours=fields.number("hours"),
        price=fields.number("price", 0.0),
        idle_minutes=fields.number("idle_minutes", 5.0),
        dtypes=fields.choices("dtypes", Dtype.values, Dtype.values),
        quantisations=fields.choices("quantisations", list(LIBRARIES), ()),
        backend=fields.choice("backend", tuple(NAMES), TRANSFORMERS),
        runs_code=fields.choice("runs_code", (True, False), False),
        options=fields.mapping("options"),
    )
    fields.end()
    return kind


class _Fields:
    """Of one mapping in the file, each to be read once; what is left over is a mistake."""

    def __init__(self, stated: Any, where: str) -> None:
        self._where = where
        if not isinstance(stated, dict):
            raise WrongFile(f"{where}: {stated!r}: write a mapping of names and values")
        self._left = dict(stated)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def part(self, name: str) -> _Fields:
        return _Fields(self._take(name, "a mapping"), f"{self._where}: {name}")

    def parts(self, name: str) -> list[_Fields]:
        parts = self._take(name, "a list")
        if not isinstance(parts, list) or not parts:
            raise self._wrong(name, parts, "a list with one kind of workers at least")
        return [_Fields(part, f"{self._where}: {name}[{n}]") for n, part in enumerate(parts)]

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._left.pop(name, None) or {}
        if not isinstance(value, dict):
            raise self._wrong(name, value, "a mapping of names and values")
        return value

    def text(self, name: str) -> str:
        value = self._take(name, "a short name")
        if not isinstance(value, str) or not 0 < len(value) <= 64:
            raise self._wrong(name, value, "a name of at most 64 characters")
        return value

    def whole(self, name: str) -> int:
        value = self._take(name, "a whole number")
        if type(value) is not int or value < 0:
            raise self._wrong(name, value, "a whole number from 0 on")
        return value

    def number(self, name: str, default: Any = ...) -> Any:
        if default is not ... and name not in self._left:
            return default
        value = self._take(name, "a number")
        if type(value) not in (int, float) or not (math.isfinite(value) and value >= 0):
            raise self._wrong(name, value, "a number from 0 on")
        return float(value)

    def choice(self, name: str, known: Any, default: Any = ...) -> Any:
        if default is not ... and name not in self._left:
            return default
        value = self._take(name, f"one of {', '.join(map(str, known))}")
        if value not in known or type(value) is not type(known[0]):
            raise self._wrong(name, value, f"one of {', '.join(map(str, known))}")
        return value

    def choices(self, name: str, known: Any, default: Any) -> tuple[str, ...]:
        value = self._left.pop(name, list(default))
        if not isinstance(value, list) or not set(map(str, value)) <= set(known):
            raise self._wrong(name, value, f"a list of some of {', '.join(known)}")
        return tuple(value)

    def end(self) -> None:
        for name, value in self._left.items():
            raise self._wrong(name, value, "nothing: no such name is known here")

    def _take(self, name: str, expected: str) -> Any:
        if name not in self._left:
            raise WrongFile(f"{self._where}: {name} is missing: expected {expected}")
        return self._left.pop(name)

    def _wrong(self, name: str, value: Any, expected: str) -> WrongFile:
        return WrongFile(f"{self._where}: {name}: {value!r}: expected {expected}")
