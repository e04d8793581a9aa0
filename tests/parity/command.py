"""A command or a test's process, started quickly: `python -m tests.parity.command MODULE ...`.

YAML is read in C, and lm-evaluation-harness reads no task files of its own, thousands of which no
case asks for: two thirds of the time that it needs to start. Nor does it describe the machine.
"""

from __future__ import annotations

import runpy
import sys
from functools import partialmethod
from typing import Any

from tests.parity.quick_start import keep_index, start_quickly


def leave_the_machine_out() -> None:
    """Which packages and processors there are it asks half a dozen programs: two seconds."""
    from lm_eval.loggers import utils

    utils.get_pretty_env_info = str


def leave_its_own_tasks_out() -> None:
    from lm_eval.tasks import TaskManager

    made: Any = partialmethod(TaskManager.__init__, include_defaults=False)
    TaskManager.__init__ = made


if __name__ == "__main__":
    start_quickly()
    del sys.argv[0]
    if sys.argv[0] == "lm_eval":
        leave_its_own_tasks_out()
        leave_the_machine_out()
        keep_index()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
