"""`python -m tests.runners.old_kernel COMMAND…`: run it as on Linux before 5.12.

A filter answers mount_setattr(2) as a kernel does that has never heard of it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

MOUNT_SETATTR = 442
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUALS, RETURN, ALLOW, FAIL = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def forget_mount_setattr() -> None:
    steps = (
        (LOAD, 0, 0, 0),
        (EQUALS, 0, 1, MOUNT_SETATTR),
        (RETURN, 0, 0, FAIL | errno.ENOSYS),
        (RETURN, 0, 0, ALLOW),
    )
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    forget_mount_setattr()
    os.execvp(sys.argv[1], sys.argv[1:])
