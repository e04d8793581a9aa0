"""Celery's app of a worker that dies with a hint in its hand: `celery --app tests.chaos.dying`.

It is killed by -9 when the pool has begun the task, in the moment before it would claim.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from celery.signals import task_prerun

from runners.celery import EVALUATE, app
from tests.chaos.messages import LAST_WORDS

__all__ = ["app"]


@task_prerun.connect  # type: ignore[untyped-decorator]
def _die(task: Any, task_id: str, **_: Any) -> None:
    if task.name == EVALUATE:
        sys.stderr.write(f"{LAST_WORDS} {task_id}\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
