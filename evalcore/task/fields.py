"""Checking what a task file says: every problem of a file at once, with place, key and remedy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from evalcore.errors import TaskError, did_you_mean
from evalcore.task.functions import FunctionRef
from evalcore.task.old_names import replaced

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a key may hold: in words, and as a test."""

    expected: str
    accepts: Callable[[Any], bool]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _list_of(expected: str, accepts: Callable[[Any], bool]) -> Kind:
    return Kind(
        f"a list of {expected}",
        lambda value: isinstance(value, list) and all(map(accepts, value)),
    )


def optional(kind: Kind) -> Kind:
    return Kind(f"{kind.expected} or null", lambda value: value is None or kind.accepts(value))


def one_of(*kinds: Kind) -> Kind:
    return Kind(
        " or ".join(kind.expected for kind in kinds),
        lambda value: any(kind.accepts(value) for kind in kinds),
    )


def choice_of(*allowed: str) -> Kind:
    return Kind(f"one of {', '.join(allowed)}", lambda value: value in allowed)


TEXT = Kind("text", lambda value: isinstance(value, str))
TEXTS = _list_of("texts", TEXT.accepts)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
COUNT = Kind("a whole number from 0", _is_count)
NUMBER = Kind("a number", _is_number)
POSITIVE = Kind("a whole number from 1", lambda value: _is_count(value) and value > 0)
SHARE = Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
COUNTS = _list_of("whole numbers from 0", _is_count)
LIST = Kind("a list", lambda value: isinstance(value, list))
MAPPING = Kind("a mapping of keys", lambda value: isinstance(value, dict))
MAPPINGS = _list_of("mappings", MAPPING.accepts)
FUNCTION = Kind("!function module.name", lambda value: isinstance(value, FunctionRef))


class Problems:
    """Collects what is wrong with one task or group; `settle` raises it as one TaskError."""

    def __init__(
        self, subject: str, place_of: Callable[[str], str], *, strictly: bool = True
    ) -> None:
        """`strictly`: what lm-eval lets pass and nobody means is a problem, not only a warning."""
        self._subject = subject
        self._place_of = place_of
        self._strictly = strictly
        self._found: list[str] = []

    def add(self, key: str, message: str) -> None:
        """`key` may be a path such as `metric_list[0].metric`."""
        self._found.append(f"{self._place_of(key)}: {key}: {message}")

    def doubt(self, key: str, message: str) -> None:
        """Notes what lm-eval lets pass: in files that are not ours it must pass, too."""
        if self._strictly:
            self.add(key, message)
        else:
            log.warning("%s: %s: %s", self._place_of(key), key, message)

    def check(
        self,
        values: Mapping[Any, Any],
        kinds: Mapping[str, Kind],
        inside: str = "",
        *,
        others: bool = False,
        needed: Collection[str] = (),
    ) -> None:
        """Notes every value of the wrong kind in `values`, every unknown key and every missing one.

        `others`: there may be other keys, which are not our business; `needed`: those that must be.
        """
        prefix = f"{inside}." if inside else ""
        for key, value in values.items():
            if key not in kinds:
                if others:
                    continue
                hint = replaced(str(key)) or did_you_mean(str(key), kinds)
                self.add(f"{prefix}{key}", f"unknown key{hint}")
            elif not kinds[key].accepts(value):
                self.expected(f"{prefix}{key}", kinds[key].expected, value)
        for key in (key for key in needed if key not in values):
            self.missing(f"{prefix}{key}", f"expected {kinds[key].expected}")

    def expected(self, key: str, expected: str, value: object) -> None:
        self.add(key, f"expected {expected}, got {_shown(value)}")

    def missing(self, key: str, why: str) -> None:
        self.add(key, f"missing: {why}")

    @property
    def found(self) -> bool:
        """Whether anything was noted."""
        return bool(self._found)

    def settle(self) -> None:
        """Raises TaskError if anything was noted."""
        if self._found:
            count = "1 problem" if len(self._found) == 1 else f"{len(self._found)} problems"
            lines = "\n  ".join(self._found)
            raise TaskError(f"{self._subject} has {count}:\n  {lines}")


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
