"""One engine with one loaded model in a process of its own: `python -m bench.worker ENGINE FOLDER`.

Reads orders as JSON lines and answers each with one. Engines that share a process would share its
memory and warm each other's caches; here only one process works at a time.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.engines import Answer, Ask, Ours, Reference, Theirs
from bench.ideal import Work
from bench.measure import Meter, matmul_peak

GENERATION = {"until": [], "max_gen_toks": 2, "do_sample": False}
WARM_UP: tuple[list[Ask], ...] = (
    [Ask("loglikelihood", "A first question.", f" answer {n}", None, 0) for n in range(3)],
    [Ask("generate_until", "A first question.", "", GENERATION, 0)],
)
"""What is loaded only when it is used first is not the first workload's."""


class Worker:
    """The far end: does what it is told with its model."""

    def __init__(self, engine: str, folder: Path, device: str, dtype: str, path: str) -> None:
        import torch
        from transformers import AutoTokenizer

        from bench.models import drawn

        self._device, self._dtype = device, getattr(torch, dtype)
        model = drawn(folder, device, self._dtype)
        if engine == "reference":
            # Of the very weights that the engines have; what they round when computing is theirs.
            model = model.float()
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._model = model
        self._engine: Any = {"theirs": Theirs, "reference": Reference}.get(engine, Ours)(
            model, tokenizer
        )
        if engine == "ours":
            self._engine.path = path
        for asks in WARM_UP:
            self._engine.answer(asks, None)
        self._meter = Meter(device)

    def facts(self) -> dict[str, Any]:
        """The model's size, and the GPU's name where there is one."""
        import torch

        cuda = self._device.startswith("cuda")
        return {
            "parameters": sum(weights.numel() for weights in self._model.parameters()),
            "gpu": torch.cuda.get_device_name(self._device) if cuda else None,
        }

    def peak(self) -> float:
        return matmul_peak(self._device, self._dtype)

    def answer(
        self, asks: Sequence[Mapping[str, Any]], window: int | None, rows: int | None
    ) -> dict[str, Any]:
        requests = [Ask(**ask) for ask in asks]
        if rows is not None:
            self._engine.rows = rows
        self._meter.start()
        answers = self._engine.answer(requests, window)
        return {
            **self._done(answers),
            "phases": asdict(self._engine.phases) if isinstance(self._engine, Ours) else None,
            "paths": getattr(self._engine, "paths", None),
        }

    def profile(self, asks: Sequence[Mapping[str, Any]], window: int | None) -> dict[str, float]:
        shares: dict[str, float] = self._engine.profile([Ask(**ask) for ask in asks], window)
        return shares

    def evaluate(self, folder: str, tasks: Sequence[str], rows: int | None) -> dict[str, Any]:
        if rows is not None:
            self._engine.rows = rows
        self._meter.start()
        answers = self._engine.evaluate(Path(folder), tasks)
        return {**self._done(answers), "paths": getattr(self._engine, "paths", None)}

    def refer(self, asks: Sequence[Mapping[str, Any]], window: int | None) -> dict[str, Any]:
        """The reference's answers, and what it was fed for them."""
        answers = self._engine.answer([Ask(**ask) for ask in asks], window)
        return {"answers": [asdict(answer) for answer in answers], "fed": self._engine.fed}

    def operations(self, work: Mapping[str, int]) -> float:
        """Floating-point operations that this work is for the model."""
        return Work(**work).operations(self._model)

    def build(self, folder: str, task: str) -> dict[str, Any]:
        """The requests of a task file in text, and the CPU seconds that making them took."""
        from evalcore.building import task_of
        from evalcore.task.library.load import TaskLibrary

        spec: Any = TaskLibrary([Path(folder)]).one(task)
        found = task_of(spec, mode="compat")
        assert found.docs
        begin = time.process_time()
        items = found.items()
        taken = time.process_time() - begin
        asks = [
            Ask(request.kind, request.context, request.continuation, request.generation, number)
            for number, item in enumerate(items)
            for request in item.requests
        ]
        return {"asks": [asdict(ask) for ask in asks], "seconds": taken}

    def _done(self, answers: Sequence[Answer]) -> dict[str, Any]:
        cost = self._meter.stop()
        return {"answers": [asdict(answer) for answer in answers], "cost": asdict(cost)}


class Process:
    """The near end: a worker to give orders to."""

    def __init__(
        self,
        engine: str,
        folder: Path,
        *,
        device: str,
        dtype: str,
        path: str = "auto",
        threads: int = 1,
        number: int = 0,
    ) -> None:
        """`number` tells processes of one engine apart."""
        self._log = (folder / f"{engine}-{number}.log").open("w+")
        count = str(threads)
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
        environment = {
            **os.environ,
            **dict.fromkeys(names, count),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        }
        arguments = [engine, str(folder), device, dtype, path]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )
        self.engine = engine

    def ask(self, order: str, **arguments: Any) -> Any:
        """What the method of that name gives. Raises WorkFailed with the end of its log."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([order, arguments]) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._log.seek(0)
            raise WorkFailed(f"{self.engine} ended:\n{self._log.read()[-2000:]}")
        done = json.loads(answer)
        if "problem" in done:
            raise WorkFailed(f"{self.engine}: {done['problem']}")
        return done["result"]

    def end(self) -> None:
        self._process.communicate()
        self._log.close()


class WorkFailed(Exception):
    """An engine could not do what it was asked."""


def serve(arguments: Sequence[str]) -> None:
    # Whatever an engine prints must not come between the answers.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        engine, folder, device, dtype, path = arguments
        worker = Worker(engine, Path(folder), device, dtype, path)
        for line in sys.stdin:
            order, values = json.loads(line)
            try:
                answer = {"result": getattr(worker, order)(**values)}
            except Exception as problem:
                answer = {"problem": f"{type(problem).__name__}: {problem}"[:2000]}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve(sys.argv[1:])
