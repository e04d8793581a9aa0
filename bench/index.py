"""The names in lm-evaluation-harness's own folder of 14,000 task files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from bench.timing import Comparison, seconds

THEIR_INDEX = """
import time
from lm_eval.tasks import TaskManager
begin = time.perf_counter()
TaskManager()
print(time.perf_counter() - begin)
"""
OUR_INDEX = """
import sys, time
from pathlib import Path
from evalcore.task.library.load import TaskLibrary
begin = time.perf_counter()
TaskLibrary([Path(sys.argv[1])])
print(time.perf_counter() - begin)
"""


def compare() -> Iterator[Comparison]:
    spec = find_spec("lm_eval")
    assert spec is not None
    assert spec.origin is not None
    folder = str(Path(spec.origin).parent / "tasks")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "EVALCORE_CACHE": cache}
        theirs = min(_printed(THEIR_INDEX, environment) for _ in range(2))
        cold = _printed(OUR_INDEX, environment, folder)
        warm = min(_printed(OUR_INDEX, environment, folder) for _ in range(3))
        yield Comparison("index of the folder, first time", theirs, cold)
        yield Comparison("index of the folder, from then on", theirs, warm)
        yield Comparison(
            "the command `ls tasks`, from start to end",
            seconds(lambda: _run(["-m", "lm_eval", "ls", "tasks"], environment)),
            seconds(
                lambda: _run(
                    ["-m", "evalcore", "ls", "tasks", "--include_path", folder], environment
                ),
                at_best_of=3,
            ),
        )


def _printed(code: str, environment: dict[str, str], *arguments: str) -> float:
    return float(_run(["-c", code, *arguments], environment).split()[-1])


def _run(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments[:4])} failed:\n{done.stderr[-2000:]}")
    return done.stdout
