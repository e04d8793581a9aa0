"""The story of a confined process, in the order in which it happens: read `main`.

`confinement.confined` starts it, with namespaces by way of unshare(1), so that we are then the
first process of a process table of our own and root of our own mounts. We show the command a root
with nothing in it but the named folders, give up every privilege, lay limits, Landlock and seccomp
over that, and become the command. Where there are no namespaces, these stand alone.

Nothing here may be undone by the command: each step is one that the kernel lets no process take
back.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalcore.sandbox import landlock, seccomp

LIBC = ctypes.CDLL(None, use_errno=True)

MS_NOSUID, MS_NODEV, MS_BIND, MS_REC = 2, 4, 4096, 16384
MNT_DETACH = 2
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
RDONLY_NOSUID = 1 | 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}.get(os.uname().machine, -1)
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
CAPABILITIES_VERSION_3 = 0x20080522
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40

SHARED_MEMORY_BYTES = 256 << 20
INNER = "root"
SIGNALLED = 128
"""What is added to a signal's number in the exit status of a first process, as shells do."""


def main(arguments: list[str]) -> None:
    """`arguments`: an order as JSON, which `confinement.confined` writes, and the command."""
    order: dict[str, Any] = json.loads(arguments[0])
    command = arguments[1:]
    namespaces, folder = order["namespaces"], Path(order["folder"])
    if namespaces:
        enter_root_of_its_own(order, folder)
    if order["loopback"]:
        raise_loopback()
    os.chdir(folder)
    drop_privileges(order["user"], folder)
    for name, value in {**order["limits"], "RLIMIT_CORE": 0}.items():
        limit(getattr(resource, name), value)
    if order["landlock"]:
        restrict_files(order, folder)
    if order["sockets"] is not None:
        seccomp.restrict(order["sockets"], alone=not namespaces, cuda=order["cuda"])
    if namespaces and (pid := os.fork()):
        os._exit(first_process(pid, order["seconds"]))
    os.execvp(command[0], command)  # noqa: S606 - an argument list of our own


# A root of its own


