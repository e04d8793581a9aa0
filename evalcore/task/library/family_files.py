"""How the tasks of a family would stand in files, for lm-evaluation-harness and for includes.

Each style has a folder for its members, and beside it a file that they include, with what they say
alike.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from evalcore.task.functions import FunctionRef
from evalcore.task.library.family import Family, Part
from evalcore.task.library.family_list import Style
from evalcore.task.metadata import WrittenVersion
from evalcore.task.yaml_file import TaskFile, names_of

WRITTEN = "# Written by `evalcore export` from family.yaml: change that and export it again.\n"


def place_of(family: Family, part: Part) -> Path:
    """Where the file of a task or group would lie."""
    beside = not family.listed.has_members or (part.is_group and part.value is None)
    folder = family.path.parent / ("" if beside else _folder(family, part.style))
    return folder / f"{part.name}.yaml"


def base_of(family: Family, style: Style) -> Path | None:
    """The file that a style's tasks would include; None for a family without members."""
    if not family.listed.has_members:
        return None
    folder = _folder(family, style)
    name = f"_{folder}" if folder else f"_{family.listed.name}{style.suffix}"
    return family.path.parent / name


def _folder(family: Family, style: Style) -> str:
    return (style.name or "members") if family.listed.in_folders else ""


def style_of_base(family: Family, path: Path) -> Style | None:
    """The style whose tasks would include the file at `path`."""
    styles = (style for style in family.listed.styles if base_of(family, style) == path)
    return next(styles, None)


@functools.cache
def base_keys(family: Family, style: Style) -> TaskFile:
    """What all tasks of a style say alike."""
    first, *rest = [family.own_keys(name) for name in family.tasks_of(style)]
    values = {
        key: value
        for key, value in first.values.items()
        if key != "task" and all(other.values.get(key) == value for other in rest)
    }
    origins = {key: origin for key, origin in first.origins.items() if key.split(".")[0] in values}
    return TaskFile(family.path, values, origins, first.repeated, style.place)


def file_of(family: Family, part: Part) -> dict[str, Any]:
    """The keys of a task or group as its file would state them."""
    own = dict(family.own_keys(part.name).values)
    base = base_of(family, part.style)
    if base and not part.is_group:
        shared = base_keys(family, part.style).values
        own = {key: value for key, value in own.items() if key not in shared}
        # What the base says goes over what a member includes by itself, as in its list.
        own["include"] = [*names_of(own["include"]), base.name] if "include" in own else base.name
    return included_from(family, place_of(family, part).parent, own)


def included_from(family: Family, folder: Path, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys, included files named from `folder` instead of from the family's."""
    include = keys.get("include")
    if include is None:
        return dict(keys)
    files = [os.path.relpath(family.path.parent / file, folder) for file in names_of(include)]
    rest = {key: value for key, value in keys.items() if key != "include"}
    return {"include": files if isinstance(include, list) else files[0], **rest}


class _Dumper(yaml.SafeDumper):
    """Block style, several lines as a block, lists indented under their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _lines(dumper: _Dumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text.strip("\n") else None
    if "\n" in text and style is None:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(
    FunctionRef, lambda dumper, function: dumper.represent_scalar("!function", function.name)
)
_Dumper.add_representer(
    WrittenVersion,
    lambda dumper, version: dumper.represent_scalar("tag:yaml.org,2002:float", version.text),
)
_Dumper.add_representer(str, _lines)


def in_order(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Keys as people expect them: the name first, what is about the task last."""
    first = [key for key in ("task", "group", "task_alias", "group_alias") if key in keys]
    last = [key for key in ("metadata",) if key in keys]
    if "group" in first and isinstance(keys.get("task"), list):
        first.remove("task")
    between = [key for key in keys if key not in first and key not in last]
    return {key: keys[key] for key in (*first, *between, *last)}


def as_yaml(keys: Mapping[str, Any]) -> str:
    """The text of a task file with these keys."""
    return yaml.dump(dict(keys), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**16)
