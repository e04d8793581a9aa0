"""What a run says while it works: a bar for people, lines of JSON for a worker."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from evalcore.errors import EvalError

if TYPE_CHECKING:
    from evalcore.record import RunRecord


class StopRequest:
    """Set by SIGTERM or SIGINT; the run ends after its current pack. A second signal kills."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(number, signal.SIG_DFL)


class JsonLines:
    """One JSON object a line on standard output, flushed at once; in words on standard error."""

    def __init__(self) -> None:
        self._stop = StopRequest()
        self._last = 0.0

    def start(self) -> None:
        self._stop.listen()

    def phase(self, name: str) -> None:
        self._say(event="phase", phase=name)
        sys.stderr.write(f"evalcore: {name}\n")

    def progress(self, task: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._last >= 0.2:
            self._last = now
            self._say(event="progress", task=task, done=done, total=total)

    def wants_stop(self) -> bool:
        return self._stop.asked

    def task(self, record: RunRecord, record_path: Path, samples_path: Path) -> None:
        paths = {"record": str(record_path), "samples": str(samples_path)}
        self._say(event="task", task=record.task, **paths)

    def error(self, error: EvalError) -> None:
        about = {"task": error.task} if error.task else {}
        name = type(error).__name__
        self._say(event="error", **{"class": name}, message=error.reason, **about)
        sys.stderr.write(f"evalcore: {name}: {error.reason}\n")

    def done(self, files: Mapping[str, Path]) -> None:
        self._say(event="done", files={name: str(path) for name, path in files.items()})

    def _say(self, **fields: Any) -> None:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


class Bar:
    """A progress bar on standard error and a table of results on standard output."""

    def __init__(self) -> None:
        self._stop = StopRequest()
        self._bar: Any = None
        self._line: Any = None

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        self._stop.listen()
        self._bar = Progress(
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._line = self._bar.add_task("starting", total=None)
        self._bar.start()

    def phase(self, name: str) -> None:
        self._bar.update(self._line, description=name, total=None, completed=0)

    def progress(self, task: str, done: int, total: int) -> None:
        self._bar.update(self._line, description=task, completed=done, total=total)

    def wants_stop(self) -> bool:
        return self._stop.asked

    def task(self, record: RunRecord, *_paths: Path) -> None:
        from rich.table import Table

        table = Table("task", "version", "shots", "metric", "value", "95 % interval", "n")
        for row in record.results:
            if row.task == record.task:
                table.add_row(
                    f"{row.task}: {row.subset}" if row.subset else row.task,
                    record.version,
                    str(record.shots),
                    row.metric,
                    f"{row.value:.4f}",
                    f"{row.low:.4f}–{row.high:.4f}",
                    str(row.n),
                )
        self._bar.stop()
        self._print(table)
        self._bar.start()

    def error(self, error: EvalError) -> None:
        self._end()
        sys.stderr.write(f"evalcore: {error}\n")

    def done(self, files: Mapping[str, Path]) -> None:
        self._end()
        for name, path in files.items():
            self._print(f"{name}: {path}")

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    @staticmethod
    def _print(what: object) -> None:
        from rich.console import Console

        Console().print(what, soft_wrap=True)


SHOWS: Mapping[str, type[Bar] | type[JsonLines]] = {"bar": Bar, "json": JsonLines}
