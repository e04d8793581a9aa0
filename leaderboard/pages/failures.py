"""Failed runs as pages list them: those that still stand, one cause once however many it hit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, Max, OuterRef, Q, QuerySet, Subquery

from leaderboard.models import LIVE, Run, Submission
from leaderboard.models.run import State
from leaderboard.pages.listing import by_benchmark, listed


@dataclass
class Cause:
    """Runs of one variant that failed for the same reason."""

    runs: list[Run] = field(default_factory=list)

    @property
    def run(self) -> Run:
        """The one that speaks for all."""
        return self.runs[0]


def standing(runs: QuerySet[Run]) -> QuerySet[Run]:
    """The failed ones among `runs` in whose place no later run was made."""
    # There is one live run of a variant and key at most, so a live one is always the later.
    instead = Q(state__in=LIVE) | Q(state=State.FAILED, created__gt=OuterRef("created"))
    later = Run.objects.filter(instead, variant=OuterRef("variant"), run_key=OuterRef("run_key"))
    return runs.filter(~Exists(later), state=State.FAILED)


def by_cause(runs: Iterable[Run]) -> list[Cause]:
    """The causes in the order in which they first come up."""
    causes: dict[tuple[int, str, str], Cause] = {}
    for run in runs:
        key = (run.variant_id, run.error_class, run.error_message)
        causes.setdefault(key, Cause()).runs.append(run)
    return list(causes.values())


class Causes:
    """Why runs failed, newest first; a cause is of one submission. Read a page at a time."""

    def __init__(self) -> None:
        asked = Submission.objects.filter(runs=OuterRef("pk")).order_by("-created").values("pk")
        self._runs = standing(Run.objects.all()).annotate(asked=Subquery(asked[:1]))
        self._causes = (
            self._runs.order_by()
            .values("variant", "asked", "error_class", "error_message")
            .annotate(latest=Max("finished"))
            .order_by("-latest", "variant", "error_message")
        )

    def n_runs(self) -> int:
        return self._runs.count()

    def __len__(self) -> int:
        return self._causes.count()

    def __getitem__(self, place: slice) -> list[Cause]:
        return [
            Cause(by_benchmark(listed(self._runs.filter(**_same(cause)))))
            for cause in self._causes[place]
        ]


def _same(cause: Mapping[str, object]) -> dict[str, Any]:
    """What every run of this cause has."""
    return {name: cause[name] for name in ("variant", "asked", "error_class", "error_message")}
