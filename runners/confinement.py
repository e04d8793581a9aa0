"""How a model's process is kept from everything that it does not need: see docs/sandbox.md.

Its code is nobody's: weights cannot run any, but a tokenizer or a template that exploits a bug
can. `command` puts in front of a command what confines it, the strictest way that works here.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from runners import backends, landlock, other_user, seccomp
from runners.devices import host_memory
from runners.sandbox import INHERITED
from runners.shown import devices, has_cuda, to_be_read, with_targets

logger = logging.getLogger(__name__)

NAMESPACES = (
    *("unshare", "--user", "--map-root-user", "--mount", "--ipc", "--pid"),
    *("--fork", "--kill-child"),
)
OF_ITS_OWN = "--net"
FILE_BYTES = 1 << 30
OPEN_FILES = 4096
PROCESSES = 301
PROCESSES_PER_CORE = 8
OWN_MEMORY = 4 << 30
"""Address space for Python and its libraries, beside the model's."""
PROBE = "import os, ssl, tempfile; tempfile.TemporaryFile(); os.listdir('/proc/self')"


@dataclass(frozen=True)
class Way:
    """How strictly a model's process is confined here."""

    name: str
    namespaces: bool = False
    landlock: bool = False
    own_user: bool = False

    @property
    def network(self) -> str:
        """What a record says of the network that the model had."""
        if self.namespaces or seccomp.available():
            return "none"
        return "no TCP" if self.landlock and landlock.abi() >= landlock.TCP_ABI else "not isolated"


WAYS = (
    Way("namespaces and Landlock", namespaces=True, landlock=True),
    Way("namespaces", namespaces=True),
    Way("Landlock", landlock=True),
    Way("another user", own_user=True),
)
LIMITS_ALONE = Way("limits alone")


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a command is given beside the system's own folders and Python."""

    folder: Path
    """Where it works; with namespaces an empty folder in memory stands there."""
    read: Sequence[Path] = ()
    write: Sequence[Path] = ()
    """Made by the caller."""
    cpu_seconds: int | None = None
    """Of each of its processes."""
    loopback: bool = False
    """Whether it connects to itself, as torch's process groups do: in a network of its own only."""
    network: bool = False
    """Whether it has the machine's network, as a download must; and then no GPU."""
    file_bytes: int = FILE_BYTES
    """The largest file that it may write."""
    mapped_bytes: int = 0
    """Of weights that it maps from their files: they count as memory, and take none."""

    @property
    def sockets(self) -> tuple[int, ...]:
        """Families of sockets that it may open where it shares the machine's network."""
        return seccomp.ONLINE if self.network else seccomp.OFFLINE


def _nothing() -> None:
    """What is done meanwhile where nothing is asked for."""


@contextmanager
def confined(
    wanted: Sequence[str],
    needs: Needs,
    way: Way | None = None,
    wait: Callable[[], None] = _nothing,
) -> Iterator[list[str]]:
    """`wanted`, confined as the way says; nothing that it started outlives the statement there.

    `wait` is called now and then where it must wait for a user that others have; it may raise.
    Raises OSError where a folder cannot be given to that user.
    """
    way = way or here()
    if not way.own_user:
        yield command(wanted, needs, way)
        return
    places = list(dict.fromkeys([needs.folder, *needs.write]))
    with other_user.lent(places, downloads=needs.network, wait=wait) as user:
        yield command(wanted, needs, way, user)


def command(wanted: Sequence[str], needs: Needs, way: Way, user: int | None = None) -> list[str]:
    """`wanted`, confined as the way says, as that user; as it is on systems other than Linux."""
    if sys.platform != "linux":
        return list(wanted)
    programs = [path for path in map(Path, wanted) if path.is_absolute() and path.is_file()]
    write = list(needs.write)
    if not way.namespaces:
        write += [needs.folder, Path("/dev/shm")]  # noqa: S108 - that of the machine
    own_network = way.namespaces and not needs.network
    sockets = seccomp.OF_ITS_OWN if own_network else needs.sockets
    order: dict[str, Any] = {
        "namespaces": way.namespaces,
        "user": user,
        "landlock": way.landlock,
        "sockets": sockets if seccomp.available() else None,
        "loopback": needs.loopback and way.namespaces,
        "tcp": needs.network or (needs.loopback and way.namespaces),
        "folder": str(needs.folder),
        "read": with_targets([*to_be_read(network=needs.network), *programs, *needs.read]),
        "write": with_targets(write),
        "devices": with_targets(devices(accelerators=not needs.network)),
        "cuda": has_cuda() and not needs.network,
        "processes": _processes(),
        "limits": _limits(way, needs),
    }
    confined = [sys.executable, "-P", "-s", "-m", "runners.confined", json.dumps(order), *wanted]
    if not way.namespaces:
        return confined
    return [*NAMESPACES, *((OF_ITS_OWN,) if own_network else ()), *confined]


