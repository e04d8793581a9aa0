"""What a run says while it works: a bar for people, lines of JSON for a worker."""

from __future__ import annotations

import copy
import json
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.errors import EvalError
from evalcore.remarks import remarks_on
from evalcore.result_table import result_table
from evalcore.stopping import SAID, Stoppable

if TYPE_CHECKING:
    from evalcore.record import RunRecord
    from evalcore.watch import Look


SECONDS_BETWEEN_LINES = 10

FOLDED = {"task": 10, "filter": 8, "metric": 8}
"""The columns of a table that may take several lines, and how narrow they may get; a number that is
split cannot be read."""


def in_words(error: EvalError) -> str:
    """The line that tells of an error; docs/engine.md says whose fault each class means."""
    return f"evalcore: {type(error).__name__}: {error.reason}\n"


class Show(Stoppable):
    """What is told to people or programs while a command works, and how they stop it."""

    def look(self, look: Look) -> None:
        """Said to programs: a person at a terminal has the score itself soon."""

    def documents(self, task: str, digest: str, n: int) -> None:
        """How many documents a task asks, and the SHA-256 of their digests."""
        say(f"{task}: {n:,} documents, {digest}")

    def error(self, error: EvalError) -> None:
        self._end()
        sys.stderr.write(in_words(error))

    def stopped(self) -> None:
        self.over()
        self._end()
        sys.stderr.write(f"evalcore: {SAID}\n")

    def _end(self) -> None:
        """Before the last words."""


class JsonLines(Show):
    """One JSON object a line on standard output, flushed at once; in words on standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def phase(self, name: str) -> None:
        super().phase(name)
        self._say(event="phase", phase=name)
        sys.stderr.write(f"evalcore: {name}\n")

    def progress(self, task: str, done: int, total: int, tokens: int) -> None:
        now = time.monotonic()
        if done == total or now - self._last.get(task, 0.0) >= 0.2:
            self._last[task] = now
            self._say(event="progress", task=task, done=done, total=total, tokens=tokens)

    def look(self, look: Look) -> None:
        self._say(event="look", **look.as_json())

    def documents(self, task: str, digest: str, n: int) -> None:
        self._say(event="documents", task=task, docs_digest=digest, n=n)

    def task(self, record: RunRecord, files: tuple[Path, Path], error: EvalError | None) -> None:
        """Nothing of one without a number: who reads these lines learns it at the end."""
        if error is None:
            paths = dict(zip(("record", "samples"), map(str, files), strict=True))
            self._say(event="task", task=record.task, **paths)

    def error(self, error: EvalError) -> None:
        about = {"task": error.task} if error.task else {}
        name = type(error).__name__
        self._say(event="error", **{"class": name}, message=error.reason, **about)
        super().error(error)

    def done(self, files: Mapping[str, Path]) -> None:
        self._say(event="done", files={name: str(path) for name, path in files.items()})

    def waits(self) -> None:
        """The process stays, and has nothing to do until it is given another command."""
        self._say(event="waits")

    def _say(self, **fields: Any) -> None:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


class Bar(Show):
    """A progress bar on standard error; at the end a table of results on standard output.

    Where nobody watches (standard error is a file or a pipe) it is lines instead, which a file can
    keep: one for each ten seconds, and for the beginning and the end of each task.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None
        self._line: Any = None
        self._finished: list[RunRecord] = []
        self._begun: set[str] = set()
        """The tasks that have a line, the last of them written at `_last`."""
        self._last = 0.0
        self._begin()

    def _begin(self) -> None:
        """The model begins to be asked: its speed is that of all tasks asked at once."""
        self._began = time.monotonic()
        self._tokens: dict[str, int] = {}

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        super().start()
        console = Console(stderr=True)
        if not console.is_terminal:
            return
        self._bar = Progress(
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            "{task.fields[speed]}",
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._line = self._bar.add_task("starting", total=None, speed="")
        self._bar.start()

    def phase(self, name: str) -> None:
        super().phase(name)
        if name == "evaluate":
            self._begin()
        if self._bar is None:
            return
        self._bar.remove_task(self._line)
        self._line = self._bar.add_task(name, total=None, speed="")

    def progress(self, task: str, done: int, total: int, tokens: int) -> None:
        now = time.monotonic()
        self._tokens[task] = tokens
        seconds, tokens = now - self._began, sum(self._tokens.values())
        speed = f"{tokens / seconds:,.0f} tokens/s" if tokens and seconds > 0 else ""
        if self._bar is not None:
            self._bar.update(self._line, description=task, completed=done, total=total, speed=speed)
        elif task not in self._begun or done >= total or now - self._last >= SECONDS_BETWEEN_LINES:
            self._begun.add(task)
            self._last = now
            sys.stderr.write(f"evalcore: {task}: {done} of {total}{speed and f', {speed}'}\n")

    def task(self, record: RunRecord, *_: object) -> None:
        self._finished.append(record)

    def done(self, files: Mapping[str, Path]) -> None:
        self._end()
        for name, path in files.items():
            say(f"{name}: {path}")

    def _end(self) -> None:
        """Whatever was finished is shown, even where what came next failed."""
        if self._bar is not None:
            self._bar.stop()
        if self._finished:
            width = shutil.get_terminal_size().columns
            sys.stdout.write(result_table(self._finished, width))
            for line in remarks_on(self._finished):
                say(line)
        self._finished = []


def empty_table(*columns: str) -> Any:
    """A table without walls: the usual one fits a terminal of 80 columns."""
    from rich import box
    from rich.table import Column, Table

    heads = [Column(name, no_wrap=name not in FOLDED, overflow="fold") for name in columns]
    return Table(*heads, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def first_prompts(samples: Iterable[Mapping[str, Any]]) -> str:
    """The first document of each task, as it was asked."""
    shown: dict[str, str] = {}
    for sample in samples:
        shown.setdefault(
            sample["task"],
            f"--- {sample['task']}, document {sample['doc_id']}\n{sample['prompt']}\n"
            f"--- target: {sample['target']}\n",
        )
    return "".join(shown.values())


def say(what: Any) -> None:
    """Prints on standard output.

    In a terminal that is too narrow for a table its columns stand closer and its names are folded.
    In a file or a pipe, and where that is not enough, a row stays a line.
    """
    from rich.console import Console

    console, endless = Console(), Console(width=1000)
    folds = False
    if not isinstance(what, str) and (wide := endless.measure(what).maximum) > console.width:
        close = copy.copy(what)
        close.padding = 0
        least = endless.measure(close).maximum - _spare(close)
        folds = console.is_terminal and least <= console.width
        what, console = (close, console) if folds else (what, Console(width=wide))
        for column in close.columns if folds else ():
            column.min_width = FOLDED.get(str(column.header))
    console.print(what, soft_wrap=not folds, highlight=False, markup=False)


def _spare(table: Any) -> int:
    """By how much the columns that may be folded can get narrower."""
    widths = (
        max((len(cell) for cell in column.cells), default=0) - FOLDED[column.header]
        for column in table.columns
        if column.header in FOLDED
    )
    return sum(max(width, 0) for width in widths)


SHOWS: Mapping[str, type[Bar] | type[JsonLines]] = {"bar": Bar, "json": JsonLines}
