"""Which failures must not be told in full: a data set whose text stays offline may be quoted."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from evalcore.errors import TaskError
from evalcore.score.withholding import tasks_without_text
from evalcore.task.library.load import TaskLibrary
from leaderboard.models import Run

REASON = "the reason is withheld: it may quote a data set that stays offline"


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
