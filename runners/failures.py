"""How a child's work can end but well, who must act on it, and what may be said of it.

A child that fails raises `Failed`; `blame` fails the runs that the failure is about. What everybody
may read is cleaned of this machine's folders and secrets, and withheld where it may quote a data
set that stays offline.
"""

from __future__ import annotations

import errno
import logging
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from evalcore.errors import DISK_FULL, DISK_IS_FULL, TaskError
from evalcore.score.withholding import tasks_without_text
from evalcore.task.library.load import TaskLibrary
from leaderboard.logs import withheld
from leaderboard.models import Run
from leaderboard.models.run import ErrorClass
from leaderboard.queue import claims
from runners.process import ERRORS, Failure
from runners.registration import persistently

if TYPE_CHECKING:
    from runners.watch import Watch

logger = logging.getLogger(__name__)

STOPPED = 75
"""Exit status of an engine that stopped because it was asked to."""
NO_ROOM = DISK_FULL | {errno.ENOMEM}
"""What the system says to the worker itself where its machine is full."""


class Taken(Exception):
    """A run that the child works on is no longer ours."""


class Stopping(Exception):
    """The worker was asked to stop, or to give its runs back."""


class Failed(Exception):
    """A child did not do its work; says who must act, and of which task or of all."""

    def __init__(
        self,
        error_class: ErrorClass,
        message: str,
        task: str | None = None,
        *,
        of_all: bool = False,
        no_room: bool = False,
        disk_full: bool = False,
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message
        self.task = task
        self.of_all = of_all
        self.no_room = no_room
        """The worker's machine is full: no run is to blame."""
        self.disk_full = disk_full
        """Somebody says that the disk is full, and the worker has yet to look (`check_disk`)."""


@contextmanager
def full_machine_fails() -> Iterator[None]:
    """What the system refuses the worker for want of room becomes Failed."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        raise no_room(problem) from problem


def no_room(problem: OSError) -> Failed:
    message = f"the worker's machine has no room: {problem.strerror}"
    of_disk = problem.errno in DISK_FULL
    return Failed(ErrorClass.INFRA, message, no_room=not of_disk, disk_full=of_disk)


def judge(status: int, failure: Failure | None, watch: Watch) -> None:
    """Raise what the child's end means, unless it ended well."""
    if status == 0:
        return
    by_status = {error.exit_code: name for name, error in ERRORS.items()}
    if failure and by_status.get(status) == failure.error_class != ErrorClass.INFRA:
        raise _failed(failure, watch)
    if watch.must_stop() or (status == STOPPED and watch.hears_that_it_must_stop()):
        raise Stopping
    if status == STOPPED:  # or it would be begun anew for ever
        message = "the model's process ended as one that was asked to stop, and nobody had asked it"
        raise Failed(ErrorClass.INFRA, message)
    if status == DISK_IS_FULL:
        reason = _failed(failure, watch).message if failure else "a file could not be written"
        message = f"the worker's disk is full: {reason}"
        raise Failed(ErrorClass.INFRA, message, disk_full=True)
    if failure:
        raise _failed(failure, watch)
    if status == -signal.SIGKILL and (failed := watch.out_of_memory()):
        raise failed
    if status < 0:
        message = f"the model's process was ended by {_signal_name(-status)}"
        raise Failed(ErrorClass.INFRA, message)
    error_class = ErrorClass(by_status.get(status, ErrorClass.INFRA))
    raise Failed(error_class, f"the engine ended with exit status {status} and gave no reason")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # between SIGRTMIN and SIGRTMAX
        return f"signal {number}"


def _failed(failure: Failure, watch: Watch) -> Failed:
    """What the child says of its failure, as everybody may read it."""
    quotes = touches_unpublished_data(watch.claimed)
    message = WITHHELD if quotes else harmless(failure.message)
    return Failed(ErrorClass(failure.error_class), message, failure.task, of_all=True)


def blame(watch: Watch, failure: Failed, log: Path) -> bool:
    """Fail the runs that a failure is about; False where nobody knows which of several it is.

    A run is blamed only for what it was asked: those that the child had not begun are evaluated in
    the next pass. What the engine itself says of the model or of our machine, without naming a
    task, is true of all.
    """
    guilty: Sequence[Run] = list(watch.runs.values())
    if failure.task in watch.runs:
        guilty = [watch.runs[failure.task]]
    elif failure.error_class == ErrorClass.TASK and len(guilty) > 1:
        return False
    elif not failure.of_all:
        guilty = watch.begun_runs()
    log_tail = "" if touches_unpublished_data(watch.claimed) else tail(log)
    for run in guilty:
        try:
            persistently(
                partial(
                    claims.fail,
                    watch.token,
                    run,
                    error_class=failure.error_class,
                    message=failure.message,
                    log_tail=log_tail,
                )
            )
        except claims.LeaseLost:
            logger.info("%s was taken away before it failed", run)
    return True


TAIL_LINES = 40
TAIL_BYTES = 16 * 1024
PROGRESS_BAR = re.compile(r"\d+%\|.*\|.*\[.*\]$|\d+\w* \[\d+:\d+, .*\]$")
"""How tqdm draws a bar, with and without a known end."""
UNPRINTABLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def tail(log: Path) -> str:
    """At most 40 lines without tokens, credentials, folders of this machine or control codes.

    A line that was drawn over itself counts as it was drawn last; progress bars are left out.
    """
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        text = file.read().decode(errors="replace")
    drawn = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    readable = harmless("\n".join(drawn)).splitlines()
    lines = [line for line in readable if not PROGRESS_BAR.search(line.rstrip())]
    return "\n".join(lines[-TAIL_LINES:])


def harmless(text: str) -> str:
    """`text` without what is nobody else's business."""
    for folder, stands_for in _private_folders():
        text = text.replace(folder, stands_for)
    return UNPRINTABLE.sub("", withheld(text, [settings.HF_TOKEN]))


def _private_folders() -> list[tuple[str, str]]:
    """Folders of this machine and what stands for them, inner ones first."""
    folders = {
        str(settings.PLUMBLINE_HOME): "(home)",
        sys.prefix: "(python)",
        sys.base_prefix: "(python)",
        str(settings.BASE_DIR): "(plumbline)",
        str(Path.home()): "~",
    }
    known = {folder: name for folder, name in folders.items() if folder != "/"}
    return sorted(known.items(), key=lambda pair: -len(pair[0]))


WITHHELD = "the reason is withheld: it may quote a data set that stays offline"


def touches_unpublished_data(runs: Iterable[Run]) -> bool:
    """Whether one of these runs is on documents that are not to be published: then what it says is
    withheld, which may quote them.

    A task that is not in the library is none: the engine refuses it before any data is loaded.
    """
    library = TaskLibrary([settings.PLUMBLINE_TASKS])
    return any(_withholds(library, run.task.name) for run in runs)


def _withholds(library: TaskLibrary, task: str) -> bool:
    try:
        return bool(tasks_without_text(library.one(task)))
    except TaskError:
        return False
