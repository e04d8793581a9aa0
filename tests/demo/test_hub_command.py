"""`python -m demo.hub`: how it starts, what it says when it cannot, and how it ends."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.hub import ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "models" / "org" / "name"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# A model")
    return tmp_path / "root"


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "demo.hub", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def address(hub: subprocess.Popen[str]) -> str:
    assert hub.stdout is not None
    found = re.search(r"http://\S+", hub.stdout.readline())
    assert found
    return found[0]


def refusal(*arguments: object) -> str:
    """What the command says on stderr when it will not start."""
    hub = start(*arguments)
    out, err = hub.communicate(timeout=120)
    assert (hub.returncode, out) == (2, "")
    return err


def test_says_how_much_it_serves_and_where(root: Path) -> None:
    with start(root) as hub:
        assert hub.stdout is not None
        assert re.fullmatch(
            r"Local Hub: 1 repositories at http://127\.0\.0\.1:\d+\n", hub.stdout.readline()
        )
        hub.terminate()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'absent'} is not a folder" in refusal(tmp_path / "absent")


def test_a_folder_one_level_too_deep_is_named(root: Path) -> None:
    said = refusal(root / "models")
    assert f"{root / 'models'} holds neither models/ nor datasets/" in said
    assert "name the folder above" in said


def test_a_taken_port_is_named(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(root, "--port", port)
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "name another --port" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- {match: /x, status: 99}", "status: 99 is not an HTTP status"),
        ("- {match: /x", "faults.yaml"),
        ("match: /x", "expected a list of faults"),
    ],
)
def test_a_wrong_fault_file_is_named(root: Path, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(content)
    message = refusal(root, "--faults", file)
    assert str(file) in message
    assert said in message


def test_a_wrong_marker_is_named(root: Path) -> None:
    marker = root / "models" / "org" / "name" / ".hub.yaml"
    marker.write_text("gated: maybe")
    said = refusal(root)
    assert f"{marker}: gated: 'maybe'" in said


def test_faults_of_a_file_apply_from_the_start(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("- match: GET /api/models/org/*\n  status: 503\n")
    with start(root, "--faults", file) as hub:
        with pytest.raises(urllib.error.HTTPError) as failure:
            urllib.request.urlopen(f"{address(hub)}/api/models/org/name", timeout=60)
        assert failure.value.code == 503
        failure.value.close()
        hub.terminate()


@pytest.mark.parametrize("verbose", [False, True])
def test_requests_are_logged_only_when_asked(root: Path, verbose: bool) -> None:
    with start(root, *(["--verbose"] if verbose else [])) as hub:
        urllib.request.urlopen(f"{address(hub)}/api/models/org/name", timeout=60).close()
        hub.terminate()
        out, err = hub.communicate(timeout=120)
    assert ("GET /api/models/org/name" in out + err) is verbose
    assert verbose or (out, err) == ("", "")


def test_a_body_cut_on_order_is_not_reported_as_an_error(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("- {match: '*/README.md', truncate: 3}\n")
    with start(root, "--faults", file) as hub:
        answer = urllib.request.urlopen(f"{address(hub)}/org/name/resolve/main/README.md")
        with answer, pytest.raises(http.client.IncompleteRead) as cut:
            answer.read()
        assert cut.value.partial == b"# A"
        hub.terminate()
        assert hub.communicate(timeout=120) == ("", "")


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_ends_at_once_and_quietly_even_while_a_client_waits(
    root: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("- {match: '*', delay: 30}\n")
    with start(root, "--faults", file) as hub:
        url = address(hub)

        def wait() -> None:
            with suppress(OSError):
                urllib.request.urlopen(f"{url}/api/models/org/name", timeout=40).close()

        client = threading.Thread(target=wait)
        client.start()
        time.sleep(0.5)
        assert client.is_alive()
        begin = time.monotonic()
        hub.send_signal(sent)
        _, err = hub.communicate(timeout=120)
        took = time.monotonic() - begin
        client.join(timeout=20)
    assert took < 10  # of the thirty that the client would wait
    assert err == ""
    assert not client.is_alive()
