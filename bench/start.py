"""The start of a run: both commands on a tiny model, until it is first asked and until they end.

In processor time of the whole process, which a busy machine changes least, and without what is done
once: the files and the prepared data are there from a run before. `import torch`, which both need,
is in it, and stands in the note by itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.timing import Comparison

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
MODEL = "pretrained=plumbline-demo/novice-llama,dtype=float32"
TASK = "demo_sums"

TORCH = "import time, torch; print(time.process_time())"

RUN = r"""
import runpy, sys, time
from torch.nn import functional
embedding = functional.embedding
def first(tokens, *others, **named):
    if tokens.device.type != "meta":
        functional.embedding = embedding
        print("\nFIRST", time.process_time(), file=sys.stderr)
    return embedding(tokens, *others, **named)
functional.embedding = first
del sys.argv[0]
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
finally:
    print("\nEND", time.process_time(), file=sys.stderr)
"""
"""Every way to run a language model begins by looking up its tokens' embeddings."""


def compare() -> Iterator[Comparison]:
    with tempfile.TemporaryDirectory() as folder, _hub() as url:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
            "HF_ENDPOINT": url,
            "HF_HOME": folder,
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "OMP_NUM_THREADS": "1",
        }
        asked = ("--model", "hf", "--model_args", MODEL, "--tasks", TASK, "--limit", "4")
        theirs = ("lm_eval", "run", *asked, "--device", "cpu", "--include_path", "tasks/demo")
        ours = ("evalcore", "run", *asked, "--device", "cpu")
        for command in (theirs, ours):
            _times(command, environment)  # what is done once
        best = {"theirs": (1e9, 1e9), "ours": (1e9, 1e9)}
        torch = 1e9
        for _ in range(ROUNDS):  # in turn, since the machine is not the same at all times
            torch = min(torch, float(_run(["-c", TORCH], environment).stdout))
            for whose, command in (("theirs", theirs), ("ours", ours)):
                first, end = _times(command, environment)
                best[whose] = (min(best[whose][0], first), min(best[whose][1], end))
        note = f"processor time; `import torch` alone {torch:.2f} s"
        for place, work in enumerate(
            ("a run, until the model is first asked", "a run of 4 questions, from start to end")
        ):
            yield Comparison(work, best["theirs"][place], best["ours"][place], note)


@contextmanager
def _hub() -> Iterator[str]:
    """The demo's models and data on a local Hub; yields its address."""
    command = [sys.executable, "-m", "demo.hub", "demo/content", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as hub:
        assert hub.stdout is not None
        try:
            announced = re.search(r"http://\S+", hub.stdout.readline())
            if announced is None:
                raise SystemExit("the local Hub did not start")
            yield announced[0]
        finally:
            hub.terminate()


def _times(command: tuple[str, ...], environment: dict[str, str]) -> tuple[float, float]:
    """Processor seconds of a process until its model is first asked, and until its end."""
    said = _run(["-c", RUN, *command], environment).stderr
    first, end = (re.findall(rf"^{mark} (\S+)$", said, re.MULTILINE) for mark in ("FIRST", "END"))
    return float(first[0]), float(end[-1])


def _run(arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments[2:5])} failed:\n{done.stderr[-2000:]}")
    return done
