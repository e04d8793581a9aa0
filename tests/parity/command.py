"""An engine's command as it is, started quickly: `python -m tests.parity.command MODULE ...`.

YAML is read in C, and lm-evaluation-harness reads no task files of its own, thousands of which no
case asks for: two thirds of the time that it needs to start.
"""

from __future__ import annotations

import gc
import runpy
import sys
from functools import partialmethod
from typing import Any

from tests.parity.yaml_once import read_yaml_once


def leave_its_own_tasks_out() -> None:
    from lm_eval.tasks import TaskManager

    made: Any = partialmethod(TaskManager.__init__, include_defaults=False)
    TaskManager.__init__ = made


if __name__ == "__main__":
    gc.set_threshold(10_000, 20, 50)  # what is imported stays
    read_yaml_once()
    del sys.argv[0]
    if sys.argv[0] == "lm_eval":
        leave_its_own_tasks_out()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
