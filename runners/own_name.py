"""A name for each worker of a host and device, which no other has while it lives."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from time import time

from runners.devices import CPU, Gpu, NoSuchDevice


@contextmanager
def own_name(home: Path, gpus: Sequence[Gpu]) -> Iterator[str]:
    """`evaluate-cuda0@host` or `evaluate-cpu@host`, with a number where another has that.

    Jobs of an engine on one host may each have a GPU that they call 0, or some of its processors.
    The kernel lets go of the locks with the process. Raises NoSuchDevice for a GPU that another
    worker has.
    """
    host = socket.gethostname()
    # Celery takes a comma for the end of a name, and files of a broker have it in theirs.
    device = f"cuda{'+'.join(gpu.index for gpu in gpus)}" if gpus else CPU
    folder = home / "workers"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        for gpu in gpus:
            if not _lock(folder / _file_name(f"{host} {gpu.uuid}"), held):
                raise NoSuchDevice(
                    f"GPU {gpu.index} ({gpu.uuid}) has a worker already, whose files are in "
                    f"{home}: stop that, or name other devices"
                )
        for number in count(1):
            name = f"evaluate-{device}" + (f".{number}" if number > 1 else "") + f"@{host}"
            if _lock(folder / _file_name(name), held):
                break
        yield name


def forget(home: Path, unused_for: timedelta) -> int:
    """Remove the locks that no worker has, nor began to have for so long; how many."""
    gone = 0
    for file in (home / "workers").glob("*.lock"):
        with ExitStack() as held, suppress(FileNotFoundError):
            is_old = time() - file.stat().st_mtime > unused_for.total_seconds()
            if is_old and _lock(file, held):
                file.unlink()
                gone += 1
    return gone


def _lock(file: Path, held: ExitStack) -> bool:
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        # Of a file that was forgotten in between, another could have its own in this place.
        if _lies_there(file, lock):
            break
        os.close(lock)
    os.utime(lock)
    held.callback(os.close, lock)
    return True


def _lies_there(file: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    return False


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.+@-]", "_", name) + ".lock"
