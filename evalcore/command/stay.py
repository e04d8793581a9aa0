"""`--stay`: one process for several runs, one after the other, that keeps its model's weights.

Everything else is made anew for each run, as in a process of its own: the tokenizer, what computes,
the journal, the modules of the model. Only the imports and the memory of the weights are kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from evalcore.command.options import OptionError
from evalcore.engine import IMPORTED_AT
from evalcore.progress import JsonLines


class Staying:
    """What the process has of the runs before, and the next command."""

    def __init__(self) -> None:
        self.began = IMPORTED_AT
        """When the run at hand was asked for, by `time.monotonic`."""
        self._show: JsonLines | None = None
        self._name = ""
        self._load: Callable[..., Any] | None = None

    def begin(self, options: argparse.Namespace) -> Callable[[], Any] | None:
        """What loads the model of a run after which this process stays; None for any other run.

        Raises OptionError for options that do not go with `--stay`.
        """
        if not options.stay:
            return None
        from evalcore.command.importing import backend
        from evalcore.command.selection import devices_wanted, loaded_by
        from evalcore.model.protocols import Lasting

        if not isinstance(options.show, JsonLines):
            raise OptionError("--stay: the next command is a program's: add --progress json")
        if options.adapters or len(devices_wanted(options)) > 1:
            raise OptionError(
                "--stay: one process keeps the weights of one model: leave --adapters, "
                "--data_parallel, tp_plan and torchrun out"
            )
        if options.model != self._name:
            kind = backend(options.model)
            self._name = options.model
            self._load = kind.lasting() if isinstance(kind, Lasting) else kind.from_arguments
        self._show = options.show
        assert self._load is not None  # noqa: S101  # with the name
        return partial(loaded_by, self._load, options)

    def next_command(self) -> list[str] | None:
        """The arguments of the next run, a JSON list on a line of standard input.

        None where no run stays, or nobody has another command. Raises OptionError for a line that
        is no such list.
        """
        if self._show is None:
            return None
        show, self._show = self._show, None
        _let_go()
        show.waits()
        line = sys.stdin.readline()
        self.began = time.monotonic()
        if not line.strip():
            return None
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise OptionError(
                f"--stay: standard input: expected a JSON list of arguments, got {line[:80]!r}"
            )
        return ["run", *given] if given[:1] != ["run"] else given


def _let_go() -> None:
    """Of all memory but that of the weights."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
