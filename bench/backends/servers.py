"""One client of a server beside the other: evalcore's and lm-evaluation-harness's own
`local-completions`, each alone with a server of vLLM that was started for it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.engines import Theirs

CLIENTS = ("server", "lm_eval_server")
"""evalcore's, and lm-evaluation-harness's."""

NAME = "bench/model"
CONCURRENT = 8
"""Requests under way at a time, for both."""

WINDOW = 2048
LONGEST_START = 300.0


@dataclass(frozen=True)
class Server:
    address: str
    pid: int

    @property
    def cpu_seconds(self) -> float:
        """Of the server and all that it started."""
        whole = psutil.Process(self.pid)
        each = [one.cpu_times() for one in (whole, *whole.children(recursive=True))]
        return sum(times.user + times.system for times in each)

    @property
    def arguments(self) -> dict[str, Any]:
        """What both clients are told."""
        return {
            "model": NAME,
            "base_url": f"{self.address}/v1/completions",
            "num_concurrent": CONCURRENT,
            "max_length": WINDOW,
        }


@contextmanager
def started(folder: Path, log: Path) -> Iterator[Server]:
    """A server of the model. Raises RuntimeError, with the end of its log, where none starts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
                *("--model", str(folder), "--served-model-name", NAME, "--dtype", "float32"),
                *("--max-model-len", str(WINDOW), "--enforce-eager", "--disable-log-stats"),
                *("--host", "127.0.0.1", "--port", str(port)),
            ],
            env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "2"},
            stdout=file,
            stderr=file,
        )
    try:
        began = time.monotonic()
        while not _answers(address):
            if process.poll() is not None or time.monotonic() - began > LONGEST_START:
                raise RuntimeError(f"the server does not start:\n{log.read_text()[-3000:]}")
            time.sleep(1)
        yield Server(address, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health") as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False


class TheirClient(Theirs):
    """lm-evaluation-harness's, at its own defaults but for what both are told."""

    def __init__(self, server: Server, folder: str) -> None:
        from lm_eval.models.openai_completions import LocalCompletionsAPI

        self._lm = LocalCompletionsAPI(tokenizer=folder, **server.arguments)
        self.paths: dict[str, int] = {}

    def loaded(self, window: int | None) -> Any:  # noqa: ARG002
        return self._lm


def compared(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """CPU seconds of client and server, and seconds by the clock, of one workload."""
    rows = {client: found[client]["workloads"][name] for client in CLIENTS}
    processor = {client: row["seconds"] + row["of_the_server"] for client, row in rows.items()}
    return {
        "seconds": processor,
        "of_the_client": {client: row["seconds"] for client, row in rows.items()},
        "by_the_clock": {client: row["by_the_clock"] for client, row in rows.items()},
        "times_as_fast_as_lm_eval": processor["lm_eval_server"] / processor["server"],
    }