def enter_root_of_its_own(order: dict[str, Any], folder: Path) -> None:
    """Leave everything but the places of the order, and an empty `/tmp`.

    The old root is not only hidden: it is no longer mounted. And as we are also below a folder of
    the new one (chroot), the kernel refuses further user namespaces, which would bring
    capabilities back.
    """
    stage = folder / "stage"
    stage.mkdir(exist_ok=True)
    size = f"size={order['memory_files_bytes']},mode=0755"
    mount("tmpfs", stage, "tmpfs", MS_NOSUID | MS_NODEV, size)
    root = stage / INNER
    (root / "tmp").mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    show_process_table(root / "proc", order)
    if not order["bare"]:
        (root / "dev/shm").mkdir(parents=True)
        size = f"size={SHARED_MEMORY_BYTES}"
        mount("tmpfs", root / "dev/shm", "tmpfs", MS_NOSUID, size)
        show(Path("/sys"), root)
    for kind, writable in (("read", False), ("write", True), ("devices", True)):
        # Outer folders first, or an inner one would be taken for all of the outer.
        for place in sorted(map(Path, order[kind])):
            show(place, root, writable=writable)
    (root / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
    os.chdir(stage)
    if LIBC.syscall(PIVOT_ROOT, b".", b"."):
        fail("change the root")
    if LIBC.umount2(b".", MNT_DETACH):
        fail("leave the old root")
    os.chroot(f"/{INNER}")
    os.chdir("/")


def show_process_table(proc: Path, order: dict[str, Any]) -> None:
    """Mount the table of this namespace and bound it, which nothing else does for root."""
    proc.mkdir()
    try:
        mount("proc", proc, "proc", MS_NOSUID | MS_NODEV, "")
    except OSError:  # a container that hides parts of its own table lets no other be seen
        if not order["bare"]:
            raise
        return
    with suppress(OSError):  # from Linux 6.14 on
        (proc / "sys/kernel/pid_max").write_text(str(order["processes"]))
    if order["bare"]:
        LIBC.umount2(os.fsencode(proc), MNT_DETACH)
        proc.rmdir()
    elif order["cuda"]:
        make_read_only_but_processes(proc)
    else:
        make_read_only(proc)


def make_read_only_but_processes(proc: Path) -> None:
    """CUDA's driver names its threads by files below their process, or does not start.

    All processes of this table are the command's own; what lies beside them is the kernel's.
    """
    for entry in proc.iterdir():
        if not (entry.name.isdecimal() or entry.is_symlink()):
            mount(str(entry), entry, "", MS_BIND | MS_REC, "")
            make_read_only(entry)


def show(place: Path, root: Path, *, writable: bool = False) -> None:
    """Has what lies at `place` also at the same path below `root`, to be read only."""
    here = root / place.relative_to("/")
    # Below a link that is shown itself, it is there by where the link leads.
    below_link = any((root / folder).is_symlink() for folder in place.relative_to("/").parents)
    if below_link or here.exists() or not place.exists():
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


def mount(source: str, target: Path, kind: str, flags: int, data: str) -> None:
    done = LIBC.mount(source.encode(), os.fsencode(target), kind.encode(), flags, data.encode())
    if done:
        fail(f"mount {source} on {target}")


def make_read_only(target: Path) -> None:
    """With all that is mounted below; needs Linux 5.12."""
    attributes = (ctypes.c_uint64 * 4)(RDONLY_NOSUID, 0, 0, 0)
    place, size = os.fsencode(target), ctypes.sizeof(attributes)
    if LIBC.syscall(MOUNT_SETATTR, AT_FDCWD, place, AT_RECURSIVE, attributes, size):
        fail(f"make {target} read-only")


def raise_loopback() -> None:
    """Have 127.0.0.1 answer in this network of our own, in which there is nobody else."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", IFF_UP | IFF_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


# What is given up


def drop_privileges(user: int | None, folder: Path) -> None:
    """Leaves root's rights for good: by becoming `user`, else those of root in a user namespace."""
    if user is not None:
        os.chown(folder, user, user)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        fail("give up new privileges")
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION_3, 0)
    if LIBC.capset(header, (ctypes.c_uint32 * 6)()):
        fail("give up the capabilities")
    if LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        fail("end with the process above")


def limit(kind: int, value: int) -> None:
    """Bound what we may use, at most as far as we are bound already."""
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    resource.setrlimit(kind, (value, value))


def restrict_files(order: dict[str, Any], folder: Path) -> None:
    """Landlock beneath the same list of folders; of a root of our own all that is ours."""
    read, write, devices = (list(map(Path, order[kind])) for kind in ("read", "write", "devices"))
    if not order["bare"]:
        read += [Path("/proc"), Path("/sys")]
    if order["namespaces"]:
        write += [folder, Path("/tmp"), Path("/dev/shm")]  # noqa: S108 - our own
    change = [names_of_threads(own_table=order["namespaces"])] if order["cuda"] else []
    landlock.restrict(read, write, devices, change=change, tcp=order["tcp"])


def names_of_threads(*, own_table: bool) -> Path:
    """Where CUDA's driver writes them: in a shared table, below what becomes the command alone."""
    if own_table:
        return Path("/proc")
    own = Path(f"/proc/{os.getpid()}")
    # The right is tied to what the kernel holds of this folder, which must not be forgotten.
    os.set_inheritable(os.open(own, os.O_PATH), True)
    return own


# The end


def first_process(pid: int, seconds: int | None) -> int:
    """Reap whatever ends, until the command does; its exit status. With us all others end."""
    if seconds is not None:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(SIGNALLED + signal.SIGALRM))
        signal.alarm(seconds)
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNALLED - code


def fail(what: str) -> None:
    raise OSError(ctypes.get_errno(), f"cannot {what}: {os.strerror(ctypes.get_errno())}")
