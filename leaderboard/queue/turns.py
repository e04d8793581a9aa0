"""What waits and what runs, as the queue page lists it: by turns, not run by run.

A worker takes all that it can of one model at once, so a suite of a hundred columns is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from leaderboard.models import Run, Submission
from leaderboard.models.variant import NAMES, TRANSFORMERS
from leaderboard.queue.claims import WAITS
from leaderboard.queue.estimate import Obstacle, Plan, Running, Turn, largest_memory
from leaderboard.queue.fairness import VOTE
from leaderboard.queue.listing import LIGHT, Named, listed, named
from leaderboard.templatetags.figures import filesize
from leaderboard.web import Span, total_span

NAMED = 5
"""So many runs of a turn are named; the submission's page lists them all."""
AT_ONCE = 3
"""So many runs of a claim are shown with what they are at."""


@dataclass(frozen=True)
class Line:
    """Turns of one model that follow each other, in the table of what waits."""

    turns: Sequence[Turn]
    run: Run
    """The first of them, with its model."""
    named: list[tuple[int, Named]]
    """The first few, each with its position."""
    takes: Span | None
    reason: str
    """What it waits for besides its turn; empty for nothing."""
    submission: Submission | None

    @property
    def turn(self) -> Turn:
        return self.turns[0]

    @property
    def last_position(self) -> int:
        return self.turns[-1].last_position

    @property
    def n(self) -> int:
        return sum(len(turn.runs) for turn in self.turns)

    @property
    def more(self) -> int:
        return self.n - len(self.named)

    @property
    def voted(self) -> float:
        """Seconds by which votes moved it forward."""
        return VOTE.total_seconds() * self.run.votes


@dataclass(frozen=True)
class Held:
    """What a worker holds of one model: the runs that it is at, and how many wait behind them."""

    at: list[Run]
    behind: int
    left: Span | None

    @property
    def run(self) -> Run:
        return self.at[0]


def turns_of(plan: Plan, model: str) -> list[list[Turn]]:
    """What waits of models that have this text in their ID, by lines of the table."""
    found = [turn for turn in plan.turns if model.lower() in turn.first.repo_id.lower()]
    return [list(turns) for _, turns in groupby(found, key=lambda turn: turn.first.variant)]


def lines(groups: Sequence[Sequence[Turn]], plan: Plan) -> list[Line]:
    """The lines with their models, in three queries."""
    chosen = [_positions(turns)[:NAMED] for turns in groups]
    runs = _by_pk({turns[0].first.pk for turns in groups})
    by_pk = named(pk for of_line in chosen for _, pk in of_line)
    return [
        Line(
            turns,
            runs[turns[0].first.pk],
            [(position, by_pk[pk]) for position, pk in of_line if pk in by_pk],
            total_span(turn.takes for turn in turns),
            reason(turns[0], plan),
            next(iter(runs[turns[0].first.pk].submissions.all()), None),
        )
        for turns, of_line in zip(groups, chosen, strict=True)
        # What was taken since the plan was made waits no more.
        if turns[0].first.pk in runs
    ]


def _positions(turns: Iterable[Turn]) -> list[tuple[int, UUID]]:
    return [
        (turn.position + place, run.pk) for turn in turns for place, run in enumerate(turn.runs)
    ]


def _by_pk(wanted: Iterable[UUID]) -> dict[UUID, Run]:
    runs = listed(Run.objects.filter(pk__in=list(wanted)))
    light = runs.select_related("rerun").only(*LIGHT, "rerun__reason")
    return {run.pk: run for run in light.prefetch_related("submissions")}


def reason(turn: Turn, plan: Plan) -> str:
    """One sentence on what has to happen before a worker can take it."""
    run = turn.first
    if turn.obstacle is Obstacle.NO_DTYPE:
        how = run.quantisation or run.dtype
        how += ", with code of its own" if run.code else ""
        how += "" if run.backend == TRANSFORMERS else f" by {NAMES.get(run.backend, run.backend)}"
        return f"Waits for a worker that computes in {how}: none that is alive does."
    if turn.obstacle is Obstacle.TOO_LARGE:
        how_run = (run.dtype, run.quantisation, run.backend, run.code)
        largest = filesize(largest_memory(list(plan.workers), *how_run) or 0)
        return (
            f"Waits for a larger worker: it needs {filesize(run.needed_bytes)}, "
            f"the largest alive has {largest}."
        )
    if turn.obstacle is Obstacle.FULL:
        return "Waits until a worker has rested: the machines that can hold it had no room."
    return ""


def claims_of(plan: Plan, model: str) -> list[list[Running]]:
    """What each worker holds, of models that have this text in their ID."""
    claims: dict[UUID, list[Running]] = {}
    for run in plan.running:
        if model.lower() in run.repo_id.lower():
            claims.setdefault(run.claim, []).append(run)
    return list(claims.values())


def held(claims: Sequence[Sequence[Running]], plan: Plan) -> list[Held]:
    """The claims with their models, in two queries."""
    at = [_at_work(claim)[:AT_ONCE] for claim in claims]
    runs = _by_pk({run.pk for shown in at for run in shown})
    return [
        Held(
            [runs[run.pk] for run in shown if run.pk in runs],
            len(claim) - len(shown),
            total_span(plan.left[run.pk] for run in claim),
        )
        for claim, shown in zip(claims, at, strict=True)
        if shown[0].pk in runs
    ]


def _at_work(claim: Sequence[Running]) -> Sequence[Running]:
    """Tasks of one benchmark are answered together; the others wait for their turn."""
    return [run for run in claim if run.phase != WAITS] or claim
