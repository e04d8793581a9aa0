"""What the engine prints while it works: one JSON object a line (`--progress json`).

A line that says nothing we know is None, whatever it holds: the program that prints it runs
somebody else's model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from evalcore.errors import EvalError, InfraError, ModelError, TaskError
from evalcore.watch import Stratum
from leaderboard.stats import check_strata

PHASES = ("download", "load", "prepare", "evaluate")
ERRORS: dict[str, type[EvalError]] = {
    error.__name__: error for error in (ModelError, TaskError, InfraError)
}
LARGEST_COUNT = 2**31 - 1
MESSAGE_CHARACTERS = 4000
MOST_STRATA = 500


@dataclass(frozen=True)
class Phase:
    phase: str


@dataclass(frozen=True)
class Progress:
    task: str
    done: int
    total: int


@dataclass(frozen=True)
class Look:
    """A random part of a task's questions has scores, in one stratum or several."""

    task: str
    metric: str
    strata: tuple[Stratum, ...]


@dataclass(frozen=True)
class TaskDone:
    """A task's record and samples are written; paths as the child named them."""

    task: str
    record: str
    samples: str


@dataclass(frozen=True)
class Documents:
    """What a task asks, by who downloaded its data and has no model."""

    task: str
    docs_digest: str


@dataclass(frozen=True)
class Failure:
    error_class: str
    message: str
    task: str | None
    """The task that failed, where the engine knows it."""


@dataclass(frozen=True)
class Done:
    pass


@dataclass(frozen=True)
class Waits:
    """It has done what it was told, and waits for another command."""


Event = Phase | Progress | Look | TaskDone | Documents | Failure | Done | Waits


def parse(line: bytes) -> Event | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    match said.get("event"):
        case "phase" if said.get("phase") in PHASES:
            return Phase(said["phase"])
        case "progress":
            return _progress(said.get("task"), said.get("done"), said.get("total"))
        case "look":
            return _look(said.get("task"), said.get("metric"), said.get("strata"))
        case "task" if all(_text(said.get(name)) for name in ("task", "record", "samples")):
            return TaskDone(said["task"], said["record"], said["samples"])
        case "documents" if _text(said.get("task")) and _text(said.get("docs_digest")):
            return Documents(said["task"], said["docs_digest"])
        case "error" if said.get("class") in tuple(ERRORS):
            task = said.get("task")
            message = _readable(said.get("message"))
            return Failure(said["class"], message, task if _text(task) else None)
        case "done":
            return Done()
        case "waits":
            return Waits()
    return None


def _progress(task: Any, done: Any, total: Any) -> Progress | None:
    if not _text(task) or type(done) is not int or type(total) is not int:
        return None
    if not 0 <= done <= total <= LARGEST_COUNT:
        return None
    return Progress(task, done, total)


def _look(task: Any, metric: Any, strata: Any) -> Look | None:
    """None also where such a part cannot be: more answered than there are, or more of it right."""
    if not _text(task) or not _text(metric) or not isinstance(strata, list):
        return None
    read = tuple(map(_stratum, strata[: MOST_STRATA + 1]))
    try:
        found = tuple(one for one in read if one is not None)
        if len(found) < len(read) or len(found) > MOST_STRATA:
            return None
        check_strata(found)
    except ValueError:
        return None
    return Look(task, metric, found)


def _stratum(said: Any) -> Stratum | None:
    if not isinstance(said, dict):
        return None
    documents, answered, right, weight, zero_or_one = (
        said.get(name) for name in ("documents", "answered", "right", "weight", "zero_or_one")
    )
    if type(documents) is not int or type(answered) is not int or type(zero_or_one) is not bool:
        return None
    if type(right) not in (int, float) or type(weight) not in (int, float):
        return None
    if not 0 < documents <= LARGEST_COUNT:
        return None
    return Stratum(
        weight=weight or 0.0,
        documents=documents,
        answered=answered,
        right=right or 0.0,
        zero_or_one=zero_or_one,
    )


def _readable(message: Any) -> str:
    """Why something failed, whatever it quotes: a reason that is dropped leaves a failure of the
    model without one, which is then taken for ours."""
    if not isinstance(message, str) or not message:
        return "no reason was given"
    shown = message[:MESSAGE_CHARACTERS]
    return "".join(one if _storable(one) else "\N{REPLACEMENT CHARACTER}" for one in shown)


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and all(map(_storable, value))


def _storable(character: str) -> bool:
    """A NUL or half a surrogate pair is text to JSON, but not to PostgreSQL."""
    return character != "\0" and not "\ud800" <= character <= "\udfff"
