"""Runs one program that a model wrote; itself run as a process of its own by code_sandbox.py.

Reads an order from standard input, gives up everything that the program must not have, says
`ready`, runs the program in a further process and, if it comes to its end without an error, writes
the order's token. Imports only the standard library: it is run as a file, without our package.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

SYSTEM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/alternatives",
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")

FEWEST_PROCESSES = 301

LIBC = ctypes.CDLL(None, use_errno=True)

MS_BIND, MS_REC, MS_NOSUID, MS_NODEV = 4096, 16384, 2, 4
MNT_DETACH = 2
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
RDONLY_NOSUID = 1 | 2
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
CAPABILITIES_VERSION_3 = 0x20080522


def main() -> None:
    order: dict[str, Any] = json.load(sys.stdin)
    verdict = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    folder = Path.cwd()
    if order["isolated"]:
        enter_root_of_its_own(folder, order["disk_bytes"])
    elif order["user"] is not None:
        folder.chmod(0o777)
    os.write(verdict, b"ready\n")
    if pid := os.fork():
        os.close(verdict)
        wait(pid, order["wall_seconds"])
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(verdict + 1, 256)
    drop_privileges(order["user"])
    set_limits(order)
    run(order["program"], verdict, order["token"])


def enter_root_of_its_own(folder: Path, disk_bytes: int) -> None:
    """Leaves a file system with the system's folders and Python, to be read, and an empty `/tmp`.

    We are in mount, network, process and IPC namespaces of our own: what is mounted here ends with
    us. There is no `/proc`, no home, no device but three.
    """
    mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"size={disk_bytes},mode=0755")
    with suppress(OSError):
        bound_process_table(folder / "proc")
    python = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    for place in map(Path, [*SYSTEM_FOLDERS, *sorted(python), *DEVICES]):
        here = folder / place.relative_to("/")
        if here.exists() or not place.exists():
            continue
        here.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            here.symlink_to(place.readlink())
            continue
        if place.is_dir():
            here.mkdir()
        else:
            here.touch()
        mount(str(place), here, "", MS_BIND | MS_REC, "")
        if place.is_dir():
            make_read_only(here)
    home = folder / "tmp"
    home.mkdir(exist_ok=True)  # it is there where Python itself lies below /tmp
    home.chmod(0o777)
    os.chdir(home)
    os.chroot(folder)


def bound_process_table(place: Path) -> None:
    """As few processes as a table can be bound to, from Linux 6.14 on.

    No other bound holds where the machine's root is root of a user namespace of one user.
    """
    place.mkdir()
    mount("proc", place, "proc", MS_NOSUID | MS_NODEV, "")
    try:
        (place / "sys/kernel/pid_max").write_text(str(FEWEST_PROCESSES))
    finally:
        LIBC.umount2(os.fsencode(place), MNT_DETACH)
        place.rmdir()


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


def wait(pid: int, seconds: float) -> None:
    """Ends with the program, or when its time is up, should nobody be left to end us.

    The program ends with us, too: of a process table of its own we are the first process.
    """
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    signal.alarm(int(seconds) + 5)
    os.waitpid(pid, 0)
    os._exit(0)


def drop_privileges(user: int | None) -> None:
    """Leaves root's rights for good: by becoming `user`, else those of root in a user namespace."""
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        fail("give up new privileges")
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION_3, 0)
    if LIBC.capset(header, (ctypes.c_uint32 * 6)()):
        fail("give up the capabilities")
    if LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        fail("end with the first process")


def set_limits(order: dict[str, Any]) -> None:
    for name, value in order["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))


def run(program: str, verdict: int, token: str) -> None:
    """Only a program that comes to its end has passed; `sys.exit()` is an exception like others."""
    module = ModuleType("program")
    sys.modules["program"] = sys.modules["__main__"] = module
    sys.argv[:] = ["program"]
    try:
        exec(compile(program, "program", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except BaseException:
        os._exit(1)
    os.write(verdict, token.encode())
    os._exit(0)


def fail(what: str) -> None:
    raise OSError(ctypes.get_errno(), f"cannot {what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
