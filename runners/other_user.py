"""Another user for each model's process, where we are root and the kernel offers nothing better.

A process gets a number that no account and no other process of this home folder has. It owns what
it is to write, and passes through the home folder to that alone: what else lies there is closed.
What it leaves behind is ours again before its number is another's, also where we were killed.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
import subprocess
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import psutil
from django.conf import settings

from runners import hub_cache, owned, seccomp
from runners.folders import empty

logger = logging.getLogger(__name__)

FIRST, BLOCKS, BLOCK = 70_000, 937, 32
"""Between 65,536 and 100,000 nobody gives numbers away, neither to accounts nor to containers.

Each home folder has a block of them. Two on one machine share one in a case of 937."""
LEDGERS = "users"
"""Below the home folder: by number a file of the places that its user owns. A process that runs
holds the file's lock."""
PASSED = ("work", "journal")
"""Below the home folder: a user knows the name of its own folder there, and lists nothing."""
PASSABLE = 0o711
OPEN_TO_ALL = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - where all may write
PATIENCE = 5.0
"""Seconds for killed processes to go."""
BETWEEN_TRIES = 0.5
KILL_ALL = ("/bin/sh", "-c", "kill -KILL -1")
"""All that this user may signal but the caller, in one sweep, which no fork escapes."""

_undying: list[int] = []
"""Locks of numbers whose processes do not end: they are nobody's as long as we live."""


def why_not(python: str) -> str | None:
    """What stands against it where models are run by this interpreter; None where nothing does."""
    if os.geteuid():
        return "we are not root"
    if not seccomp.available():
        return "without seccomp the sockets of this machine are open"
    home = settings.PLUMBLINE_HOME
    if home.exists():
        status, opened = home.stat(), (home / LEDGERS).exists()
        if status.st_uid or (status.st_mode & owned.OTHERS and not opened):
            return f"PLUMBLINE_HOME={home} is not root's alone: chown root it, and chmod go= it"
    for place in (Path(python), Path(python).resolve(), settings.PLUMBLINE_TASKS, *_cache(), home):
        if barred := _barred(place):
            return f"{barred} lets no other user pass to {place}: chmod o+x it, or move that"
    for place in _secrets():
        if place.exists() and place.stat().st_mode & owned.OTHERS and not _barred(place):
            return f"other users can reach {place}: chmod go= it"
    return None


@contextmanager
def lent(places: Sequence[Path], *, downloads: bool, wait: Callable[[], None]) -> Iterator[int]:
    """The number of a user who owns these folders, and all in them, until the statement ends.

    Downloads write into what they share: all have the same number, one at a time.
    `wait` is called between two looks at what another process has; it may raise. Raises OSError
    where a folder cannot be given away.
    """
    _open_home()
    while (taken := _taken(places, downloads)) is None:
        wait()
        sleep(BETWEEN_TRIES)
    user, lock = taken
    try:
        for place in places:
            owned.give(place, user, readable=_is_shared(place))
        yield user
    finally:
        if _ended(user, lock):
            os.close(lock)
        else:
            logger.error("processes of user %d do not end: it is used no more", user)
            _undying.append(lock)


