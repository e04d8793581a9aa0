"""Failed runs as pages list them: those that still stand, one cause once however many it hit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import CharField, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Cast

from leaderboard.models import Run
from leaderboard.models.run import REPLACEABLE, WAITING, ErrorClass, State
from leaderboard.queue.listing import LIGHT, Named, by_benchmark, listed, named, of_model

NAMED = 5
"""So many runs of a cause are named; the others are counted."""
MOST = 20_000
"""Failed runs, the newest, among which causes are looked for."""
FAULTS = {"model": ErrorClass.MODEL, "task": ErrorClass.TASK, "us": ErrorClass.INFRA}
"""Who must act, as addresses write it."""


@dataclass(frozen=True)
class Cause:
    """Runs of one variant that failed for the same reason."""

    run: Run
    """The one that speaks for all."""
    named: Sequence[Run | Named]
    n: int

    @property
    def more(self) -> int:
        """How many are not named."""
        return self.n - len(self.named)


def standing(runs: QuerySet[Run]) -> QuerySet[Run]:
    """The failed ones among a few `runs` in whose place no later run was made."""
    same = Run.objects.filter(variant=OuterRef("variant"), run_key=OuterRef("run_key"))
    later = same.filter(state=State.FAILED, created__gt=OuterRef("created"))
    return runs.filter(~Exists(later), _not_made_good(same), state=State.FAILED)


def _not_made_good(same: QuerySet[Run]) -> Q:
    """That none of these runs, of the same variant and key, is alive in its place.

    There is one at most, so it is always the later; but for the one that a failed rerun was to
    replace, and did not.
    """
    waits = same.filter(state__in=WAITING)
    # None that is done replaces another: said here as well, the index of live runs finds them.
    done = same.filter(state=State.DONE, replaces=None)
    return ~Exists(waits) & (Q(replaces__state__in=REPLACEABLE) | ~Exists(done))


def by_cause(runs: Iterable[Run]) -> list[Cause]:
    """The causes in the order in which they first come up."""
    causes: dict[tuple[int, str, str], list[Run]] = {}
    for run in runs:
        key = (run.variant_id, run.error_class, run.error_message)
        causes.setdefault(key, []).append(run)
    return [Cause(runs[0], runs[:NAMED], len(runs)) for runs in causes.values()]


class Failed(NamedTuple):
    """A failed run that still stands: enough to say which cause it belongs to."""

    key: str
    variant: int
    run_key: str
    error_class: str
    error_message: str

    @property
    def pk(self) -> UUID:
        return UUID(self.key)


class Causes:
    """Why runs of a variant failed, the newest first. All is read at once but shown by the page."""

    def __init__(self, model: str = "", fault: str = "") -> None:
        """Of models with this in their name, and of those who must act, as FAULTS calls them."""
        self._all = _standing(model)
        shown = [run for run in self._all if not fault or run.error_class == FAULTS[fault]]
        causes: dict[tuple[int, str, str], list[Failed]] = {}
        for run in shown:
            key = (run.variant, run.error_class, run.error_message)
            causes.setdefault(key, []).append(run)
        self._causes = list(causes.values())

    def n_runs(self) -> dict[str, int]:
        """Failed runs by who must act, whatever the filter says of that."""
        found = Counter(run.error_class for run in self._all)
        return {name: found[error_class] for name, error_class in FAULTS.items()}

    def __len__(self) -> int:
        return len(self._causes)

    def __getitem__(self, place: slice) -> list[Cause]:
        """In two queries, however many they are."""
        chosen = self._causes[place]
        first = listed(Run.objects.filter(pk__in=[cause[0].pk for cause in chosen]))
        speakers = {run.pk: run for run in first.only(*LIGHT, "log_tail")}
        keys = [run.pk for cause in chosen for run in cause[:NAMED]]
        names = named(keys)
        return [
            Cause(
                speakers[cause[0].pk],
                by_benchmark(names[run.pk] for run in cause[:NAMED] if run.pk in names),
                len(cause),
            )
            for cause in chosen
            # What was repeated since it was read stands no more.
            if cause[0].pk in speakers
        ]


def _standing(model: str) -> list[Failed]:
    """The failed runs in whose place none was made, the newest first."""
    failed = of_model(Run.objects.filter(state=State.FAILED), model)
    same = Run.objects.filter(variant=OuterRef("variant"), run_key=OuterRef("run_key"))
    rows: QuerySet[Run, Any] = (
        failed.filter(_not_made_good(same))
        .order_by("-finished", "pk")
        # As text: a UUID takes as long as all else of a row, and hardly any of them is shown.
        .annotate(key=Cast("pk", CharField()))
        .values_list("key", "variant_id", "run_key", "error_class", "error_message")
    )
    newest: dict[tuple[int, str], Failed] = {}
    for row in rows[:MOST]:
        run = Failed(*row)
        newest.setdefault((run.variant, run.run_key), run)
    return list(newest.values())
