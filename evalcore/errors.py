"""Whose fault is it? Every error of the engine names who must act.

The docstring of a class is the first half of every message; the second half says what happened and
what to do about it. Only our own faults (`InfraError`) are worth trying again.
"""

from __future__ import annotations

import difflib
import errno
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar


class EvalError(Exception):
    """The evaluation failed."""

    exit_code: ClassVar[int] = 1
    retry: ClassVar[bool] = False
    task: str | None = None
    """The task or group that the error is about, where another might still go well."""
    others: Sequence[EvalError] = ()
    """What failed before it in the same run: each is about one task, without which it went on."""
    finished: Sequence[Any] = ()
    """What the library's `evaluate` had finished; a command has written it."""

    @property
    def reason(self) -> str:
        """The second half of the message: what happened and what to do."""
        return super().__str__()

    def __str__(self) -> str:
        headline = (type(self).__doc__ or "").strip().rstrip(".")
        return f"{headline}: {self.reason}"


class ModelError(EvalError):
    """The model cannot be evaluated as it is; whoever chose or published it must act."""

    exit_code = 10


class TaskError(EvalError):
    """The task or its data set is at fault; its author must act."""

    exit_code = 11


class InfraError(EvalError):
    """Our machines or the network failed, not the model or the task; the run can be tried again."""

    exit_code = 12
    retry = True


DISK_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
DISK_IS_FULL = 13
"""Exit status of an InfraError for want of room on a disk, which another machine may have."""


def for_want_of_room(error: BaseException) -> bool:
    """Whether what it was raised of is a disk that has no room left, or none for this user."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in DISK_FULL:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


class Stopped(BaseException):
    """Somebody asked us to stop; the journal has every response so far.

    No Exception: it may be raised amid code that is somebody else's and catches those.
    """


def keep_ours(raised: BaseException) -> None:
    """Raises again what is not the doing of somebody else's code that has just raised it.

    What such code may end with besides an Exception: `sys.exit`, an interrupt that nobody sent, a
    panic of a library in Rust. A task that does so fails, and nothing else does.
    """
    if isinstance(raised, Stopped | GeneratorExit):
        raise raised
    if isinstance(raised, KeyboardInterrupt):
        may_be_sent = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if may_be_sent and threading.current_thread() is threading.main_thread():
            raise raised


@contextmanager
def code_of_others(what: str) -> Iterator[None]:
    """Whatever somebody else's code raises inside becomes a TaskError that names it."""
    try:
        yield
    except TaskError:
        raise
    except BaseException as error:
        keep_ours(error)
        raise TaskError(f"{what} failed: {type(error).__name__}: {error}") from error


@contextmanager
def said_of(what: str) -> Iterator[None]:
    """Says of an error that is raised inside what it is about."""
    try:
        yield
    except EvalError as error:
        raise type(error)(f"{what}: {error.reason}") from error


def first_of(names: Sequence[str]) -> str:
    """The names, of many the first three: all 57 tasks of a group may have the same problem."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known names as the end of a sentence, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f" (did you mean {', '.join(near)}?)" if near else ""
