"""What the process that evaluates and the copies of its model tell one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcore.errors import EvalError
from evalcore.model.base import EncodedRequest, Mode, ModelInfo, Response


@dataclass(frozen=True, kw_only=True)
class Part:
    """Which part of a model a process holds, where several hold one together."""

    rank: int
    size: int
    meeting: Path
    """A file by which they find one another."""


@dataclass(frozen=True, kw_only=True)
class Loading:
    """The model to load, as a command names it."""

    backend: str
    arguments: Mapping[str, Any]
    batch_size: int | None
    device: str | None
    mode: Mode
    part: Part | None = None
    """None: the whole model."""


@dataclass(frozen=True)
class Loaded:
    """It is loaded."""

    info: ModelInfo
    accelerators: Sequence[str]
    """As of `evalcore.energy.Placed`."""


@dataclass(frozen=True)
class Share:
    """Requests to answer."""

    number: int
    requests: Sequence[EncodedRequest]


@dataclass(frozen=True)
class Unwanted:
    """No answer is wanted any more to shares of this number or a lower one."""

    number: int


@dataclass(frozen=True)
class Pack:
    """Some answers to a share, each with its index in it."""

    share: int
    answers: Sequence[tuple[int, Response]]


@dataclass(frozen=True)
class Done:
    """All answers to a share are given, or none is wanted any more."""

    share: int
    execution: Mapping[str, Mapping[str, Any]]
    first_forward: float | None
    """By `time.monotonic`, which is the same in all processes of a machine."""


@dataclass(frozen=True)
class Failed:
    """The model could not be loaded (share 0), or a share not be answered."""

    share: int
    kind: type[EvalError]
    reason: str


Told = Loaded | Pack | Done | Failed
"""What a copy says."""
