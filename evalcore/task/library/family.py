"""Families of tasks: what one list means, made name by name when somebody asks for it.

No task file is written for that (`evalcore export` can). What a name says is read like a file of
its own beside `family.yaml`, from where it includes others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.library.family_list import FamilyList, Keys, Style, layered
from evalcore.task.library.filling import NotFilled, filled
from evalcore.task.yaml_file import Origin, TaskFile

_NAMING = ("task", "tag", "group", "include")
"""Keys of a task that decide by which names it goes, or may."""
_OF_ONE, _OF_MEMBERS = "<<family>><<suffix>>", "<<family>><<suffix>>_<<name>>"
"""What the tasks are called if nobody says it."""


@dataclass(frozen=True, eq=False)
class Part:
    """What one name of a family stands for: a task, or a group of its members."""

    name: str
    style: Style
    member: int | None = None
    """Of a task: which one of the members."""
    value: str | None = None
    """Of a group: which value its members share; None for the group of all."""
    naming: TaskFile | None = None
    """Of a task: the keys that decide by which names it goes."""

    @property
    def is_group(self) -> bool:
        return self.member is None


class Family:
    """What the list in one `family.yaml` means."""

    def __init__(self, file: TaskFile, styles: TaskFile | None) -> None:
        """Raises TaskError with every problem of the file."""
        self.path = file.path
        self.listed = FamilyList(file, styles)
        self._repeated = (*file.repeated, *(styles.repeated if styles else ()))
        self._made: dict[str, TaskFile] = {}
        self._by_style: dict[Style, TaskFile | None] = {}

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Every task and group by its name. Raises TaskError."""
        parts: dict[str, Part] = {}
        for style in self.listed.styles:
            for part in self._parts_of(style):
                if part.name in parts:
                    raise TaskError(
                        f"{style.place}: styles: {part.name} is the name of two tasks or groups "
                        "of the family: give the style a `suffix`, or `names` of its own"
                    )
                parts[part.name] = part
        return parts

    def _parts_of(self, style: Style) -> Iterator[Part]:
        listed = self.listed
        for number in range(len(listed.members)):
            yield self._named(style, number)
        if not listed.has_members or listed.groups is None:
            return
        whole = f"{listed.name}{style.suffix}"
        yield Part(whole, style)
        for value in self._values:
            yield Part(f"{whole}_{value}", style, value=value)

    def _named(self, style: Style, member: int) -> Part:
        listed = self.listed
        own = listed.members[member]
        usual = self._usual(style)
        if usual and isinstance(own.get("name"), str) and not own.keys() & {"keys", "family"}:
            return Part(f"{listed.name}{style.suffix}_{own['name']}", style, member, naming=usual)
        keys = self._keys(style, member)
        stated = {key: keys[key] for key in _NAMING if key in keys}
        naming = self._filled(stated, style, member, self._names(style, member, stated))
        name, origin = naming["task"]
        if not isinstance(name, str):
            raise TaskError(
                f"{origin}: names: expected text, got {name!r}: write more than a number, such as "
                "<<family>>_<<name>>"
            )
        return Part(name, style, member, naming=self.stating(naming, style.place))

    def _usual(self, style: Style) -> TaskFile | None:
        """What names a style's tasks, where they have the usual names and the rest is alike.

        A list has hundreds of names: these need no template.
        """
        if style not in self._by_style:
            keys = self._stated_by(style)
            naming = {key: keys[key] for key in _NAMING if key in keys and keys[key][0] is not None}
            others = [value for key, (value, _) in naming.items() if key != "task"]
            usual = keys["task"][0] is _OF_MEMBERS and "<" not in f"{others}"
            self._by_style[style] = self.stating(naming, style.place) if usual else None
        return self._by_style[style]

    @cached_property
    def _values(self) -> dict[str, list[int]]:
        """Where `groups` names a key of the members, by its values their numbers."""
        by = (self.listed.groups or {}).get("by")
        values: dict[str, list[int]] = {}
        if by:
            for number, member in enumerate(self.listed.members):
                values.setdefault(str(member.get(by, "")), []).append(number)
        return values

    def own_keys(self, name: str) -> TaskFile:
        """All that the family says of one of its tasks or groups. Raises TaskError."""
        if name not in self._made:
            part = self.parts[name]
            if part.member is None:
                keys, rest = self._group(part), self.listed.file.origin("groups")
            else:
                keys = self._task(part.style, part.member)
                has_members = self.listed.has_members
                rest = self.listed.place_of(part.member) if has_members else part.style.place
            self._made[name] = self.stating(keys, rest)
        return self._made[name]

    def stating(self, keys: Keys, rest: Origin) -> TaskFile:
        """These keys as those of a file, `metadata.chance` being a part of its metadata."""
        values = {key: value for key, (value, _) in keys.items() if not key.startswith("metadata.")}
        origins = {key: origin for key, (_, origin) in keys.items()}
        return TaskFile(self.path, values, origins, self._repeated, rest)

    def tasks_of(self, style: Style) -> list[str]:
        """The names of a style's tasks, in the order of the members."""
        return [
            part.name for part in self.parts.values() if part.style is style and not part.is_group
        ]

    def _keys(self, style: Style, member: int) -> Keys:
        """The keys of a task besides its metadata, nothing filled in."""
        keys = {**self._stated_by(style), **self.listed.of_member(member, "keys")}
        return {key: said for key, said in keys.items() if said[0] is not None}

    def _stated_by(self, style: Style) -> Keys:
        stated = self.listed.file.values.get("names")
        default = _OF_MEMBERS if self.listed.has_members else _OF_ONE
        origin = self.listed.file.origin("names" if stated else "family")
        return {"task": style.names or (stated or default, origin), **style.keys}

    def _task(self, style: Style, member: int) -> Keys:
        listed = self.listed
        about: Keys = {"benchmark": (listed.name, listed.file.origin("family"))}
        about |= {**style.metadata, **listed.of_member(member, "metadata")}
        keys, names = self._keys(style, member), self._names(style, member)
        keys.pop("metadata", None)
        made = self._filled(keys, style, member, names)
        return made | _metadata(self._filled(about, style, member, names), style.place)

    def _group(self, part: Part) -> Keys:
        listed, style = self.listed, part.style
        stated, place = listed.groups or {}, listed.file.origin("groups")
        names = self._names(style, None)
        filters = self._filled({"filters": (stated.get("filters"), place)}, style, None, names)
        own = self._filled(layered("keys", (stated, place)), style, None, names)
        about = self._filled(layered("metadata", (stated, place)), style, None, names)
        first = self._task(style, 0)
        metrics = [entry["metric"] for entry in first.get("metric_list", ([], place))[0]]
        metrics += first["metadata"][0].get("extra_metrics", [])
        how = {"weight_by_size": stated.get("weight_by_size", True)}
        if only := filters["filters"][0]:
            how["filter_list"] = only
        title = f"{listed.title} ({style.title})" if style.title else listed.title
        if part.value is not None:
            title = stated.get("titles", {}).get(part.value, part.value)
        made: Keys = {
            "group": (part.name, place),
            "group_alias": (title, place),
            "task": (self._members_of(part), listed.file.origin("members")),
            **own,
            "aggregate_metric_list": (
                [{"metric": metric, **how} for metric in dict.fromkeys(metrics)],
                place,
            ),
        }
        of_tasks = {
            key: (value, first[f"metadata.{key}"][1]) for key, value in first["metadata"][0].items()
        }
        return made | _metadata({**of_tasks, **about}, place)

    def _members_of(self, part: Part) -> list[str]:
        if part.value is None and self._values:
            return [f"{part.name}_{value}" for value in self._values]
        tasks = self.tasks_of(part.style)
        return tasks if part.value is None else [tasks[name] for name in self._values[part.value]]

    def _names(self, style: Style, member: int | None, asked: Keys | None = None) -> dict[str, Any]:
        """What a template can name: the member's values, the style's, how a row reads.

        With `asked` of the last only what those keys name.
        """
        listed = self.listed
        names = {
            "family": listed.name,
            "title": listed.title,
            **({} if member is None else listed.members[member]),
            "style": style.name,
            "suffix": style.suffix,
            "style_title": style.title,
        }
        rows = style.rows
        if asked is not None:
            texts = repr([value for value, _ in asked.values()])
            rows = {key: said for key, said in rows.items() if key in texts}
        if not rows:
            return names
        known = names | _values(style.rows)
        return names | _values(self._filled(rows, style, member, known))

    def _filled(
        self, keys: Keys, style: Style, member: int | None, names: Mapping[str, Any]
    ) -> Keys:
        """The keys with every `<<…>>` filled in. Raises TaskError that says where one stands."""
        made: Keys = {}
        folder = self.path.parent
        for key, (value, origin) in keys.items():
            try:
                made[filled(key, names, folder)] = filled(value, names, folder), origin
            except NotFilled as problem:
                place = origin.inside(*problem.steps)
                raise TaskError(
                    f"{place}: {key}: {problem}{self._asked_by(style, member, place)}"
                ) from problem
        return made

    def _asked_by(self, style: Style, member: int | None, place: Origin) -> str:
        """Whose task it is, where the place alone does not say it."""
        asked = []
        if member is not None and self.listed.has_members:
            asked.append(f"the member {self.listed.members[member]['name']!r}")
        if place.file != self.path:
            style_of = f"the style {style.name}" if style.name else "the family"
            asked.append(f"{style_of}, {style.place}")
        return f" (for {' in '.join(asked)})" if asked else ""


def _values(keys: Keys) -> dict[str, Any]:
    return {key: value for key, (value, _) in keys.items()}


def _metadata(about: Keys, place: Origin) -> Keys:
    """The metadata, and beside them where each part of them is stated."""
    parts: Keys = {f"metadata.{key}": (None, origin) for key, (_, origin) in about.items()}
    return {"metadata": (_values(about), place), **parts}
