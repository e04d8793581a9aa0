"""Landlock: a process gives up files, TCP and signals for good, without any privilege.

See landlock(7). What a kernel does not know yet is left out: from Linux 5.13 on (ABI 1) files are
kept, TCP from 6.7 (ABI 4), signals and abstract sockets from 6.12 (ABI 6). No ABI that we use keeps
a process from sockets that have a path, nor from UDP.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ONLY_SAY_VERSION = 1
PATH_BENEATH = 1
TCP_ABI, SCOPE_ABI = 4, 6

READ = 1 << 0 | 1 << 2 | 1 << 3
"""Execute, read a file, list a folder."""
WRITE = READ | 1 << 1 | sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12, 13, 14))
"""And whatever makes, changes or removes files; not the making of devices."""
CHANGE = READ | 1 << 1 | 1 << 14
"""And write into what is there, which who opens it for that mostly empties first."""
USE_DEVICE = 1 << 1 | 1 << 2 | 1 << 15
OF_A_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
"""Rights that can be granted on something that is no folder."""
BITS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
TCP = 1 << 0 | 1 << 1
ABSTRACT_SOCKETS_AND_SIGNALS = 1 << 0 | 1 << 1


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def abi() -> int:
    """What this kernel offers; 0 where it has no Landlock."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return max(int(libc.syscall(CREATE_RULESET, None, 0, ONLY_SAY_VERSION)), 0)


def restrict(
    read: Iterable[Path],
    write: Iterable[Path],
    devices: Iterable[Path],
    *,
    change: Iterable[Path] = (),
    tcp: bool = False,
) -> None:
    """Keep this process, and all that it starts, to these files and folders, and from TCP.

    With `tcp` not from TCP: for a process whose network has nobody else in it. Needs
    `no_new_privs`. A path that is not there, or out of this user's reach, is left out. Raises
    OSError.
    """
    version = abi()
    if not version:
        raise OSError("this kernel has no Landlock")
    handled = (1 << BITS_BY_ABI[min(version, max(BITS_BY_ABI))]) - 1
    wanted = _Ruleset(
        handled,
        TCP if version >= TCP_ABI and not tcp else 0,
        ABSTRACT_SOCKETS_AND_SIGNALS if version >= SCOPE_ABI else 0,
    )
    size = 24 if version >= SCOPE_ABI else 16 if version >= TCP_ABI else 8
    ruleset = _call(CREATE_RULESET, ctypes.byref(wanted), size, 0)
    try:
        granted = ((read, READ), (write, WRITE), (change, CHANGE), (devices, USE_DEVICE))
        for places, rights in granted:
            for place in places:
                _allow(ruleset, place, rights & handled)
        _call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, place: Path, rights: int) -> None:
    try:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if not place.is_dir():
            rights &= OF_A_FILE
        beneath = _PathBeneath(rights, descriptor)
        _call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(beneath), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    outcome = int(libc.syscall(number, *arguments))
    if outcome < 0:
        reason = ctypes.get_errno()
        raise OSError(reason, f"landlock: {os.strerror(reason)}")
    return outcome
