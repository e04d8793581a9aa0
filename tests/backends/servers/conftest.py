"""The servers of vLLM and of transformers, one of each for all tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest

from tests.evalcore.model.servers import small_server
from tests.evalcore.model.servers.conftest import direct_of, stated

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-of-the-tests"
LONGEST_START = 400.0
"""Seconds; on two busy cores vLLM takes one or two minutes."""


def python_with_vllm() -> str:
    """This one, or that of vLLM's own environment beside ours."""
    return sys.executable if find_spec("vllm") else str(ROOT / ".venv/vllm/bin/python")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return small_server.made(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def direct(folder):
    """The same model, run by transformers in this process."""
    return direct_of(folder)


@pytest.fixture(scope="session")
def served(folder, tmp_path_factory):
    """The address of vLLM's server."""
    command = [
        *("vllm.entrypoints.openai.api_server", "--model", str(folder), "--dtype", "float32"),
        *("--served-model-name", "org/tiny", "--max-model-len", str(small_server.POSITIONS)),
        *("--enforce-eager", "--disable-log-stats"),
    ]
    environment = {
        "VLLM_API_KEY": KEY,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "TORCHDYNAMO_DISABLE": "1",
    }
    with started(command, environment, tmp_path_factory.mktemp("vllm") / "log") as address:
        yield address


@pytest.fixture(scope="session")
def transformers_serve(folder, tmp_path_factory):
    """The address of the server of transformers."""
    home = tmp_path_factory.mktemp("transformers")
    (home / "hub").mkdir()
    command = [
        *("transformers.cli.transformers", "serve", str(folder)),
        *("--device", "cpu", "--dtype", "float32"),
    ]
    with started(command, {"HF_HOME": str(home)}, home / "log") as address:
        yield address


@contextmanager
def started(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[str]:
    """A module of vLLM's environment that serves; its address when it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    of_all = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as file:
        server = subprocess.Popen(
            [python_with_vllm(), "-m", *command, "--host", "127.0.0.1", "--port", port],
            env={**os.environ, **of_all, **environment},
            stdout=file,
            stderr=file,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        began = time.monotonic()
        while not _answers(f"{address}/health"):
            assert server.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() - began < LONGEST_START, log.read_text()[-3000:]
            time.sleep(1)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=60)


def _answers(url):
    try:
        return httpx2.get(url, trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def arguments(served, folder):
    return stated(served, folder)
