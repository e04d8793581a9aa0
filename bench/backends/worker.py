"""One backend with one model in a process of its own: answers workloads, and says what it took.

    python -m bench.backends.worker BACKEND MODEL ASKS RESULT [ADDRESS PID]

ASKS and RESULT are files: requests by workload, and for each the answers and the CPU seconds of all
threads. Tokenising is counted, loading and a first small workload of each kind are not. What would
take longer than ASKS allows is not answered: its seconds are those of the workload before, in
proportion to the text. ADDRESS and PID are of a server, of which the CPU seconds are told, too.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.backends.servers import Server, TheirClient
from bench.engines import Answer, Ask, Theirs
from evalcore.model.base import Request
from evalcore.model.registry import backend_of

BLOCK = "32"
"""Tokens that vLLM keeps together; its build for processors takes no fewer."""

WARM_UP = [
    *(Ask("loglikelihood", "A first question.", f" answer {n}", None, 0) for n in range(3)),
    Ask("loglikelihood", "A first question. " * 20, " some answer to it", None, 1),
    Ask("generate_until", "A first one.", "", {"until": ["\n"], "max_gen_toks": 2}, 2),
]


class Evalcore:
    """One of evalcore's backends by its name."""

    def __init__(self, name: str, stated: Mapping[str, Any]) -> None:
        self._lm = backend_of(name).from_arguments(stated)
        self.paths: dict[str, int] = {}
        self.rows = 1
        """Of lm-evaluation-harness's batches: evalcore finds its own."""

    def answer(self, asks: Sequence[Ask]) -> list[Answer]:
        requests = [
            Request(ask.kind, ask.context, ask.continuation, ask.generation) for ask in asks
        ]
        encoded = self._lm.encode(requests)
        found = dict(pair for pack in self._lm.answer(encoded) for pair in pack)
        self.paths = {}
        for response in found.values():
            self.paths[response.path] = self.paths.get(response.path, 0) + 1
        return [
            Answer(text=found[place].text)
            if ask.kind == "generate_until"
            else Answer(found[place].loglikelihood, found[place].is_greedy)
            for place, ask in enumerate(asks)
        ]


class TheirVllm(Theirs):
    """lm-evaluation-harness's backend of vLLM, at its own defaults but for eager execution."""

    def __init__(self, folder: str) -> None:
        from lm_eval.models.vllm_causallms import VLLM

        self._lm = VLLM(pretrained=folder, dtype="float32", enforce_eager=True, batch_size="auto")
        self.paths: dict[str, int] = {}

    def loaded(self, window: int | None) -> Any:  # noqa: ARG002
        return self._lm


class TheirModel(Theirs):
    """lm-evaluation-harness's backend of transformers, at its own defaults but for the rows."""

    def __init__(self, folder: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        super().__init__(model.eval(), AutoTokenizer.from_pretrained(folder))  # type: ignore[no-untyped-call]
        self.paths: dict[str, int] = {}


def loaded(backend: str, folder: str, server: Server | None) -> Any:
    """Raises KeyError for a backend that there is not."""
    if backend == "lm_eval":
        return TheirVllm(folder)
    if backend == "lm_eval_hf":
        return TheirModel(folder)
    if server is not None:
        if backend == "lm_eval_server":
            return TheirClient(server, folder)
        return Evalcore("local-completions", {**server.arguments, "tokenizer": folder})
    own = {"hf": {}, "vllm": {"enforce_eager": "True", "block_size": BLOCK}}[backend]
    return Evalcore(backend, {"pretrained": folder, "dtype": "float32", **own})


def answered(engine: Any, asks: Sequence[Ask]) -> list[Answer]:
    """lm-evaluation-harness takes one kind at a time, and a window that is not stated here."""
    return list(engine.answer(asks, None) if isinstance(engine, Theirs) else engine.answer(asks))


def main(
    backend: str, folder: str, asks: str, result: str, address: str = "", pid: str = ""
) -> None:
    order: Mapping[str, Any] = json.loads(Path(asks).read_text())
    server = Server(address, int(pid)) if address else None
    began = time.process_time()
    engine = loaded(backend, folder, server)
    for rows in sorted(set(order["rows"].values())):
        engine.rows = rows
        for kind in ("loglikelihood", "generate_until"):
            answered(engine, [ask for ask in WARM_UP if ask.kind == kind])
    done: dict[str, Any] = {"start": time.process_time() - began, "workloads": {}}
    pace = 0.0
    for name, stated in order["asks"].items():
        some = [Ask(**ask) for ask in stated]
        length = sum(len(ask.context) + len(ask.continuation) for ask in some)
        if order["longest"] is not None and pace * length > order["longest"]:
            done["workloads"][name] = {"seconds": pace * length, "answers": [], "paths": {}}
            continue
        engine.rows = order["rows"][name]
        before, clock = time.process_time(), time.perf_counter()
        of_server = server.cpu_seconds if server else 0.0
        answers = answered(engine, some)
        seconds = time.process_time() - before
        pace = seconds / length
        done["workloads"][name] = {
            "seconds": seconds,
            "by_the_clock": time.perf_counter() - clock,
            "answers": [asdict(answer) for answer in answers],
            "paths": engine.paths,
        }
        if server:
            done["workloads"][name]["of_the_server"] = server.cpu_seconds - of_server
    Path(result).write_text(json.dumps(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
