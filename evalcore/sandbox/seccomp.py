"""System calls that a process gives up for good: seccomp(2), without any privilege or library.

It closes what Landlock leaves open: sockets of every kind, shared memory by number, other
namespaces, and the debugging and renicing of others. A call that is given up fails with an error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
from collections.abc import Iterable

PR_GET_SECCOMP, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 21, 22, 2
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS: dict[str, tuple[int, int]] = {
    "accept": (43, 202),
    "accept4": (288, 242),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "fallocate": (285, 47),
    "io_uring_setup": (425, 425),
    "ioprio_set": (251, 30),
    "keyctl": (250, 219),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semget": (64, 190),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
"""By name the number on x86_64 and on aarch64."""
NOBODY_NEEDS = (
    *("add_key", "bpf", "keyctl", "perf_event_open", "ptrace", "request_key", "setns", "unshare"),
    "userfaultfd",
)
REACHES_OTHERS = (
    *("ioprio_set", "mq_open", "msgget", "pidfd_getfd", "process_vm_readv", "process_vm_writev"),
    *("sched_setattr", "sched_setparam", "sched_setscheduler", "semget", "setpriority", "shmget"),
)
"""By number or by user: where we have no process table and no IPC of our own."""
OWN_ONLY = ("prlimit64", "sched_setaffinity")
"""Their first argument is a process; 0 is the caller."""
UNKNOWN = {
    "clone3": errno.ENOSYS,  # its flags lie in memory, where no filter looks; clone takes its place
    "io_uring_setup": errno.ENOSYS,  # opens sockets past any filter
    "fallocate": errno.EOPNOTSUPP,  # takes disk that no count of written bytes shows
}
NEW_NAMESPACES = 0x7E020000
OUT_OF_X86_64 = 0x40000000
"""From here on the numbers of the x32 ABI begin, whose calls have names of their own."""
OFFLINE: tuple[int, ...] = ()
ONLINE = (int(socket.AF_INET), int(socket.AF_INET6), 16)
"""And netlink (16), by which names are looked up. None at a path of this machine."""
REACHES_A_SOCKET = ("connect", "accept", "accept4")
PAIRS = (int(socket.SOCK_STREAM), int(socket.SOCK_SEQPACKET))
"""Kinds of a pair that reach each other alone; a datagram can be sent to any address."""
OF_CUDA = int(socket.SOCK_SEQPACKET)
"""Its driver binds such a socket to a name, and listens: other processes may ask there for its
memory. Nothing is sent through one that is not connected."""
OF_ITS_OWN = (*ONLINE, int(socket.AF_UNIX))
"""In a network, and among files, of its own. A virtual machine's vsock is in no namespace."""

_LOAD, _EQUALS, _AT_LEAST, _HAS_BIT, _RETURN, _MASK = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_KIND_OF_SOCKET = 0xF
"""Of the second argument; above it stand flags, such as that a socket is closed by exec."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def available() -> bool:
    """Whether a filter can be laid over a process here."""
    if sys.platform != "linux" or platform.machine() not in ARCHITECTURES:
        return False
    return int(ctypes.CDLL(None).prctl(PR_GET_SECCOMP, 0, 0, 0, 0)) >= 0


def restrict(families: Iterable[int], *, alone: bool, cuda: bool = False) -> None:
    """Keep this process, and all that it starts, to sockets of these families.

    `alone`: it has no namespaces, so what it can name may be another's. `cuda`: where it may open
    no socket, it may open the one kind that CUDA needs. Needs `no_new_privs`. Raises OSError.
    """
    code = _program(tuple(families), alone=alone, cuda=cuda)
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        reason = ctypes.get_errno()
        raise OSError(reason, f"seccomp: {os.strerror(reason)}")


def _program(families: tuple[int, ...], *, alone: bool, cuda: bool) -> bytes:
    """For the kernel's virtual machine: a call that comes to the end of it is allowed."""
    machine = platform.machine()
    number = {name: both[list(ARCHITECTURES).index(machine)] for name, both in NUMBERS.items()}
    refused = dict.fromkeys(NOBODY_NEEDS, errno.EPERM) | UNKNOWN
    if alone:
        refused |= dict.fromkeys(REACHES_OTHERS, errno.EPERM)
    if families == OFFLINE:
        refused |= dict.fromkeys(REACHES_A_SOCKET, errno.EACCES)
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUALS, ARCHITECTURES[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        code += [_step(_AT_LEAST, OUT_OF_X86_64, 0, 1), _step(_RETURN, _FAIL | errno.ENOSYS)]
    for name, reason in refused.items():
        code += [_step(_EQUALS, number[name], 0, 1), _step(_RETURN, _FAIL | reason)]
    clone = [_step(_HAS_BIT, NEW_NAMESPACES, 0, 1), _step(_RETURN, _FAIL | errno.EPERM)]
    code += _about(number["clone"], clone)
    if families == OFFLINE and cuda:
        of_cuda = [
            *(_step(_EQUALS, int(socket.AF_UNIX), 1, 0), _step(_RETURN, _FAIL | errno.EACCES)),
            *(_step(_LOAD, _SECOND), _step(_MASK, _KIND_OF_SOCKET)),
            *_none_but((OF_CUDA,), errno.EACCES),
        ]
        code += _about(number["socket"], of_cuda)
    else:
        code += _about(number["socket"], _none_but(families, errno.EACCES))
    if int(socket.AF_UNIX) not in families:
        pairs = [_step(_MASK, _KIND_OF_SOCKET), *_none_but(PAIRS, errno.EACCES)]
        code += _about(number["socketpair"], pairs, _SECOND)
    if alone:
        for name in OWN_ONLY:
            code += _about(number[name], _none_but((0,), errno.EPERM))
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _about(number: int, steps: list[bytes], argument: int = _FIRST) -> list[bytes]:
    """Steps for one call alone, which look at an argument; what they let pass is allowed."""
    whole = [_step(_LOAD, argument), *steps, _step(_RETURN, _ALLOW)]
    return [_step(_EQUALS, number, 0, len(whole)), *whole]


def _none_but(values: tuple[int, ...], reason: int) -> list[bytes]:
    left = range(len(values), 0, -1)
    tests = [_step(_EQUALS, value, ahead, 0) for value, ahead in zip(values, left, strict=True)]
    return [*tests, _step(_RETURN, _FAIL | reason)]


def _step(kind: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", kind, if_so, if_not, value)
