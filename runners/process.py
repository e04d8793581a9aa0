"""A child process as its parent sees it: events out of it, signals into it, its memory."""

from __future__ import annotations

import contextlib
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
from types import TracebackType
from typing import Self

import psutil

from runners import descendants
from runners.protocol import Event, parse

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
    said_bytes: int = 0
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
        self._said = 0
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
        self._said_all = False
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
        if self._said_all:
            self._closing.wait(min(seconds, 0.05))
            return None
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            return None
        self._said_all = event is END
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
        return self._said_all or monotonic() - self._ended > LAST_WORDS

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def freeze(self) -> bool:
        """Stop all of it but what ends it with us; False where that cannot be done."""
        self._frozen = descendants.freeze(self.pid)
        return bool(self._frozen) and not self.has_ended()

    def begin_again(self, order: bytes, log: Path) -> bool:
        """Have a frozen child go on, and read this line; False where it cannot, or is not whole.

        What it says from now on counts, and nothing that it said before: its log is `log` now.
        """
        if self._frozen != set(descendants.living(self.pid)):
            return False  # such as the system kills for want of memory
        while not self._events.empty():
            self._said_all = self._events.get() is END or self._said_all
        self._said, self._log = 0, log
        self._log_before = log.stat().st_size
        try:
            taken = os.write(self._orders, order)
        except OSError:  # nobody reads it, or it has not read what came before
            return False
        descendants.thaw(self.pid)
        return taken == len(order) and not self._said_all

    def processor_seconds(self) -> float:
        """Of that of its processes which has used most."""
        return descendants.processor_seconds(self.pid)

    def kill(self) -> int:
        """End all of it; the exit status, negative where a signal ended the command."""
        if self._process.returncode is None:
            descendants.kill(self._process.pid)
            self._signal(signal.SIGKILL)
        try:
            return self._process.wait(LONGEST_DEATH)
        except subprocess.TimeoutExpired:
            logger.exception("process %d does not end although it was killed", self._process.pid)
            return -signal.SIGKILL

    def use(self) -> Use:
        """What its processes hold and have written."""
        memory = written = 0
        for process in descendants.living(self._process.pid):
            try:
                memory += descendants.own_memory(process)
                written += process.io_counters().write_chars
            except psutil.Error:
                continue  # ended since it was listed
        return Use(memory, written, self._said + self._log.stat().st_size - self._log_before)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            self._said += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > LONGEST_LINE:
                rest = b"\0"  # makes the line's end unreadable too
        if rest:
            yield rest
