"""Families of tasks: one checked-in list, from which a task file is written for each entry.

`family.yaml` in a benchmark's folder says what its tasks have in common, in which prompt styles
they are asked and, where there are many (subjects, languages), a list of members. `styles.yaml` in
the folder above says once what each style looks like. The written files are plain task files that
lm-eval reads as they are. In both files `<<name>>` stands for a value, so that `{{…}}` remains what
it is in a task file.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from evalcore.errors import TaskError
from evalcore.task.fields import FLAG, LIST, MAPPING, MAPPINGS, TEXT, Kind, Problems, one_of
from evalcore.task.yaml_file import TaskFileReader

FAMILY = "family.yaml"
STYLES = "styles.yaml"

_ENVIRONMENT = SandboxedEnvironment(
    variable_start_string="<<",
    variable_end_string=">>",
    block_start_string="<%",
    block_end_string="%>",
    comment_start_string="<#",
    comment_end_string="#>",
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,
)

_KINDS: dict[str, Kind] = {
    "family": TEXT,
    "title": TEXT,
    "names": TEXT,
    "rows": MAPPING,
    "keys": MAPPING,
    "metadata": MAPPING,
    "styles": one_of(LIST, MAPPING),
    "members": MAPPINGS,
    "folders": FLAG,
    "groups": MAPPING,
}
_STYLE_KINDS: dict[str, Kind] = {
    "names": TEXT,
    "suffix": TEXT,
    "title": TEXT,
    "rows": MAPPING,
    "keys": MAPPING,
    "metadata": MAPPING,
}
_GROUPS_KINDS: dict[str, Kind] = {
    "by": TEXT,
    "titles": MAPPING,
    "weight_by_size": FLAG,
    "filters": TEXT,
    "keys": MAPPING,
    "metadata": MAPPING,
}


def files_of(path: Path) -> dict[Path, dict[str, Any]]:
    """The task files of the family at `path`, by their place, with their keys.

    Raises TaskError with every problem of the family's file, or where a template fails.
    """
    return dict(_Family(path).files())


class _Family:
    """One family's file, checked, and what it means."""

    def __init__(self, path: Path) -> None:
        self._path = path
        reader = TaskFileReader()
        file = reader.read(path)
        problems = Problems(f"The family {path.parent.name}", file.place_of)
        problems.check(file.values, _KINDS)
        if "family" not in file.values:
            problems.missing("family", "the name that its tasks begin with")
        self._values = file.values
        self._folder = path.parent
        self._known_styles = _known_styles(path, reader)
        self._check_parts(problems)
        problems.settle()
        self._name: str = file.values["family"]
        self._groups: dict[str, Any] | None = file.values.get("groups")
        self._members: list[dict[str, Any]] = file.values.get("members", [{}])

    def _check_parts(self, problems: Problems) -> None:
        for style, own in self._stated_styles().items():
            if style and style not in self._known_styles and not own.get("keys"):
                problems.expected("styles", f"styles of {STYLES}, or one with `keys`", style)
            problems.check(own, _STYLE_KINDS, f"styles.{style}")
        groups = self._values.get("groups")
        if isinstance(groups, dict):
            problems.check(groups, _GROUPS_KINDS, "groups")
        members = self._values.get("members", [])
        names = [member.get("name") for member in members if isinstance(member, dict)]
        if None in names:
            problems.missing("members", "each member has a `name`")
        if twice := {str(name) for name in names if names.count(name) > 1}:
            problems.add("members", f"named twice: {', '.join(sorted(twice))}")

    def _stated_styles(self) -> dict[str, dict[str, Any]]:
        """By style what the family says of it; without `styles` one that has no name."""
        stated = self._values.get("styles", {"": None})
        styles = stated if isinstance(stated, dict) else dict.fromkeys(stated)
        return {style: own or {} for style, own in styles.items()}

    def files(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        for style in self._styles():
            tasks = [self._task(style, member) for member in self._members]
            if "members" not in self._values:
                yield self._file("", tasks[0])
                continue
            in_folders = self._values.get("folders", True)
            folder = (style["folder"] or "members") if in_folders else ""
            shared = _common(tasks)
            base = f"_{folder}" if folder else f"_{self._name}{style['suffix']}"
            yield self._folder / base, self._from(self._folder, shared)
            for task in tasks:
                own = {"include": base, **{k: v for k, v in task.items() if k not in shared}}
                yield self._file(folder, own)
            if self._groups is not None:
                yield from self._group_files(style, folder, tasks)

    def _styles(self) -> Iterator[dict[str, Any]]:
        """Every style that the family is asked in, its own keys over those of `styles.yaml`."""
        for style, own in self._stated_styles().items():
            known = self._known_styles.get(style, {})
            merged = {"suffix": f"_{style}" if style else "", "title": style, **known, **own}
            for part in ("rows", "keys", "metadata"):
                merged[part] = {**known.get(part, {}), **own.get(part, {})}
            if style:
                merged["metadata"] = {"style": style, **merged["metadata"]}
            yield {"folder": style, **merged}

    def _names(self, style: Mapping[str, Any], member: Mapping[str, Any]) -> dict[str, Any]:
        """What a template can name: the member's values, the row's expressions, the style's."""
        names = {"family": self._name, "title": self._values.get("title", self._name), **member}
        names |= {
            "style": style["folder"],
            "suffix": style["suffix"],
            "style_title": style["title"],
        }
        rows = {**self._known_styles.get("rows", {}), **self._values.get("rows", {})}
        rows |= style["rows"]
        return names | {
            key: _filled(value, names | rows, self._path) for key, value in rows.items()
        }

    def _task(self, style: Mapping[str, Any], member: Mapping[str, Any]) -> dict[str, Any]:
        default = "<<family>><<suffix>>_<<name>>" if member else "<<family>><<suffix>>"
        keys = {**self._values.get("keys", {}), **style["keys"], **member.get("keys", {})}
        task = {"task": style.get("names", self._values.get("names", default)), **keys}
        task = {key: value for key, value in task.items() if value is not None}
        metadata = {
            "benchmark": self._name,
            **self._values.get("metadata", {}),
            **style["metadata"],
            **member.get("metadata", {}),
        }
        filled: dict[str, Any] = _filled(
            {**task, "metadata": metadata}, self._names(style, member), self._path
        )
        return filled

    def _group_files(
        self, style: Mapping[str, Any], folder: str, tasks: list[dict[str, Any]]
    ) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The group of all members and, where `by` names a key of them, a group for each value."""
        groups = self._groups or {}
        by, weighted = groups.get("by"), groups.get("weight_by_size", True)
        whole = f"{self._name}{style['suffix']}"
        title = f"{self._values.get('title', self._name)}"
        if style["title"]:
            title += f" ({style['title']})"
        named = [entry["metric"] for entry in tasks[0].get("metric_list", [])]
        named += tasks[0]["metadata"].get("extra_metrics", [])
        names = self._names(style, {})
        filters = _filled(groups.get("filters"), names, self._path)
        only = {"filter_list": filters} if filters else {}
        metrics = [
            {"metric": metric, "weight_by_size": weighted, **only}
            for metric in dict.fromkeys(named)
        ]
        parts: dict[str, list[str]] = {}
        for member, task in zip(self._members, tasks, strict=True):
            parts.setdefault(str(member.get(by, "")) if by else "", []).append(task["task"])
        common = {
            **_filled(groups.get("keys", {}), names, self._path),
            "aggregate_metric_list": metrics,
            "metadata": {
                **tasks[0]["metadata"],
                **_filled(groups.get("metadata", {}), names, self._path),
            },
        }
        if not by:
            yield self._file(
                "", {"group": whole, "group_alias": title, "task": parts[""], **common}
            )
            return
        titles = groups.get("titles", {})
        yield self._file(
            "",
            {
                "group": whole,
                "group_alias": title,
                "task": [f"{whole}_{part}" for part in parts],
                **common,
            },
        )
        for part, members in parts.items():
            alias = titles.get(part, part)
            group = {"group": f"{whole}_{part}", "group_alias": alias, "task": members, **common}
            yield self._file(folder, group)

    def _file(self, folder: str, task: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
        place = self._folder / folder
        name = task.get("group") or task["task"]
        return place / f"{name}.yaml", self._from(place, task)

    def _from(self, place: Path, task: dict[str, Any]) -> dict[str, Any]:
        """The keys, included files named from `place` instead of from the family's folder."""
        include = task.get("include")
        if include is None:
            return task
        files = include if isinstance(include, list) else [include]
        relative = [os.path.relpath(self._folder / file, place) for file in files]
        first = relative if isinstance(include, list) else relative[0]
        return {"include": first, **{k: v for k, v in task.items() if k != "include"}}


@functools.cache
def _expression(text: str) -> Callable[..., Any]:
    return _ENVIRONMENT.compile_expression(text, undefined_to_none=False)


@functools.cache
def _template(text: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(text)


def _known_styles(path: Path, reader: TaskFileReader) -> dict[str, Any]:
    file = path.parent.parent / STYLES
    values = reader.read(file).values if file.is_file() else {}
    styles: dict[str, Any] = values.get("styles", {})
    return {**styles, "rows": values.get("rows", {})}


def _common(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """What all tasks say alike, for the file that they include."""
    first, rest = tasks[0], tasks[1:]
    return {
        key: value
        for key, value in first.items()
        if key != "task" and all(other.get(key) == value for other in rest)
    }


def _filled(part: Any, names: Mapping[str, Any], path: Path) -> Any:
    """`part` with every `<<…>>` filled in; a text that is nothing else becomes the value itself."""
    if isinstance(part, Mapping):
        return {
            _filled(key, names, path): _filled(value, names, path) for key, value in part.items()
        }
    if isinstance(part, list):
        return [_filled(value, names, path) for value in part]
    if not isinstance(part, str) or ("<<" not in part and "<%" not in part):
        return part
    try:
        whole = part.removeprefix("<<").removesuffix(">>")
        if f"<<{whole}>>" == part and "<<" not in whole:
            return _expression(whole)(**names)
        return _template(part).render(**names)
    except (jinja2.TemplateError, TypeError) as error:
        raise TaskError(f"{path}: {part!r} cannot be filled in: {error}") from error
