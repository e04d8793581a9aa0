"""A command that runs code by nobody, confined: read `confined` first.

There are two ways. Namespaces give a process a file system, a network and a process table of its
own; where the machine allows none, Landlock keeps it from files and seccomp from sockets and from
other processes. Landlock, and seccomp where the processor is known to it, lie over the namespaces
too. What happens to the process, in order, is in confined_child.py; what it can and cannot reach
then, line by line, in docs/sandbox.md.

This room knows no settings: what a command may read, write and use are arguments.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalcore.sandbox import landlock, seccomp


@dataclass(frozen=True)
class Way:
    """How strictly a process is confined."""

    name: str
    """As the rows of workers and the records of runs have it."""
    namespaces: bool
    landlock: bool = True

    @property
    def network(self) -> str:
        """The network of a process that is given none, as a record has it."""
        return "none" if self.namespaces or seccomp.available() else "not isolated"


NAMESPACES = Way("namespaces and Landlock", namespaces=True)
LANDLOCK = Way("Landlock", namespaces=False)
WAYS = (NAMESPACES, LANDLOCK)
"""The strictest first."""
LIMITS_ALONE = Way("limits alone", namespaces=False, landlock=False)
"""What is left where neither works: it keeps a process from hardly anything."""

REMEDY = (
    "Boot Linux 5.13 or later with Landlock (lsm=landlock,...), and let a container's seccomp "
    "profile pass landlock_restrict_self; beside Landlock allow user namespaces (unshare of "
    "util-linux) or, on x86-64 and ARM, seccomp"
)
"""What an operator can do where neither way works."""

UNSHARE = ("unshare", "--mount", "--ipc", "--pid", "--fork", "--kill-child")
OF_A_USER = ("--user", "--map-root-user")
OF_ITS_OWN = "--net"
BOOT = """
import sys, types
for name in ("evalcore", "evalcore.sandbox"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["evalcore.sandbox"].__path__ = [sys.argv[1]]
from evalcore.sandbox import confined_child
confined_child.main(sys.argv[2:])
"""
"""Imports this room alone: the rest of the engine takes time, and may not be installed or shown."""
PROBE = "import os, ssl, tempfile; tempfile.TemporaryFile(); os.listdir('/proc/self')"

# What is shown

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
LINKER_FILES = tuple(
    f"/etc/{name}"
    for name in ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime")
)
"""Without which a program of the system may not start."""
SYSTEM_FILES = tuple(
    f"/etc/{name}"
    for name in (
        *("nsswitch.conf", "passwd", "group", "hosts"),
        # The Hub's client reads certificates before it notices that it is offline.
        *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs"),
    )
)
NETWORK_FILES = tuple(
    f"/etc/{name}"
    for name in (
        *("resolv.conf", "host.conf", "gai.conf", "services", "protocols"),
        *("ca-certificates", "pki/ca-trust/extracted", "crypto-policies"),
    )
)
"""How names are looked up and certificates checked, for a process that has the network."""
PARTS_OF_PYTHON = ("bin", "lib", "lib64", "include", "share", "pyvenv.cfg")
SHM = Path("/dev/shm")  # noqa: S108 - the machine's own, for what torch shares
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
OF_CUDA = "nvidia*"
ACCELERATORS = (OF_CUDA, "kfd", "dri", "accel")
"""Devices that a model computes on, below `/dev`."""

ROOT_BYTES = 64 << 20
PROCESSES = 301
"""The least that Linux lets a process table be bound to."""
PROCESSES_PER_CORE = 8


def processes_of_a_model() -> int:
    """How many processes and threads a model may have, on this machine's cores."""
    return PROCESSES + PROCESSES_PER_CORE * (os.cpu_count() or 1)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a command is given beside the system's own folders and Python."""

    folder: Path
    """Where it works; with namespaces an empty folder in memory stands there."""
    read: Sequence[Path] = ()
    write: Sequence[Path] = ()
    """Made by the caller."""
    loopback: bool = False
    """Whether it connects to itself, as torch's process groups do: in a network of its own only."""
    network: bool = False
    """Whether it has the machine's network, as a download must; and then no GPU."""
    bare: bool = False
    """Whether it does without `/proc`, `/sys`, shared memory, GPUs and the files of `/etc`."""
    user: int | None = None
    """A number that it becomes, where we are root and a limit on processes must bind."""
    memory_files_bytes: int = ROOT_BYTES
    """Of all files outside `write`, with namespaces."""
    processes: int = field(default_factory=processes_of_a_model)
    """With their threads, where the kernel can count them; 0 for none but itself."""
    limits: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Of each of its processes, by their names in `resource`."""
    seconds: int | None = None
    """After which it ends with namespaces, should nobody be left to end it."""


def confined(command: Sequence[str], needs: Needs, way: Way) -> list[str]:
    """The command that runs this one confined; the same one on systems other than Linux."""
    if sys.platform != "linux":
        return list(command)
    own_network = way.namespaces and not needs.network
    programs = [path for path in map(Path, command) if path.is_absolute() and path.is_file()]
    # A root of its own has both as well, empty.
    machines = [needs.folder] if needs.bare else [needs.folder, SHM]
    write = needs.write if way.namespaces else [*needs.write, *machines]
    order: dict[str, Any] = {
        "namespaces": way.namespaces,
        "landlock": way.landlock,
        "sockets": _sockets(own_network, needs) if seccomp.available() else None,
        "loopback": needs.loopback and way.namespaces,
        "tcp": needs.network or (needs.loopback and way.namespaces),
        "folder": str(needs.folder),
        "read": _with_targets([*_read_by_all(needs), *programs, *needs.read]),
        "write": _with_targets(write),
        "devices": _with_targets(_devices(needs)),
        "bare": needs.bare,
        "cuda": _has_cuda(needs),
        "user": needs.user,
        "memory_files_bytes": needs.memory_files_bytes,
        "processes": max(needs.processes, PROCESSES),
        "limits": {**needs.limits, "RLIMIT_NPROC": _counted(way, needs)},
        "seconds": needs.seconds,
    }
    here = str(Path(__file__).parent)
    wrapped = [sys.executable, "-I", "-S", "-c", BOOT, here, json.dumps(order), *command]
    if not way.namespaces:
        return wrapped
    own_user = () if needs.user is not None else OF_A_USER
    return [*UNSHARE, *own_user, *((OF_ITS_OWN,) if own_network else ()), *wrapped]


def _sockets(own_network: bool, needs: Needs) -> tuple[int, ...]:
    """Families of sockets that it may open."""
    if own_network:
        return seccomp.OF_ITS_OWN
    return seccomp.ONLINE if needs.network else seccomp.OFFLINE


def _read_by_all(needs: Needs) -> list[Path]:
    """The system's programs, its libraries and Python."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    # Not a whole prefix: an environment may have been made in a folder that holds other things.
    python = [f"{prefix}/{part}" for prefix in sorted(prefixes) for part in PARTS_OF_PYTHON]
    libraries = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    named = [*SYSTEM_FOLDERS, *LINKER_FILES, *python]
    if not needs.bare:
        named += [*SYSTEM_FILES, "/opt/rocm", *filter(os.path.isabs, libraries)]
    if needs.network:
        named += NETWORK_FILES
    return list(map(Path, named))


def _devices(needs: Needs) -> list[Path]:
    harmless = [Path(device) for device in DEVICES]
    if needs.network or needs.bare:
        return harmless
    return [*harmless, *(found for name in ACCELERATORS for found in Path("/dev").glob(name))]


def has_cuda() -> bool:
    """Whether a process that is shown the accelerators may start CUDA's driver on them."""
    return any(Path("/dev").glob(OF_CUDA))


def _has_cuda(needs: Needs) -> bool:
    return has_cuda() and not (needs.network or needs.bare)


def _with_targets(places: Iterable[Path]) -> list[str]:
    """Each path as it is written, and where it leads, should it be a link."""
    found = dict.fromkeys(place for path in places for place in (path, path.resolve()))
    return [str(place) for place in found if place.exists()]


def _counted(way: Way, needs: Needs) -> int:
    """What the kernel is to count up to: with the first process, or with all of this user."""
    if way.namespaces:
        return needs.processes + 1
    return needs.processes + _threads_of_this_user() if needs.processes else 0


def _threads_of_this_user() -> int:
    count, own = 0, str(os.getuid())
    for file in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it has ended
            lines = file.read_text().splitlines()
            values = {
                name: rest.split() for name, _, rest in (line.partition(":") for line in lines)
            }
            if values["Uid"][0] == own:
                count += int(values["Threads"][0])
    return count


# Which way works


@functools.cache
def why_not(way: Way, user: int | None = None) -> str | None:
    """What stands against this way, for that user, on this machine; None where it works."""
    if way.namespaces and not shutil.which(UNSHARE[0]):
        return "there is no unshare"
    if not landlock.abi():
        return "this kernel has no Landlock"
    if not way.namespaces and not seccomp.available():
        return "without seccomp the sockets of this machine are open"
    with tempfile.TemporaryDirectory(prefix="confinement-") as name:
        needs = Needs(folder=Path(name), write=[Path(name, "own")], user=user)
        needs.write[0].mkdir()
        inherited = ("PATH", "LANG", "LD_LIBRARY_PATH")
        environment = {key: os.environ[key] for key in inherited if key in os.environ}
        environment["TMPDIR"] = name
        trial = confined([sys.executable, "-I", "-c", PROBE], needs, way)
        return failure_of(trial, environment, needs.folder, seconds=60)


def failure_of(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, *, seconds: float
) -> str | None:
    """The last line that a trial printed before it failed; None where it did not."""
    try:
        outcome = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    if outcome.returncode == 0:
        return None
    return (outcome.stderr.strip().splitlines() or [f"status {outcome.returncode}"])[-1]
