"""Everything in the database and in the store that a comparison is made of, in a few queries.

As short as may be, since every visit of a page that is kept asks for it: whoever finds the same
state again would find the same page.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from leaderboard.compare.lineup import Task
from leaderboard.compare.pins import PINNED
from leaderboard.models import Artifact, Run, ScoreVector
from leaderboard.samples import store as artifacts


def state(tasks: Sequence[Task], key: str) -> tuple[object, ...]:
    """What stands behind these tasks' numbers; of the one called `key` whether its files are there.

    Where none is called so the page chooses one, and it may be any.

    Sample files and layouts are called by their digest, so that what is in them need not be read.
    """
    numbers = [number for task in tasks for number in task.numbers if number]
    runs = sorted({number.run for number in numbers})
    results = [pk for number in numbers for pk in number.results]
    named = [task for task in tasks if task.key == key] or tasks
    of_key = {number.run for task in named for number in task.numbers if number}
    return (
        list(Run.objects.filter(pk__in=runs).order_by("pk").values_list("pk", "state", *PINNED)),
        list(
            ScoreVector.objects.filter(result_id__in=results)
            .order_by("pk")
            .values_list("pk", "questions_id", "weighting")
        ),
        _files(runs, of_key),
    )


def _files(runs: Sequence[UUID], of_key: set[UUID]) -> list[tuple[object, ...]]:
    """Each file of the runs; of some of them whether the store has it."""
    stored = Artifact.objects.filter(run__in=runs).order_by("run", "kind")
    return [
        (run, kind, sha256, run in of_key and artifacts.path_of(sha256).is_file())
        for run, kind, sha256 in stored.values_list("run_id", "kind", "sha256")
    ]
