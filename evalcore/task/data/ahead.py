"""The data of tasks loaded while something else is awaited."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.data.dataset import load_data


class DataAhead:
    """In a `with` statement: downloads and prepares data, which then lie ready on the disk.

    What fails is said when it is the task's turn. Data that a task's code makes are left alone.
    """

    def __init__(self, specs: Sequence[TaskSpec | GroupSpec]) -> None:
        leaves = (leaf for spec in specs for leaf in spec.leaves())
        self._leaves = [one for one in leaves if not one.custom_dataset and not one.python_class]
        self._over = threading.Event()
        # Nobody waits at the end for a download that hangs.
        self._thread = threading.Thread(target=self._load, name="evalcore-data", daemon=True)

    def _load(self) -> None:
        for leaf in self._leaves:
            if self._over.is_set():
                return
            with suppress(Exception):
                load_data(leaf)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends with the data set at hand; two threads would wait for one another's file locks.

        Not after an error, when nobody asks for the data any more.
        """
        self._over.set()
        if error is None:
            self._thread.join()
