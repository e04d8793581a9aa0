"""Which models or runs an address asks to compare, and what is wrong with the others.

Whatever can be compared is; each of the others is named with its remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.urls import reverse

from leaderboard.board import rows_named
from leaderboard.compare.lineup import MOST
from leaderboard.models import MEASURED, Run
from leaderboard.queue import listed
from leaderboard.snapshot import Board

LONGEST = 60
"""Characters of what somebody wrote that are shown again."""


@dataclass(frozen=True)
class Problem:
    """What is wrong, with a page that helps."""

    text: str
    url: str = ""
    label: str = ""


def models(names: Sequence[str], board: Board) -> tuple[list[int], list[Problem]]:
    """Rows of the board by number of variant or by ID, in the order asked for, at most MOST."""
    rows: list[int] = []
    problems: list[Problem] = []
    for name in names:
        found = rows_named(board, name)
        if not found:
            problems.append(_unknown_model(name, board))
        elif found[0] not in rows:
            rows.append(found[0])
    if len(rows) > MOST:
        problems.append(_too_many("models", [board.models[row].repo_id for row in rows]))
    return rows[:MOST], problems


def runs(names: Sequence[str], base: str) -> tuple[list[Run], list[Problem]]:
    """Finished runs of one benchmark in the order asked for, at most MOST.

    The benchmark is that of `base` where it is among them, else of the first.
    """
    problems: list[Problem] = []
    keys: list[UUID] = []
    for name in names:
        try:
            keys.append(UUID(name))
        except ValueError:
            problems.append(
                Problem(
                    f"“{_cut(name)}” is not a run. A run has an address such as "
                    "/runs/0b7e…; put what follows /runs/ here."
                )
            )
    found = listed(Run.objects.select_related("recall")).in_bulk(set(keys))
    done: list[Run] = []
    for key in dict.fromkeys(keys):
        run = found.get(key)
        if run is None:
            problems.append(Problem(f"There is no run {key}. Copy its address from its page."))
        elif run.recall is not None:
            problems.append(
                Problem(
                    f"{run.variant.hub_model.repo_id} on {_title(run)} was recalled: "
                    f"{run.recall.reason}. Compare the run that replaces it.",
                    run.get_absolute_url(),
                    "See the run",
                )
            )
        elif run.state not in MEASURED:
            problems.append(
                Problem(
                    f"{run.variant.hub_model.repo_id} on {_title(run)} is "
                    f"{run.get_state_display().lower()}, so it has no answers to compare.",
                    run.get_absolute_url(),
                    "See the run",
                )
            )
        else:
            done.append(run)
    return _of_one_benchmark(done, base, problems)


def _of_one_benchmark(
    done: Sequence[Run], base: str, problems: list[Problem]
) -> tuple[list[Run], list[Problem]]:
    if not done:
        return [], problems
    first = next((run for run in done if str(run.pk) == base), done[0])
    same = [run for run in done if run.task.benchmark == first.task.benchmark]
    for run in done:
        if run not in same:
            problems.append(
                Problem(
                    f"{run.variant.hub_model.repo_id} was asked {_title(run)}, the baseline "
                    f"{_title(first)}. Two benchmarks have no question in common.",
                    f"{reverse('compare')}?run={run.pk}",
                    f"Compare others on {_title(run)}",
                )
            )
    if len(same) > MOST:
        repo_ids = [run.variant.hub_model.repo_id for run in same]
        problems.append(_too_many("runs", repo_ids))
    return same[:MOST], problems


def _title(run: Run) -> str:
    return str(getattr(run, "title"))  # noqa: B009


def _too_many(what: str, repo_ids: Sequence[str]) -> Problem:
    left_out = ", ".join(repo_ids[MOST:])
    return Problem(
        f"A page compares two to {MOST} {what}, and {len(repo_ids)} are chosen. Not shown: "
        f"{left_out}. Remove one of the others to see them."
    )


def _unknown_model(name: str, board: Board) -> Problem:
    if name.isdigit():
        what = f"No model has the number {_cut(name)}"
    else:
        what = f"No model has the ID “{_cut(name)}”"
    return Problem(
        f"{what} on {board.title} {board.version}. Tick models on the board, or search below."
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
