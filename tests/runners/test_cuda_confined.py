"""What CUDA's driver does when it starts, tried in a confined process; and what that must not open.

No GPU is here: another device stands for one, and a program does as the driver was seen to do on an
H100. Whatever must fail is first shown to succeed where nothing confines it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runners import confinement, seccomp, shown
from runners.confinement import LIMITS_ALONE, WAYS, Needs, Way
from tests.runners.conftest import OF_ANY_USER, works

EVERY = (*OF_ANY_USER, LIMITS_ALONE)
PROGRAM = """
import json, os, socket, subprocess, sys, threading
UNIX, SEQPACKET = socket.AF_UNIX, socket.SOCK_SEQPACKET
names = json.loads(sys.argv[1])

def name_a_thread():
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with open(f"/proc/self/task/{thread.native_id}/comm", "w") as comm:
            comm.write("cuda-EvtHandlr")
    finally:
        over.set()

def name_a_descendants_thread():
    code = "open('/proc/self/comm', 'w').write('x')"
    if subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode:
        raise OSError("not a descendant's")

def listen():
    server = socket.socket(UNIX, SEQPACKET | socket.SOCK_CLOEXEC)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    server.bind(f"\\0cuda-uvmfd-test-{os.getpid()}")
    server.listen(16)
    return server

def connect(kind, name):
    with socket.socket(UNIX, kind) as client:
        client.settimeout(2)
        client.connect(names[name].replace("@", "\\0"))

def tell(name):
    one, _ = socket.socketpair(UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", names[name].replace("@", "\\0"))

def open_for_writing(path):
    os.close(os.open(path, os.O_WRONLY))

attempts = {
    "its thread's name": name_a_thread,
    "a descendant's": name_a_descendants_thread,
    "listening": listen,
    "a connection by a path": lambda: connect(SEQPACKET, "path"),
    "a connection in the abstract": lambda: connect(SEQPACKET, "abstract"),
    "a stream": lambda: connect(socket.SOCK_STREAM, "stream"),
    "a datagram": lambda: connect(socket.SOCK_DGRAM, "datagram"),
    "a datagram of a pair": lambda: tell("datagram"),
    "a socket of the internet": lambda: socket.socket(socket.AF_INET),
    "a socket for streams": lambda: socket.socket(UNIX),
    "a socket for datagrams": lambda: socket.socket(UNIX, socket.SOCK_DGRAM),
    "the kernel": lambda: open_for_writing("/proc/sys/kernel/core_pattern"),
    "another's place in the queue": lambda: open_for_writing(
        f"/proc/{names['victim']}/oom_score_adj"
    ),
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        continue
    done.append(name)
print(json.dumps(done))
"""
START = {"its thread's name", "listening"}
OPENED = {"a socket of the internet", "a socket for streams", "a socket for datagrams"}
"""Where the network, and what lies at paths, is the process's own."""
FILES = {"the kernel", "another's place in the queue"}
"""All that this user may write is open where limits stand alone."""


@pytest.fixture
def names(tmp_path: Path, victim: int) -> Iterator[dict[str, str]]:
    """Where others of this machine listen, each by a kind of its own."""
    found = {"victim": str(victim)}
    with ExitStack() as stack:
        for name, kind, address in (
            ("path", socket.SOCK_SEQPACKET, str(tmp_path / "p")),
            ("abstract", socket.SOCK_SEQPACKET, f"@plumbline-{os.getpid()}"),
            ("stream", socket.SOCK_STREAM, str(tmp_path / "s")),
            ("datagram", socket.SOCK_DGRAM, str(tmp_path / "d")),
        ):
            server = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            server.bind(address.replace("@", "\0"))
            if kind != socket.SOCK_DGRAM:
                server.listen()
            found[name] = address
        yield found


def outcome(command: list[str], folder: Path) -> set[str]:
    told = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return set(json.loads(told.stdout))


def confined(folder: Path, names: dict[str, str], way: Way) -> set[str]:
    program = [sys.executable, "-P", "-s", "-c", PROGRAM, json.dumps(names)]
    needs = Needs(folder=folder / "work", write=[folder / "work"])
    needs.folder.mkdir()
    return outcome(confinement.command(program, needs, way), needs.folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot write to the kernel at all")
def test_all_that_is_tried_succeeds_where_nothing_confines_it(
    tmp_path: Path, names: dict[str, str]
) -> None:
    free = outcome([sys.executable, "-c", PROGRAM, json.dumps(names)], tmp_path)
    others = {"a connection by a path", "a connection in the abstract", "a stream", "a datagram"}
    others |= {"a datagram of a pair", "another's place in the queue", "a descendant's"}
    assert free == START | OPENED | FILES | others


@pytest.mark.parametrize("way", EVERY, ids=lambda way: way.name)
def test_with_a_gpu_cudas_driver_may_start_and_nothing_of_others_is_reached(
    tmp_path: Path, names: dict[str, str], way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "OF_CUDA", "full")
    if way is not LIMITS_ALONE:
        works(way)
    done = confined(tmp_path, names, way)
    if way.namespaces:
        assert done == START | OPENED | {"a descendant's"}
    elif way is LIMITS_ALONE:
        assert done - FILES == START | {"a descendant's"}
    else:
        assert done == START


@pytest.mark.parametrize("way", EVERY, ids=lambda way: way.name)
def test_without_a_gpu_it_may_not(tmp_path: Path, names: dict[str, str], way: Way) -> None:
    if shown.has_cuda():
        pytest.skip("this machine has GPUs")
    if way is not LIMITS_ALONE:
        works(way)
    done = confined(tmp_path, names, way)
    if way.namespaces:
        assert done == OPENED | {"listening"}
    elif way is LIMITS_ALONE:
        assert done - FILES == {"its thread's name", "a descendant's"}
    else:
        assert not done


@pytest.mark.skipif(not seccomp.available(), reason="there is no seccomp")
def test_a_download_may_not_either(
    tmp_path: Path, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "OF_CUDA", "full")
    needs = Needs(folder=tmp_path / "work", write=[tmp_path / "work"], network=True)
    needs.folder.mkdir()
    program = [sys.executable, "-P", "-s", "-c", PROGRAM, json.dumps(names)]
    for way in (WAYS[0], WAYS[2]):
        done = outcome(confinement.command(program, needs, works(way)), needs.folder)
        assert done - {"a socket of the internet"} == set()
