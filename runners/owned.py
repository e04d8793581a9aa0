"""Folders that change hands between us, who are root, and the user of a model's process.

No process of that user lives while they do. What it has put there is looked at through descriptors:
a link is never followed, and what is no plain file of one name is removed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from runners.folders import DEEPEST, remove

OWN_FOLDER, OWN_FILE = 0o700, 0o600
READABLE_FOLDER, READABLE_FILE = 0o755, 0o644
OTHERS = 0o077
"""Whatever a group or everybody may do."""
ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
"""By which an owner lets others in, whoever owns it afterwards."""
OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def give(place: Path, user: int, *, readable: bool) -> None:
    """Have the user own a folder and all in it, `readable` or closed to everybody else.

    Raises OSError.
    """
    _hand_over(place, user, readable=readable)


def take_back(place: Path) -> None:
    """Have a folder and all in it be ours, for everybody to read. Raises OSError."""
    _hand_over(place, os.geteuid(), readable=True)


def close(place: Path) -> None:
    """Have a folder be ours and closed, whoever owns what lies in it. Raises OSError."""
    with suppress(FileNotFoundError):
        here = os.open(place, OPEN | os.O_DIRECTORY)
        try:
            _own(here, os.geteuid(), OWN_FOLDER)
        finally:
            os.close(here)


def keep_others_out(place: Path) -> None:
    """Take away what groups and everybody may do; links say nothing by their mode."""
    with suppress(FileNotFoundError):
        mode = place.lstat().st_mode
        if mode & OTHERS and not stat.S_ISLNK(mode):
            place.chmod(stat.S_IMODE(mode) & ~OTHERS)


def _hand_over(place: Path, user: int, *, readable: bool) -> None:
    of_folders, of_files = (READABLE_FOLDER, READABLE_FILE) if readable else (OWN_FOLDER, OWN_FILE)
    with suppress(FileNotFoundError):
        for folder, inner, names, here in os.fwalk(place):
            _own(here, user, of_folders)
            for name in names:
                _own_entry(name, here, user, of_files)
            depth = len(Path(folder).parts) - len(place.parts)
            for name in list(inner):
                if stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                    os.chown(name, user, user, dir_fd=here, follow_symlinks=False)
                elif depth >= DEEPEST:
                    remove(name, below=here)
                    inner.remove(name)


def _own_entry(name: str, folder: int, user: int, mode: int) -> None:
    """An entry of a folder that is no folder."""
    try:
        entry = os.open(name, OPEN, dir_fd=folder)
    except OSError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.chown(name, user, user, dir_fd=folder, follow_symlinks=False)
        else:
            os.unlink(name, dir_fd=folder)
        return
    try:
        status = os.fstat(entry)
        # A second name may be that of somebody else's file, which would be given away.
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            _own(entry, user, mode)
        else:
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(entry)


def _own(entry: int, user: int, mode: int) -> None:
    for name in ACCESS_LISTS:
        with suppress(OSError):  # there is none, or the file system has none
            os.removexattr(entry, name)
    status = os.fstat(entry)
    if (status.st_uid, status.st_gid) != (user, user):
        os.fchown(entry, user, user)
    if stat.S_IMODE(status.st_mode) != mode:
        os.fchmod(entry, mode)
