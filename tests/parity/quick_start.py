"""What an engine's process does first in a test, to spend its time on what is tested.

`python -m tests.parity.quick_start MODULE ...` starts a command or a test's process so. Then
lm-evaluation-harness reads no task files of its own, thousands of which no case asks for: two
thirds of the time that it needs to start. Nor does it describe the machine.

`datasets` reads a data set's README again for each of its configurations: minutes for MMLU's 57
subjects in the parser of YAML that is written in Python. The one written in C reads the same
language. And what is imported stays: a fifth of the imports' time goes into looking for garbage.
"""

from __future__ import annotations

import copy
import fcntl
import gc
import hashlib
import json
import os
import pickle
import runpy
import sys
from functools import cache, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rouge_score.scoring import BootstrapAggregator

INDEX = "PARITY_INDEX"
"""Names the folder that keeps lm-evaluation-harness's indices of task files."""


def start_quickly() -> None:
    """YAML is read in C, and each text once; garbage is looked for seldom."""
    gc.set_threshold(10_000, 20, 50)
    yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc, assignment]
    yaml.safe_load = _safe_load
    _draw_from_one_row_once()


def _draw_from_one_row_once() -> None:
    """Of one score a task of lm-evaluation-harness's draws a thousand samples: that score each."""
    drawn = BootstrapAggregator._bootstrap_resample

    def resample(self: Any, matrix: Any) -> Any:
        if len(matrix) == 1:
            return np.repeat(matrix.astype(float), 3, axis=0)
        return drawn(self, matrix)

    BootstrapAggregator._bootstrap_resample = resample


def keep_index() -> None:
    """Have lm-evaluation-harness read its task files once for all processes that share a folder:
    14,000 of its own, 3,000 of ours."""
    from lm_eval.tasks._index import TaskIndex

    if INDEX not in os.environ:
        return
    folder, build = Path(os.environ[INDEX]), TaskIndex.build

    def kept(paths: Any, **options: Any) -> Any:
        paths = list(paths)
        wanted = json.dumps([list(map(str, paths)), options])
        file = folder / f"{hashlib.sha256(wanted.encode()).hexdigest()}.pickle"
        folder.mkdir(parents=True, exist_ok=True)
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.is_file():
                file.write_bytes(pickle.dumps(build(paths, **options)))
        return pickle.loads(file.read_bytes())

    TaskIndex.build = staticmethod(kept)


def look_up_each_data_set_once() -> None:
    """`datasets` asks the Hub anew for each configuration which files a data set has: of MMLU,
    57 times."""
    from datasets import load

    found = load.dataset_module_factory
    known: dict[str, Any] = {}

    def once(path: str, **stated: Any) -> Any:
        wanted = repr([path, *sorted(stated.items())])
        if stated.get("download_config") is not None or Path(path).exists():
            return found(path, **stated)
        if wanted not in known:
            known[wanted] = found(path, **stated)
        return copy.deepcopy(known[wanted])  # whoever is given it takes parts out

    load.dataset_module_factory = once


def _safe_load(stream: Any) -> Any:
    """Each caller has objects of its own."""
    if isinstance(stream, str):
        return pickle.loads(_read(stream))
    return yaml.load(stream, yaml.CSafeLoader)


@cache
def _read(text: str) -> bytes:
    return pickle.dumps(yaml.load(text, yaml.CSafeLoader))


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
