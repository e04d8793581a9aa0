"""The lock file of tasks: what each version of a task asked and how it scored.

`pins.lock` in the tasks' folder has a line for each version of each task and group, old ones too:
the digest of what it asks (requests and answers of the sample rows, without and with examples), of
its configuration (which decides how it scores), and the data set with the commit that somebody read
from the Hub, or null.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evalcore.errors import TaskError
from evalcore.task.config import TaskSpec
from evalcore.task.yaml_file import OWN_TASKS, is_own

LOCK = "pins.lock"
PUBLIC_HUB = "https://huggingface.co"
_HEAD = """\
# What each version of a task asks and how it scores; written by `evalcore pin`, see docs/tasks.md.
# name version asks:<digest> config:<digest> <data set>@<commit, or null where nobody read one>
"""
_LINE = re.compile(r"(\S+) (\S+) asks:(\w+) config:(\w+) (\S+)@(\w+)")


@dataclass(frozen=True)
class Pin:
    """One version of one task or group."""

    name: str
    version: str
    asks: str
    config: str
    dataset: str
    """`-` for a group."""
    commit: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.version

    def __str__(self) -> str:
        commit = self.commit or "null"
        return (
            f"{self.name} {self.version} asks:{self.asks} config:{self.config} "
            f"{self.dataset}@{commit}"
        )


Pins = Mapping[tuple[str, str], Pin]


def read_pins(file: Path) -> dict[tuple[str, str], Pin]:
    """The pins in `file`, none where there is no file. Raises TaskError that names a bad line."""
    if not file.is_file():
        return {}
    pins: dict[tuple[str, str], Pin] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if not found:
            raise TaskError(
                f"{file}:{number}: no pin: {line!r:.200}. Take the line out and run `evalcore pin`"
            )
        name, version, asks, config, dataset, commit = found.groups()
        pin = Pin(name, version, asks, config, dataset, None if commit == "null" else commit)
        if pin.key in pins:
            raise TaskError(f"{file}:{number}: {name} {version} is pinned twice: take one line out")
        pins[pin.key] = pin
    return pins


def write_pins(file: Path, pins: Iterable[Pin]) -> None:
    """All pins, by name and version."""
    lines = sorted(pins, key=lambda pin: pin.key)
    file.write_text(_HEAD + "".join(f"{pin}\n" for pin in lines), encoding="utf-8")


def pinned_commit(spec: TaskSpec) -> str | None:
    """The data set commit that a task of ours is pinned to, if anybody read one.

    Pins are of the public Hub: another one has commits of its own.
    """
    from huggingface_hub import constants

    if not is_own(spec.source) or constants.ENDPOINT != PUBLIC_HUB:
        return None
    pin = _own_pins().get((spec.name, spec.version))
    return pin.commit if pin and pin.dataset == spec.dataset_path else None


@functools.cache
def _own_pins() -> Pins:
    return read_pins(OWN_TASKS / LOCK)
