"""The list that a family is: `family.yaml`, checked, with the styles that it names.

It says what tasks have in common, in which prompt styles they are asked and, where there are many
(subjects, languages), names the members. `styles.yaml` in the folder above says once what each
style looks like.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evalcore.task.fields import FLAG, LIST, MAPPING, MAPPINGS, TEXT, Kind, Problems, one_of
from evalcore.task.yaml_file import Origin, TaskFile

FAMILY = "family.yaml"
STYLES = "styles.yaml"

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
_MEMBER_KINDS: dict[str, Kind] = {"keys": MAPPING, "metadata": MAPPING}
_GROUPS_KINDS: dict[str, Kind] = {
    "by": TEXT,
    "titles": MAPPING,
    "weight_by_size": FLAG,
    "filters": TEXT,
    "keys": MAPPING,
    "metadata": MAPPING,
}

Keys = dict[str, tuple[Any, Origin]]
"""By key its value, and where it is stated."""


@dataclass(frozen=True, eq=False)
class Style:
    """One way in which a family is asked: its own keys over those of `styles.yaml`."""

    name: str
    """Empty in a family without styles."""
    suffix: str
    title: str
    names: tuple[str, Origin] | None
    rows: Keys
    keys: Keys
    metadata: Keys
    place: Origin
    """Where the family names it."""


class FamilyList:
    """A family's file, checked."""

    def __init__(self, file: TaskFile, styles: TaskFile | None) -> None:
        """Raises TaskError with every problem of the file."""
        self.file, self._styles_file = file, styles
        problems = Problems(f"The family {file.path.parent.name}", file.place_of)
        problems.check(file.values, _KINDS)
        if "family" not in file.values:
            problems.missing("family", "the name that its tasks begin with")
        known: Any = styles.values.get("styles", {}) if styles else {}
        self._known_styles: dict[str, Any] = known if isinstance(known, dict) else {}
        self._check_styles(problems)
        self._check_members(problems)
        groups = file.values.get("groups")
        if isinstance(groups, dict):
            problems.check(groups, _GROUPS_KINDS, "groups")
        problems.settle()
        self.name: str = file.values["family"]
        self.title: str = file.values.get("title", self.name)
        self.groups: dict[str, Any] | None = groups
        self.members: list[dict[str, Any]] = file.values.get("members", [{}])
        self.has_members = "members" in file.values
        self.in_folders: bool = file.values.get("folders", True)

    def _check_styles(self, problems: Problems) -> None:
        for style, own in self._stated_styles().items():
            if not isinstance(own, dict):
                problems.expected(f"styles.{style}", MAPPING.expected, own)
                continue
            if style and style not in self._known_styles and not own.get("keys"):
                problems.expected(
                    f"styles.{style}", f"styles of {STYLES}, or one with `keys`", style
                )
            problems.check(own, _STYLE_KINDS, f"styles.{style}")

    def _check_members(self, problems: Problems) -> None:
        stated = self.file.values.get("members")
        members = stated if isinstance(stated, list) else []
        if stated == []:
            problems.expected("members", "at least one, or no `members`", stated)
        names = [member.get("name") for member in members if isinstance(member, dict)]
        for number, member in enumerate(members):
            if not isinstance(member, dict):
                continue
            inside = f"members[{number}]"
            name = member.get("name")
            if name is None:
                problems.missing(inside, "each member has a `name`")
            elif name in names[:number]:
                problems.add(inside, f"named twice: {name}")
            problems.check(member, _MEMBER_KINDS, inside, others=True)

    def _stated_styles(self) -> dict[str, Any]:
        """By style what the family says of it; without `styles` one that has no name."""
        stated = self.file.values.get("styles", {"": None})
        names: Iterable[Any] = stated if isinstance(stated, dict | list) else ()
        said = stated if isinstance(stated, dict) else {}
        return {str(name): said.get(name) or {} for name in names}

    @cached_property
    def styles(self) -> tuple[Style, ...]:
        return tuple(self._style(name, own) for name, own in self._stated_styles().items())

    def _style(self, name: str, own: dict[str, Any]) -> Style:
        known: dict[str, Any] = self._known_styles.get(name) or {}
        place = self.file.origin("styles", name) if name else self.file.origin("family")
        layers = [(own, place)]
        if self._styles_file:
            layers.insert(0, (known, self._styles_file.origin("styles", name)))
        named = [(layer["names"], at.inside("names")) for layer, at in layers if "names" in layer]
        merged = {**known, **own}
        of_itself: Keys = {"style": (name, place)} if name else {}
        return Style(
            name=name,
            suffix=merged.get("suffix", f"_{name}" if name else ""),
            title=merged.get("title", name),
            names=named[-1] if named else None,
            rows={**self._rows(), **layered("rows", *layers)},
            keys={**self.own("keys"), **layered("keys", *layers)},
            metadata={**self.own("metadata"), **of_itself, **layered("metadata", *layers)},
            place=place,
        )

    def _rows(self) -> Keys:
        """How a row reads in every style, unless a style says otherwise."""
        common: Keys = {}
        if self._styles_file:
            root = self._styles_file.values
            common = layered("rows", (root, Origin(self._styles_file.path)))
        return {**common, **self.own("rows")}

    def own(self, part: str) -> Keys:
        """What the family says for all its tasks."""
        origin = self.file.origin(part)
        stated = self.file.values.get(part) or {}
        return {key: (value, origin.inside(str(key))) for key, value in stated.items()}

    def of_member(self, number: int, part: str) -> Keys:
        return layered(part, (self.members[number], self.place_of(number)))

    def place_of(self, member: int) -> Origin:
        return self.file.origin("members", str(member))


def layered(part: str, *layers: tuple[dict[str, Any], Origin]) -> Keys:
    """A part of several mappings, each of which is stated somewhere: later ones win."""
    keys: Keys = {}
    for layer, origin in layers:
        stated = layer.get(part) or {}
        inside = origin.inside(part)
        keys |= {key: (value, inside.inside(str(key))) for key, value in stated.items()}
    return keys
