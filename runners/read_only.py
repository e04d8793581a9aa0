"""What is shown to be read is made read-only, with all mounted below it, on older kernels too."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

from evalcore.task.transforms import code_child
from evalcore.task.transforms.code_child import MS_BIND, MS_NODEV, MS_NOSUID, mount

MS_RDONLY, MS_NOEXEC, MS_REMOUNT = 1, 8, 32


def make_read_only(target: Path) -> None:
    """Raises OSError where something that can be reached stays open to be written."""
    try:
        code_child.make_read_only(target)
    except OSError:  # before Linux 5.12, or where a container refuses the call
        _make_each_read_only(target)


def _make_each_read_only(target: Path) -> None:
    """The same by a call that older kernels have, which takes one mount at a time."""
    found = _mounted_at_or_below(target)
    for place in found:
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID
        with suppress(OSError):  # what came of it is looked at below
            # In a user namespace what a mount forbids already must be forbidden again.
            now = os.statvfs(place).f_flag
            flags |= MS_NODEV if now & os.ST_NODEV else 0
            flags |= MS_NOEXEC if now & os.ST_NOEXEC else 0
            mount("", place, "", flags, "")
    for place in (target, *found):
        try:
            writable = not os.statvfs(place).f_flag & os.ST_RDONLY
        except (PermissionError, FileNotFoundError):
            continue  # no way leads there for us, nor for the program, which may do less
        if writable:
            raise OSError(errno.EPERM, f"cannot make {place} read-only")


def _mounted_at_or_below(target: Path) -> list[Path]:
    """Where something is mounted, as the kernel lists it: the fifth word of each line."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    # Blanks and the like are written in octal.
    words = (re.sub(rb"\\([0-7]{3})", _character, line.split()[4]) for line in lines)
    places = (Path(os.fsdecode(word)) for word in words)
    return [place for place in places if place == target or target in place.parents]


def _character(octal: re.Match[bytes]) -> bytes:
    return bytes([int(octal[1], 8)])
