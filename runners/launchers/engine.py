"""What an engine that starts workers is asked, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol
from uuid import UUID

from runners.launchers.kinds import Configuration, Kind, WrongFile

CLASSES = {
    "kubernetes": "runners.launchers.kubernetes_jobs:KubernetesJobs",
    "ray": "runners.launchers.ray_jobs:RayJobs",
    "slurm": "runners.launchers.slurm:Slurm",
}


class EngineTrouble(Exception):
    """The engine did not do what it was asked; one sentence says why."""


class NoAnswer(EngineTrouble):
    """Whether the engine did what it was asked is not known."""


def name_of(launch: UUID) -> str:
    """What a worker is called in the engine's own list, for people and for who lost its handle."""
    return f"plumbline-{launch}"


@dataclass(frozen=True)
class Order:
    """One worker that is asked for."""

    launch: UUID
    kind: Kind

    @property
    def name(self) -> str:
        return name_of(self.launch)

    @property
    def arguments(self) -> list[str]:
        """After `python`: the command that every engine starts."""
        idle = self.kind.idle_minutes
        ends = ["--until-idle", f"{idle:g}"] if idle else ["--drain"]
        devices = [] if self.kind.gpus else ["--devices", "cpu"]
        return ["-m", "runners", "worker", *devices, *ends, "--launch", str(self.launch)]

    @property
    def seconds(self) -> int:
        """After which the engine is to end it."""
        return int(self.kind.hours * 3600)


class Launcher(Protocol):
    """An engine. All methods raise EngineTrouble, and none waits for long."""

    def launch(self, order: Order) -> str:
        """Ask for the worker; what the engine calls it. Raises NoAnswer where it may be there."""
        ...

    def find(self, name: str) -> str | None:
        """What the engine calls the worker of this name; None where it has none."""
        ...

    def alive(self, handle: str) -> bool | None:
        """Whether it waits or runs there; None where the engine cannot tell."""
        ...

    def cancel(self, handle: str) -> None:
        """End it, with SIGTERM first; one that is gone is no trouble."""
        ...


def launcher_of(configuration: Configuration) -> Launcher:
    """Raises WrongFile for options that the engine does not have, or a library that is missing."""
    module, _, name = CLASSES[configuration.engine].partition(":")
    try:
        engine = getattr(import_module(module), name)
    except ModuleNotFoundError as problem:
        raise WrongFile(
            f"engine: {configuration.engine!r}: {problem.name} is not installed: "
            "pip install 'plumbline[launchers]'"
        ) from None
    known: Mapping[str, Any] = engine.OPTIONS
    for where, options in (
        ("options", configuration.options),
        *((f"kind {kind.name}: options", kind.options) for kind in configuration.kinds),
    ):
        for option in options:
            if option not in known:
                raise WrongFile(
                    f"{where}: {option!r}: {configuration.engine} takes {', '.join(known)}"
                )
    launcher: Launcher = engine(configuration.options)
    return launcher
