"""A worker at work beside the site: `python -m bench.site.beside` evaluates until it is ended.

What a worker's process does on a machine that serves as well: a model of 30 million parameters
answers questions by the engine, on all cores and at the priority of any process.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.engines import Ask, Ours
from bench.models import Model, save_config, save_tokenizer
from bench.texts import SYLLABLES
from runners.supervisor import ROOT, CannotStart

MODEL = Model("llama", "30m", 2000)
QUESTIONS, WORDS = 64, 200
AT_WORK = "at work"


@contextmanager
def working() -> Iterator[psutil.Process]:
    """The worker, which computes from the first moment on."""
    command = [sys.executable, "-m", "bench.site.beside"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or AT_WORK not in process.stdout.readline():
            raise CannotStart("the worker beside the site does not start; its last lines are above")
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def main() -> None:
    import torch
    from transformers import AutoTokenizer

    from bench.models import drawn

    with tempfile.TemporaryDirectory() as folder:
        texts = list(_texts())
        save_tokenizer(MODEL, texts, Path(folder))
        save_config(MODEL, Path(folder))
        engine = Ours(
            drawn(Path(folder), "cpu", torch.float32), AutoTokenizer.from_pretrained(folder)
        )
        asks = [Ask("loglikelihood", text, " an answer", None, n) for n, text in enumerate(texts)]
        engine.answer(asks[:2], None)
        print(AT_WORK, flush=True)
        while True:
            engine.answer(asks, None)


def _texts() -> Iterator[str]:
    draw = random.Random(7)
    for _ in range(QUESTIONS):
        yield " ".join("".join(draw.choices(SYLLABLES, k=3)) for _ in range(WORDS))


if __name__ == "__main__":
    main()