def _processes() -> int:
    return PROCESSES + PROCESSES_PER_CORE * (os.cpu_count() or 1)


def _limits(way: Way, needs: Needs) -> dict[str, int]:
    limits = {
        "RLIMIT_FSIZE": needs.file_bytes,
        "RLIMIT_NOFILE": OPEN_FILES,
        # Private memory, not addresses: CUDA reserves terabytes of these.
        "RLIMIT_DATA": _memory() + needs.mapped_bytes + OWN_MEMORY,
        # With neither a process table nor a user of its own all threads of this user are counted.
        "RLIMIT_NPROC": _processes()
        + (0 if way.namespaces or way.own_user else _threads_of_this_user()),
    }
    if needs.cpu_seconds is not None:
        limits["RLIMIT_CPU"] = needs.cpu_seconds
    return limits


def _memory() -> int:
    """What the machine has to give just now: a process takes gigabytes between two looks at it.

    A GPU's driver counts as private memory what is none, so that there it is twice all of it.
    """
    if has_cuda():
        return 2 * host_memory()
    return min(host_memory(), psutil.virtual_memory().available)


def _threads_of_this_user() -> int:
    count = 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]
        if uids and uids.real == os.getuid():
            count += process.info["num_threads"] or 1
    return count


_taken: list[Way] = []


@functools.cache
def here() -> Way:
    """The strictest way that works on this machine; a warning says what it leaves open."""
    if _taken:
        return _taken[-1]
    reasons: list[str] = []
    for way in WAYS:
        why = _why_not(way)
        if why is None:
            if not way.namespaces:
                opens = OPEN_AS_ANOTHER_USER if way.own_user else OPEN_WITHOUT_NAMESPACES
                logger.warning(opens, "; ".join(reasons))
            return way
        reasons.append(f"{way.name}: {why}")
    logger.warning(OPEN, "; ".join(reasons))
    return LIMITS_ALONE


def less_strict(than: Way) -> Iterator[Way]:
    """The ways after this one that confine and work here."""
    if than in WAYS:
        yield from (way for way in WAYS[WAYS.index(than) + 1 :] if _why_not(way) is None)


def take(way: Way) -> None:
    """Have `here` be this way from now on, in this process."""
    _taken.append(way)
    here.cache_clear()


def refusal() -> str | None:
    """Why no model may be run here; None where one may."""
    if settings.PLUMBLINE_UNCONFINED or here() != LIMITS_ALONE:
        return None
    return f"nothing here confines a model's process. {REMEDY}"


REMEDY = (
    "Allow user namespaces (Linux 4.18 or later, unshare of util-linux; in a container its seccomp "
    "profile must let them through) or Landlock (Linux 5.13 or later, lsm=landlock); or run "
    "workers as root, with Python and PLUMBLINE_HOME where other users pass; or set "
    "PLUMBLINE_UNCONFINED=yes where workers own nothing and nobody else submits models "
    "(docs/sandbox.md)"
)
OPEN_WITHOUT_NAMESPACES = (
    "NO NAMESPACES HERE: models are confined by Landlock and seccomp alone. Their process sees "
    "other processes and the machine's /proc, and what leaves its session is looked for and "
    "killed, not ended by the kernel (docs/sandbox.md). %s"
)
OPEN_AS_ANOTHER_USER = (
    "NEITHER NAMESPACES NOR LANDLOCK HERE: each model's process is another user of this machine, "
    "without sockets (seccomp). It reads what every user may read, other models among it, and sees "
    "other processes (docs/sandbox.md). %s"
)
OPEN = (
    "MODELS ARE NOT CONFINED HERE: there are neither namespaces nor Landlock, so a model's process "
    "can read and write all that this user can, the database and the secret key among it. Run "
    "workers as a user who owns nothing else, or on a machine of their own "
    "(docs/sandbox.md). %s"
)


def _why_not(way: Way) -> str | None:
    """What stands against this way; None where it works."""
    if way.namespaces and not shutil.which(NAMESPACES[0]):
        return "there is no unshare"
    if way.landlock and not landlock.abi():
        return "this kernel has no Landlock"
    if way.own_user and (why := other_user.why_not(backends.python()[0])):
        return why
    with tempfile.TemporaryDirectory(prefix="confinement-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        python = backends.python()[0] if way.own_user else sys.executable
        needs = Needs(folder=folder, write=[folder / "tmp"])
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        environment["TMPDIR"] = str(folder / "tmp")
        try:
            with confined([python, "-I", "-c", PROBE], needs, way) as trial:
                return failure(trial, environment, folder, seconds=60)
        except OSError as problem:
            return f"nothing can be given to another user: {problem}"


def failure(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, *, seconds: float
) -> str | None:
    """The last that a trial said before it failed; None where it did not."""
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
