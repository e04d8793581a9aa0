"""What code inside a model's process would try. Runs in the stand-in, where the model would.

Each attempt returns what it got; an OSError is what it should get.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
PTRACE_SEIZE = 0x4206
ADD_KEY = 248 if os.uname().machine == "x86_64" else 217
USER_KEYRING = -4
TIB = 2**40
NORESERVE = 0x4000  # of Linux; the module does not name it
MARK = "a-model-that-got-away"


def read(path: str) -> str:
    return f"read {Path(path).read_bytes()[:20]!r}"


def read_some(path: str) -> str:
    """Of a device, which has no end."""
    device = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return f"read {os.read(device, 8192)[:20]!r}"
    finally:
        os.close(device)


def write(path: str) -> str:
    with Path(path).open("ab") as file:
        file.write(b"x")
    return "wrote"


def make(path: str) -> str:
    (Path(path) / "planted").write_text("x")
    return "made a file"


def write_transaction(path: str) -> str:
    with sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=1) as database:
        database.execute("BEGIN IMMEDIATE")
    return "wrote to the database"


def connect(address: Any) -> str:
    if isinstance(address, str):
        return connect_by((socket.SOCK_STREAM, address))
    socket.create_connection(tuple(address), timeout=2).close()
    return "connected"


def connect_by(target: tuple[int, str]) -> str:
    """A socket of this kind to this name."""
    kind, name = target
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.settimeout(2)
        client.connect(name.replace("@", "\0"))
    return "connected"


def send(address: Any) -> str:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.sendto(b"x", tuple(address))
    return "sent"


def send_by_a_pair(name: str) -> str:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", name.replace("@", "\0"))
    return "sent"


def listen(_: object) -> str:
    """As CUDA's driver does when it starts."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    server.bind(f"\0cuda-uvmfd-test-{os.getpid()}")
    server.listen(16)
    return "listened"


def name_a_thread(_: object) -> str:
    """As CUDA's driver does when it starts."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        Path(f"/proc/self/task/{thread.native_id}/comm").write_text("cuda-EvtHandlr")
    finally:
        over.set()
    return "named it"


def name_a_descendants_thread(_: object) -> str:
    code = "open('/proc/self/comm', 'w').write('x')"
    if subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode:
        raise OSError("not a descendant's")
    return "named it"


def open_socket(kind: tuple[int, int]) -> str:
    with socket.socket(*kind):
        return "opened"


def find_variable(name: str) -> str:
    if name not in os.environ:
        raise OSError("not in the environment")
    return os.environ[name]


def follow_a_link(path: str) -> str:
    link = Path(os.environ["TMPDIR"], "link")
    link.symlink_to(path)
    return read(str(link))


def make_a_hard_link(path: str) -> str:
    os.link(path, Path(os.environ["TMPDIR"], "hard"))
    return "linked"


def open_for_writing(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY))
    return "opened for writing"


def make_a_device(_: object) -> str:
    device = Path(os.environ["TMPDIR"], "device")
    os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    with device.open("rb") as zeroes:
        return f"made it, read {zeroes.read(1)!r}"


def trace(pid: int) -> str:
    _call("ptrace", PTRACE_SEIZE, pid, 0, 0)
    return "traces it"


def slow_down(pid: int) -> str:
    os.setpriority(os.PRIO_PROCESS, pid, 5)
    return "slowed it down"


def limit_another(pid: int) -> str:
    resource.prlimit(pid, resource.RLIMIT_CPU, (10_000, 10_000))
    return "limited it"


def set_the_clock(_: object) -> str:
    time.clock_settime(time.CLOCK_REALTIME, time.time())
    return "set it"


def attach_shared_memory(key: int) -> str:
    _call("shmget", key, 0, 0)
    return "found it"


def keep_in_the_kernel(_: object) -> str:
    _call("syscall", ADD_KEY, b"user", b"plumbline-test", b"x", 1, USER_KEYRING)
    return "kept a key"


def mount(_: object) -> str:
    """In a process of its own, whose mounts end with it."""
    if pid := os.fork():
        if os.waitpid(pid, 0)[1]:
            raise OSError("cannot mount")
        return "mounted"
    libc = ctypes.CDLL(None)
    done = libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)
    os._exit(bool(done))


def open_files(count: int) -> str:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held: list[int] = []
    try:
        for _ in range(count):
            held.append(os.dup(0))
    finally:
        for number in held:
            os.close(number)
    return f"held {count} files open"


def dump_core(_: object) -> str:
    if not resource.getrlimit(resource.RLIMIT_CORE)[1]:
        raise OSError("no core dumps")
    return "may dump its memory"


def signal(pid: int) -> str:
    os.kill(pid, 0)
    return "may signal it"


def fork(times: int) -> str:
    for _ in range(times):
        if not os.fork():
            time.sleep(60)
            os._exit(0)
    return f"forked {times} times"


def grow(gib: int) -> str:
    with Path(os.environ["TMPDIR"], "large").open("wb") as file:
        file.truncate(gib * 2**30)
    return f"made a file of {gib} GiB"


def hold(tib: int) -> str:
    mmap.mmap(-1, tib * TIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    return f"mapped {tib} TiB"


def compute_for_ever(_: object) -> str:
    if resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY:
        raise OSError("its processor time has an end")
    return "may compute for ever"


def new_namespace(_: object) -> str:
    _call("unshare", CLONE_NEWUSER)
    return "has all capabilities again"


def _call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc[name](*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def leave_a_daemon(_: object) -> str:
    """Twice forked and in a session of its own, with our standard output held open."""
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", MARK])
        os._exit(0)
    return "left"


def attempt(orders: list[tuple[str, str, Any]]) -> dict[str, str]:
    """By name what came of each order (name, which of the functions above, on what)."""
    came_of: dict[str, str] = {}
    for name, kind, target in orders:
        try:
            came_of[name] = globals()[kind](target)
        except (OSError, sqlite3.Error) as refused:
            came_of[name] = f"refused: {type(refused).__name__}"
    return came_of


def daemons() -> list[str]:
    """Those that were left and live, as the machine sees them."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if line.endswith(MARK)]


def main(folder: Path) -> None:
    orders = json.loads((folder / "orders.json").read_text())
    (folder / "answers.json").write_text(json.dumps(attempt(orders)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
