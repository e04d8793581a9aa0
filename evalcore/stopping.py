"""How a command ends when it is asked to: soon, and with what was answered in the journal.

A pack at hand is finished. Everything else is left at once, or, where it does not let itself be
left (a download that hangs in a library's thread, code that catches everything), with the process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from evalcore.errors import Stopped

STOPPED = 75
"""Exit status after SIGTERM or SIGINT: run the same command again to go on."""

SAID = "stopped; the same command goes on"
SHOW_CURSOR = b"\x1b[?25h"
"""To a terminal, whose cursor a progress bar hides."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

FINISHES = ("evaluate", "score")
"""Phases that come to an end of their own: that of a pack, and that of a few seconds."""

GRACE = {"score": 7.0}
GRACE_ELSEWHERE = 3.0
"""Seconds from the signal to the end of the process, by phase; a pack has as many as it takes."""


class Stoppable:
    """Notes when SIGTERM or SIGINT asks it to stop. A second signal kills."""

    def __init__(self) -> None:
        self._asked = False
        self._phase = ""
        self._over = False
        self._before: dict[signal.Signals, Any] = {}
        self._tells = -1

    def wants_stop(self) -> bool:
        return self._asked

    def start(self) -> None:
        hears, self._tells = os.pipe()
        os.set_blocking(self._tells, False)
        # Written to by Python's own handler in C, also while the main thread is in a library.
        signal.set_wakeup_fd(self._tells, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        thread = threading.Thread(target=self._insist, args=(hears,), daemon=True)
        thread.name = "evalcore-stop"
        thread.start()

    def close(self) -> None:
        """The signals mean what they did before, unless one came."""
        if self._asked or not self._before:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self._tells)
        self._before = {}

    def phase(self, name: str) -> None:
        """Raises Stopped where what begins now would be left at once."""
        self._phase = name
        if self._asked and name not in FINISHES:
            raise Stopped

    def over(self) -> None:
        """Nothing is left to do but to end."""
        self._over = True

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._asked = True
        signal.signal(number, signal.SIG_DFL)
        if self._over:
            return
        if self._phase in FINISHES:
            # Python's own streams are not safe to write to in the midst of whatever they do.
            os.write(2, b"evalcore: stopping after the pack at hand; once more to stop at once\n")
        else:
            raise Stopped

    def _insist(self, hears: int) -> None:
        """In a thread of its own: ends the process where the signal alone does not."""
        said = b""
        while not set(said) & set(SIGNALS):
            if not (said := os.read(hears, 64)):
                os.close(hears)
                return
        asked = time.monotonic()
        while True:
            time.sleep(0.05)
            waited = time.monotonic() - asked
            if self._phase == "evaluate" and not self._over:
                asked = time.monotonic()  # the pack; what follows it has its seconds from then on
            elif waited > GRACE.get(self._phase, GRACE_ELSEWHERE) or (self._over and waited > 1):
                self._leave()

    def _leave(self) -> None:
        """End the process now, whatever its threads are at."""
        with suppress(OSError):
            if os.isatty(2):
                os.write(2, SHOW_CURSOR)
            if not self._over:
                os.write(2, f"evalcore: {SAID}\n".encode())
        os._exit(STOPPED)
