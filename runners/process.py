"""A child process as its parent sees it: events out of it, signals into it, its memory."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from runners.protocol import Event, parse

PYTHON = (sys.executable, "-P", "-s")
"""Python that imports nothing from its working folder or home, where an earlier child may write."""
LONGEST_LINE = 64 * 1024
EVENTS_AHEAD = 1000
END = None


@dataclass(frozen=True)
class Use:
    memory_bytes: int
    written_bytes: int


class Child:
    """A command run by `runners.child` in a session of its own; use it in a `with` statement.

    Leaving the statement kills whatever is left of the session.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        lifeline, self._lifeline = os.pipe()
        self._output, output = os.pipe()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", "runners.child", *command],
                env=dict(environment),
                cwd=folder,
                stdin=lifeline,
                stdout=output,
                stderr=stderr,
                start_new_session=True,
            )
        os.close(lifeline)
        os.close(output)
        self._events: queue.Queue[Event | None] = queue.Queue(EVENTS_AHEAD)
        self._said_all = False
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
        return self._said_all

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> int:
        """End the whole session; the exit status, negative where a signal ended the command."""
        self._signal(signal.SIGKILL)
        return self._process.wait()

    def use(self) -> Use:
        """What the processes of the session hold and have written."""
        memory = written = 0
        for pid in psutil.pids():
            try:
                if os.getsid(pid) != self._process.pid:
                    continue
                process = psutil.Process(pid)
                held = process.memory_info()
                # Pages of mapped files (weights as they are read) are the kernel's to take back.
                memory += held.rss - getattr(held, "shared", 0)
                written += process.io_counters().write_chars
            except (psutil.Error, ProcessLookupError, PermissionError):
                continue  # ended since it was listed
        return Use(memory, written)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self.kill()
        os.close(self._lifeline)
        self._reader.join()
        os.close(self._output)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _read(self) -> None:
        for line in _lines(self._output):
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


def _lines(descriptor: int) -> Iterator[bytes]:
    """Lines of a stream; one that is longer than any event of ours is dropped, not collected."""
    rest = b""
    while chunk := os.read(descriptor, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        if len(rest) > LONGEST_LINE:
            rest = b"\0"  # makes the line's end unreadable too
    if rest:
        yield rest
