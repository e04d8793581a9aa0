"""A child process as its parent sees it: events out of it, signals into it, its memory.

The engine prints one JSON object a line (`--progress json`). A line that says nothing we know is no
event, whatever it holds: the program that prints it runs somebody else's model.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self

import psutil

from evalcore.errors import EvalError, InfraError, ModelError, TaskError
from evalcore.watch import Stratum
from leaderboard.stats import check_strata
from runners import child

logger = logging.getLogger(__name__)

PYTHON = (sys.executable, "-P", "-s")
"""Python that imports nothing from its working folder or home, where an earlier child may write."""
LONGEST_LINE = 64 * 1024
EVENTS_AHEAD = 1000
END = None
LAST_WORDS = 5.0
"""Seconds after the end for what was still said to be read, should anybody hold the pipe open."""
LONGEST_DEATH = 30.0
"""Seconds until a killed process counts as gone; the kernel may hold one in a device's driver."""


@dataclass(frozen=True)
class Use:
    memory_bytes: int
    written_bytes: int
    printed_bytes: int = 0
    """By its standard output and into its log."""


class Child:
    """A command run by `runners.child` in a session of its own; use it in a `with` statement.

    Leaving the statement kills whatever is left of it, in whatever session.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        lifeline, self._lifeline = os.pipe()
        orders, self._orders = os.pipe()
        os.set_blocking(self._orders, False)
        self._output, output = os.pipe()
        self._printed = 0
        self._log = log
        with log.open("ab") as stderr:
            self._log_before = stderr.tell()
            self._process = subprocess.Popen(
                [*PYTHON, "-m", "runners.child", str(orders), *command],
                env=dict(environment),
                cwd=folder,
                stdin=lifeline,
                stdout=output,
                stderr=stderr,
                start_new_session=True,
                pass_fds=[orders],
            )
        os.close(lifeline)
        os.close(orders)
        os.close(output)
        self._events: queue.Queue[Event | None] = queue.Queue(EVENTS_AHEAD)
        self._is_read = False
        self._frozen: set[psutil.Process] | None = None
        self._ended: float | None = None
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def next_event(self, seconds: float) -> Event | None:
        """What the child said next; None where it says nothing for so long."""
        if self._is_read:
            self._closing.wait(min(seconds, 0.05))
            return None
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            return None
        self._is_read = event is END
        return event

    def has_ended(self) -> bool:
        """Whether the command is gone and all that it said was read."""
        # WNOWAIT leaves the process unreaped, so that its group keeps its number for the kill,
        # which ends what the command left behind and with it the last writer of its output.
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        if os.waitid(os.P_PID, self._process.pid, options) is None:
            return False
        self._signal(signal.SIGKILL)
        self._ended = self._ended or monotonic()
        return self._is_read or monotonic() - self._ended > LAST_WORDS

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def freeze(self) -> bool:
        """Stop all of it but what ends it with us; False where that cannot be done."""
        self._frozen = child.freeze(self.pid)
        return bool(self._frozen) and not self.has_ended()

    def begin_again(self, order: bytes, log: Path) -> bool:
        """Have a frozen child go on, and read this line; False where it cannot, or is not whole.

        What it says from now on counts, and nothing that it said before: its log is `log` now.
        """
        if self._frozen != set(child.living(self.pid)):
            return False  # such as the system kills for want of memory
        while not self._events.empty():
            self._is_read = self._events.get() is END or self._is_read
        self._printed, self._log = 0, log
        self._log_before = log.stat().st_size
        try:
            taken = os.write(self._orders, order)
        except OSError:  # nobody reads it, or it has not read what came before
            return False
        child.thaw(self.pid)
        return taken == len(order) and not self._is_read

    def processor_seconds(self) -> float:
        """Of that of its processes which has used most."""
        return child.processor_seconds(self.pid)

    def kill(self) -> int:
        """End all of it; the exit status, negative where a signal ended the command."""
        if self._process.returncode is None:
            child.kill(self._process.pid)
            self._signal(signal.SIGKILL)
        try:
            return self._process.wait(LONGEST_DEATH)
        except subprocess.TimeoutExpired:
            logger.exception("process %d does not end although it was killed", self._process.pid)
            return -signal.SIGKILL

    def use(self) -> Use:
        """What its processes hold and have written."""
        memory = written = 0
        for process in child.living(self._process.pid):
            try:
                memory += child.own_memory(process)
                written += process.io_counters().write_chars
            except psutil.Error:
                continue  # ended since it was listed
        return Use(memory, written, self._printed + self._log.stat().st_size - self._log_before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill whatever is left of it."""
        self._closing.set()
        self.kill()
        os.close(self._lifeline)
        os.close(self._orders)
        self._reader.join(LAST_WORDS)
        if not self._reader.is_alive():  # else it still reads there: another file must not be
            os.close(self._output)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _read(self) -> None:
        for line in self._lines():
            if (event := parse(line)) is not None:
                self._put(event)
        self._put(END)

    def _put(self, event: Event | None) -> None:
        while not self._closing.is_set():
            try:
                self._events.put(event, timeout=0.5)
            except queue.Full:
                continue
            return

    def _lines(self) -> Iterator[bytes]:
        """What is said, until it ends or we close: somebody may hold the stream open for ever.

        A line that is longer than any event of ours is dropped, not collected.
        """
        rest = b""
        while not self._closing.is_set():
            if not select.select([self._output], [], [], 0.2)[0]:
                continue
            if not (chunk := os.read(self._output, 65536)):
                break
            self._printed += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > LONGEST_LINE:
                rest = b"\0"  # makes the line's end unreadable too
        if rest:
            yield rest


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
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    match fields.get("event"):
        case "phase" if fields.get("phase") in PHASES:
            return Phase(fields["phase"])
        case "progress":
            return _progress(fields.get("task"), fields.get("done"), fields.get("total"))
        case "look":
            return _look(fields.get("task"), fields.get("metric"), fields.get("strata"))
        case "task" if all(_text(fields.get(name)) for name in ("task", "record", "samples")):
            return TaskDone(fields["task"], fields["record"], fields["samples"])
        case "documents" if _text(fields.get("task")) and _text(fields.get("docs_digest")):
            return Documents(fields["task"], fields["docs_digest"])
        case "error" if fields.get("class") in tuple(ERRORS):
            task = fields.get("task")
            message = _readable(fields.get("message"))
            return Failure(fields["class"], message, task if _text(task) else None)
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
    if len(strata) > MOST_STRATA:
        return None
    parts = tuple(stratum for stratum in map(_stratum, strata) if stratum is not None)
    try:
        check_strata(parts)
    except ValueError:
        return None
    return Look(task, metric, parts) if len(parts) == len(strata) else None


def _stratum(fields: Any) -> Stratum | None:
    if not isinstance(fields, dict):
        return None
    documents, answered, right, weight, zero_or_one = (
        fields.get(name) for name in ("documents", "answered", "right", "weight", "zero_or_one")
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
