"""`python -m runners.confined ORDER COMMAND…`: give up what a model must not have, and run it.

ORDER is JSON that `runners/confinement.py` writes. With namespaces (we are then the first process
of a process table of our own) the command sees a root of its own with only the named folders in
it; Landlock, seccomp and limits are laid over that, or stand alone where there are no namespaces.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalcore.task.transforms.code_child import (
    LIBC,
    MNT_DETACH,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_REC,
    drop_privileges,
    fail,
    mount,
)
from runners import landlock, seccomp
from runners.read_only import make_read_only

ROOT_BYTES = 64 << 20
SHARED_MEMORY_BYTES = 256 << 20
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}.get(os.uname().machine, -1)
INNER = "root"
READABLE = 0o022
"""Others must be able to read what a download writes, whatever the worker's files are."""
SIGNALLED = 128
"""What is added to a signal's number in the exit status of a first process, as shells do."""


def main(arguments: list[str]) -> None:
    order: dict[str, Any] = json.loads(arguments[0])
    command = arguments[1:]
    folder = Path(order["folder"])
    read, write, devices = ([Path(p) for p in order[n]] for n in ("read", "write", "devices"))
    if order["namespaces"]:
        enter_root_of_its_own(
            folder, read, write, devices, order["processes"], names_threads=order["cuda"]
        )
        write = [*write, folder, Path("/tmp"), Path("/dev/shm")]  # noqa: S108 - our own
    if order["loopback"]:
        raise_loopback()
    os.chdir(folder)
    if order["user"] is not None:
        os.umask(READABLE)
    drop_privileges(order["user"])
    for name, value in order["limits"].items():
        limit(getattr(resource, name), value)
    if order["landlock"]:
        readable = [*read, Path("/proc"), Path("/sys")]
        change = [names_of_threads(own_table=order["namespaces"])] if order["cuda"] else []
        landlock.restrict(readable, write, devices, change=change, tcp=order["tcp"])
    if order["sockets"] is not None:
        alone = not order["namespaces"]
        seccomp.restrict(order["sockets"], alone=alone, cuda=order["cuda"])
    if order["namespaces"] and (pid := os.fork()):
        os._exit(first_process(pid))
    os.execvp(command[0], command)  # noqa: S606 - an argument list of our own


def enter_root_of_its_own(
    folder: Path,
    read: list[Path],
    write: list[Path],
    devices: list[Path],
    processes: int,
    *,
    names_threads: bool,
) -> None:
    """Leave everything but these places, `/proc`, `/sys` and an empty `/tmp`.

    The old root is not only hidden: it is no longer mounted. And as we are also below a folder of
    the new one (chroot), the kernel refuses further user namespaces, which would bring
    capabilities back.
    """
    stage = folder / "stage"
    stage.mkdir(exist_ok=True)
    mount("tmpfs", stage, "tmpfs", MS_NOSUID | MS_NODEV, f"size={ROOT_BYTES},mode=0755")
    root = stage / INNER
    for small in (root / "tmp", root / "proc", root / "dev" / "shm"):
        small.mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    mount("tmpfs", root / "dev" / "shm", "tmpfs", MS_NOSUID, f"size={SHARED_MEMORY_BYTES}")
    mount("proc", root / "proc", "proc", MS_NOSUID | MS_NODEV, "")
    with suppress(OSError):  # from Linux 6.14 on; nothing else counts the processes of root
        (root / "proc/sys/kernel/pid_max").write_text(str(processes))
    if names_threads:
        make_read_only_but_processes(root / "proc")
    else:
        make_read_only(root / "proc")
    show(Path("/sys"), root)
    for places, writable in ((read, False), (write, True), (devices, True)):
        # Outer folders first, or an inner one would be taken for all of the outer.
        for place in sorted(places):
            show(place, root, writable=writable)
    (root / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
    os.chdir(stage)
    if LIBC.syscall(PIVOT_ROOT, b".", b"."):
        fail("change the root")
    if LIBC.umount2(b".", MNT_DETACH):
        fail("leave the old root")
    os.chroot(f"/{INNER}")
    os.chdir("/")


def make_read_only_but_processes(proc: Path) -> None:
    """CUDA's driver names its threads by files below their process, or does not start.

    All processes of this table are the command's own; what lies beside them is the kernel's.
    """
    for entry in proc.iterdir():
        if not (entry.name.isdecimal() or entry.is_symlink()):
            mount(str(entry), entry, "", MS_BIND | MS_REC, "")
            make_read_only(entry)


def names_of_threads(*, own_table: bool) -> Path:
    """Where CUDA's driver writes them: in a shared table, below what becomes the command alone."""
    if own_table:
        return Path("/proc")
    own = Path(f"/proc/{os.getpid()}")
    # The right is tied to what the kernel holds of this folder, which must not be forgotten.
    os.set_inheritable(os.open(own, os.O_PATH), True)
    return own


def raise_loopback() -> None:
    """Have 127.0.0.1 answer in this network of our own, in which there is nobody else."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", IFF_UP | IFF_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def show(place: Path, root: Path, *, writable: bool = False) -> None:
    """Has what lies at `place` also at the same path below `root`, to be read only."""
    here = root / place.relative_to("/")
    if here.exists() or not place.exists():
        return
    here.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        here.symlink_to(place.readlink())
        return
    if place.is_dir():
        here.mkdir()
    else:
        here.touch()
    mount(str(place), here, "", MS_BIND | MS_REC, "")
    if not writable:
        make_read_only(here)


def limit(kind: int, value: int) -> None:
    """Bound what we may use, at most as far as we are bound already."""
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    resource.setrlimit(kind, (value, value))


def first_process(pid: int) -> int:
    """Reap whatever ends, until the command does; its exit status. With us all others end."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNALLED - code


if __name__ == "__main__":
    main(sys.argv[1:])
