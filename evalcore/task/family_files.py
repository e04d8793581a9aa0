"""The task files of families on disk: written, compared, and removed when no list means them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evalcore.task.functions import FunctionRef
from evalcore.task.library.family import FAMILY, files_of

WRITTEN = "# Written by `evalcore families` from family.yaml: change that and run it again.\n"


def family_files(folder: Path) -> list[Path]:
    """Every family's file in `folder` and below."""
    return sorted(folder.rglob(FAMILY))


@dataclass(frozen=True)
class Changes:
    """How a family's folder differs from what its list says."""

    wrong: tuple[Path, ...]
    """Files that are missing or say something else."""
    left_over: tuple[Path, ...]
    """Files that were written once and that the list no longer means."""

    def __bool__(self) -> bool:
        return bool(self.wrong or self.left_over)


def differences(path: Path) -> Changes:
    """What `write` would change."""
    return _differences(path, _texts(path))


def _differences(path: Path, files: Mapping[Path, str]) -> Changes:
    wrong = [file for file, text in files.items() if not _says(file, text)]
    inner = {other.parent for other in path.parent.rglob(FAMILY)} - {path.parent}
    written = (
        file
        for file in path.parent.rglob("*")
        if not inner.intersection(file.parents) and _is_written(file)
    )
    return Changes(tuple(wrong), tuple(sorted(file for file in written if file not in files)))


def write(path: Path) -> Changes:
    """Writes the files of the family at `path` and removes what it no longer means."""
    files = _texts(path)
    changes = _differences(path, files)
    for file in changes.wrong:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(files[file], encoding="utf-8")
    for file in changes.left_over:
        file.unlink()
    return changes


def _texts(path: Path) -> dict[Path, str]:
    return {file: _text(keys) for file, keys in files_of(path).items()}


def _says(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


def _is_written(file: Path) -> bool:
    if not file.is_file() or file.suffix not in ("", ".yaml"):
        return False
    with file.open(encoding="utf-8", errors="replace") as lines:
        return lines.readline() == WRITTEN


class _Dumper(yaml.SafeDumper):
    """Block style, several lines as a block, lists indented under their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _function(dumper: _Dumper, function: FunctionRef) -> yaml.Node:
    return dumper.represent_scalar("!function", function.name)


def _lines(dumper: _Dumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text.strip("\n") else None
    if "\n" in text and style is None:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(FunctionRef, _function)
_Dumper.add_representer(str, _lines)


def _text(task: dict[str, Any]) -> str:
    body = yaml.dump(task, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**16)
    return WRITTEN + body