def _taken(places: Sequence[Path], downloads: bool) -> tuple[int, int] | None:
    """A free number and its lock; None where there is none, or another has one of the places."""
    folder = settings.PLUMBLINE_HOME / LEDGERS
    with (folder / "lock").open("a") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        opened: dict[int, int] = {}
        free = []
        try:
            for user in _numbers():
                lock = os.open(folder / str(user), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                opened[user] = lock
                if not _locks(lock):
                    if any(_meet(place, other) for place in places for other in _places(lock)):
                        return None
                # What it has is that of a worker that was killed.
                elif not _places(lock) or _ended(user, lock):
                    free.append(user)
            downloader, *others = _numbers()
            for user in [downloader] if downloads else others:
                if user in free:
                    _write(opened[user], places)
                    return user, opened.pop(user)
            return None
        finally:
            for lock in opened.values():
                os.close(lock)


def _numbers() -> range:
    home = str(settings.PLUMBLINE_HOME).encode()
    first = FIRST + BLOCK * (zlib.crc32(home) % BLOCKS)
    return range(first, first + BLOCK)


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _places(lock: int) -> list[Path]:
    text = os.pread(lock, os.fstat(lock).st_size, 0)
    with suppress(ValueError):  # the machine went down as it was written: nothing was given away
        return [Path(place) for place in json.loads(text)]
    return []


def _write(lock: int, places: Sequence[Path]) -> None:
    """On the disk before any of them is given away."""
    os.ftruncate(lock, 0)
    if places:
        os.pwrite(lock, json.dumps([str(place) for place in places]).encode(), 0)
    os.fsync(lock)


def _meet(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _ended(user: int, lock: int) -> bool:
    """End all that the user runs, and take back all that it owns; False where it does not end."""
    until = monotonic() + PATIENCE
    while True:
        # Nothing runs it but a shell that is that user, or it fails before.
        subprocess.run(
            KILL_ALL, user=user, group=user, extra_groups=[], stderr=subprocess.DEVNULL, check=False
        )
        if not any(map(_runs(user), psutil.process_iter())):
            break
        if monotonic() > until:
            return False
        sleep(0.02)
    for folder in OPEN_TO_ALL:
        empty(folder.resolve(), of=user)
    for place in _places(lock):
        if _is_shared(place):
            owned.take_back(place)
        else:
            owned.close(place)
    _write(lock, [])
    return True


def _runs(user: int) -> Callable[[psutil.Process], bool]:
    def lives(process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return user in process.uids() and process.status() != psutil.STATUS_ZOMBIE
        return False

    return lives


def _open_home() -> None:
    """Let others pass through our home folder by name, having closed what they are not to reach.

    Nobody could enter it until now, so nobody loses what they had. Again each time: files came.
    """
    home, cache = settings.PLUMBLINE_HOME, hub_cache.home()
    passed = [home / name for name in PASSED]
    locks = cache / "hub" / ".locks"
    for folder in (*passed, home / LEDGERS, *_cache(), locks):
        folder.mkdir(parents=True, exist_ok=True)
    needed = (*passed, *_cache(), settings.PLUMBLINE_TASKS)
    for folder in (home, cache) if home in cache.parents else (home,):
        for entry in folder.iterdir():
            if not any(_meet(entry, place) for place in needed):
                owned.keep_others_out(entry)
    for folder in passed:
        for entry in folder.iterdir():
            owned.keep_others_out(entry)
        folder.chmod(PASSABLE)
    for folder in (*_cache(), locks):
        folder.chmod(owned.READABLE_FOLDER)
    if home in cache.parents:
        cache.chmod(PASSABLE)
    home.chmod(PASSABLE)


def _barred(place: Path) -> Path | None:
    """A folder on the way to it that no other user passes. Our own is none: we open it."""
    for folder in reversed(place.parents):
        if folder == settings.PLUMBLINE_HOME:
            return None
        if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def _is_shared(place: Path) -> bool:
    """Whether it is part of the cache, which others read while one writes."""
    return hub_cache.home() in place.parents


def _cache() -> tuple[Path, ...]:
    """What downloads write and models read."""
    return tuple(hub_cache.home() / name for name in ("hub", "datasets"))


def _secrets() -> Iterator[Path]:
    """What lies outside our home folder and is nobody else's business."""
    found = [
        Path(value)
        for name, value in os.environ.items()
        if name.endswith("_FILE") and name.startswith(("PLUMBLINE_", "HF_TOKEN"))
    ]
    found += [
        Path(str(database["NAME"]))
        for database in settings.DATABASES.values()
        if str(database["ENGINE"]).endswith("sqlite3")
    ]
    found.append(hub_cache.home() / "token")
    yield from (place for place in found if settings.PLUMBLINE_HOME not in place.parents)
