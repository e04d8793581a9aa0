"""What the checks of the fast ways have found, kept on this machine: a model is checked once.

A file belongs to one model as it was computed: its pins, precision, the kind of device, the
versions of the libraries, and the code of ours that computes and checks. Where any of these is
another, so is the file, and all is checked again. A file that is damaged is as none.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from evalcore.cache_folder import cache_folder
from evalcore.digest import digest_of
from evalcore.errors import InfraError
from evalcore.model.base import ModelInfo
from evalcore.whole_file import write_whole

LIBRARIES = (
    "torch", "transformers", "accelerate", "peft", "bitsandbytes", "compressed-tensors",
    "gptqmodel", "optimum", "torchao", "triton", "flash-attn", "kernels",
)  # fmt: skip
"""Whose code may compute a model."""


class KeptChecks:
    """What was found of one model, by the name of a check; for its life alone until `begin`."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self._known: dict[str, dict[str, Any]] = {}

    def begin(self, file: Path, *, again: bool = False) -> None:
        """From now on what is found is kept in the file, and what is there holds, unless all is to
        be checked `again`."""
        self._file = file
        if again:
            with suppress(OSError):
                file.unlink(missing_ok=True)
        self._known = _read(file)

    def found(self, check: str) -> Mapping[str, Any] | None:
        """What was kept, and `checked_on`, the day (UTC, ISO 8601) when it was found."""
        return self._known.get(check)

    def keep(self, check: str, found: Mapping[str, Any]) -> None:
        """In place of what was kept of that check. A folder that cannot be written to is no fault:
        the model is checked the next time."""
        if self._file is not None:
            today = datetime.now(UTC).date().isoformat()
            self._write(check, {**found, "checked_on": today})

    def forget(self, check: str) -> None:
        """It turned out to be wrong."""
        if self._file is not None:
            self._known.pop(check, None)
            self._write(check, None)

    def _write(self, check: str, found: dict[str, Any] | None) -> None:
        assert self._file is not None  # noqa: S101  # asked by the callers
        # Another process may have kept something meanwhile.
        all_found = {**_read(self._file), check: found}
        with suppress(OSError, InfraError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps({k: v for k, v in all_found.items() if v}))


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        known = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    is_whole = isinstance(known, dict) and all(
        isinstance(found, dict) and "checked_on" in found for found in known.values()
    )
    return known if is_whole else {}


def place_of(info: ModelInfo, device: torch.device, way: Mapping[str, Any]) -> Path:
    """The file of a model; `way`: what its caller decides of how it is computed."""
    pins = {name: value for name, value in asdict(info).items() if name != "device"}
    name = digest_of(
        {
            "model": pins,
            "device": _kind_of(device),
            "versions": {package: _version(package) for package in LIBRARIES},
            "code": _code_digest(),
            "way": way,
        }
    )
    return cache_folder() / "checks" / f"{name}.json"


def _kind_of(device: torch.device) -> list[str | None]:
    """What computes: of two GPUs of one kind, and of their places, either."""
    kind = [device.type, torch.get_float32_matmul_precision()]
    if device.type == "cuda":
        capability = ".".join(map(str, torch.cuda.get_device_capability(device)))
        return [*kind, torch.cuda.get_device_name(device), capability, torch.version.cuda]
    return [*kind, platform.machine(), torch.backends.cpu.get_cpu_capability()]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _code_digest() -> str:
    """Of every file of the package that computes models."""
    here = Path(__file__).parent
    digest = sha256()
    for file in sorted(here.rglob("*.py")):
        digest.update(f"{file.relative_to(here)}\0".encode())
        digest.update(sha256(file.read_bytes()).digest())
    return digest.hexdigest()
