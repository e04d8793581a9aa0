"""A local Hub for tests: the real server in its own process, and real clients in theirs."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests import warm

ROOT = Path(__file__).resolve().parent.parent
TEST_DATA = Path(os.environ.get("PLUMBLINE_TEST_DATA", ROOT.parent / "shared" / "data")) / "hub"
Orders = Sequence[Mapping[str, object]]


@contextmanager
def serve(folders: Sequence[Path], faults: Orders = ()) -> Iterator[str]:
    """Runs a Hub over these folders on a free port, with these faults; yields its address."""
    command = [sys.executable, "-m", "demo.hub", *map(str, folders), "--port", "0"]
    hub = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert hub.stdout is not None
        # The line is printed once the port is open, so the first request waits rather than fails.
        announced = re.search(r"http://\S+", hub.stdout.readline())
        assert announced, f"the local Hub did not start (exit code {hub.wait(10)})"
        set_faults(announced[0], faults)
        yield announced[0]
    finally:
        hub.terminate()
        try:
            hub.wait(timeout=60)
        except subprocess.TimeoutExpired:
            hub.kill()
            raise
        finally:
            if hub.stdout is not None:
                hub.stdout.close()


def set_faults(url: str, faults: Orders) -> None:
    """Replaces the running Hub's faults; demo/hub/faults.py says what a fault looks like."""
    request = urllib.request.Request(f"{url}/_faults", data=json.dumps(list(faults)).encode())
    urllib.request.urlopen(request, timeout=60).close()


def client_environment(url: str, home: Path, **extra: str) -> dict[str, str]:
    """The environment of a process that uses the Hub at `url` and keeps its cache in `home`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return {
        **kept,
        "HF_ENDPOINT": url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        # Where safetensors are missing, transformers otherwise calls a service outside HF_ENDPOINT.
        "DISABLE_SAFETENSORS_CONVERSION": "1",
        "OMP_NUM_THREADS": "1",
        **extra,
    }


def run_client(code: str, url: str, home: Path, **extra: str) -> str:
    """What the code prints, run in its own process: clients read HF_ENDPOINT once, on import."""
    environment = client_environment(url, home, **extra)
    done = warm.run(["-c", code], cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def ask(
    url: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request exactly as given: no redirect is followed and no path is tidied up."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        response = connection.getresponse()
        return (
            response.status,
            {k.lower(): v for k, v in response.getheaders()},
            response.read(),
        )
    finally:
        connection.close()


def get_json(url: str, path: str) -> Any:
    status, _, body = ask(url, "GET", path)
    assert status == 200, body
    return json.loads(body)
