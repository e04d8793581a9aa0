"""Runs as lists show them: with their model, and with the title that a suite gives the task; of the
failed ones those that still stand, one cause once however many runs it hit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce

from leaderboard.models import Run, SuiteEntry
from leaderboard.models.run import REPLACEABLE, WAITING, ErrorClass, State, run_url
from leaderboard.models.task import Style

MAX_NAMED = 5
"""So many runs of a cause are named; the others are counted."""
MAX_FAILED = 20_000
"""Failed runs, the newest, among which causes are looked for."""
FAULTS = {"model": ErrorClass.MODEL, "task": ErrorClass.TASK, "us": ErrorClass.INFRA}
"""Who must act, as addresses write it."""


def title_of(run: Run) -> str:
    """What its suite calls the benchmark of a `listed` run."""
    return str(getattr(run, "title"))  # noqa: B009


def listed(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Runs with model and task at hand, each with a `title`, in one query."""
    return _titled(runs.select_related("variant__hub_model", "task", "worker"))


LIGHT = (
    *("variant", "task", "worker", "state", "priority", "votes", "attempt", "times_full"),
    *("created", "due", "not_before", "started", "finished", "phase"),
    *("progress_done", "progress_total", "error_class", "error_message", "rerun", "replaces"),
    *(
        "worker__name",
        "worker__device",
        "task__benchmark",
        "task__style",
        "variant__hub_model__repo_id",
    ),
    *(f"variant__{name}" for name in ("hub_model", "commit", "parameters", "dtype")),
    *(f"variant__{name}" for name in ("quantisation", "adapter_base", "chat", "backend")),
)
"""What the queue shows of a run, of the hundred fields that `listed` has at hand."""


class Asked(NamedTuple):
    """Of a task what a list says."""

    benchmark: str
    style: str


class Named(NamedTuple):
    """Of a run no more than is said where it is one of many: a page names hundreds of them."""

    pk: UUID
    title: str
    created: datetime
    task: Asked

    def get_absolute_url(self) -> str:
        return run_url(self.pk)


def named(wanted: Iterable[UUID]) -> dict[UUID, Named]:
    """Runs by their primary keys, with one query."""
    runs: QuerySet[Any] = _titled(Run.objects.filter(pk__in=list(wanted))).order_by()
    rows = runs.values_list("pk", "title", "created", "task__benchmark", "task__style")
    return {pk: Named(pk, title, created, Asked(*task)) for pk, title, created, *task in rows}


def _titled(runs: QuerySet[Run]) -> QuerySet[Run]:
    titles = SuiteEntry.objects.filter(task=OuterRef("task")).order_by("-suite__created")
    return runs.annotate(
        title=Coalesce(
            Subquery(titles.values("title")[:1]), F("task__benchmark"), output_field=CharField()
        )
    )


def of_model(runs: QuerySet[Run], part: str) -> QuerySet[Run]:
    """The runs of models that have this text in their ID."""
    return runs.filter(variant__hub_model__repo_id__icontains=part) if part else runs


ARun = TypeVar("ARun", Run, Named)


def by_benchmark(runs: Iterable[ARun]) -> list[ARun]:
    """Benchmarks by name, each in the site's order of styles, older runs first."""
    place = {style: number for number, style in enumerate(Style.values)}
    return sorted(
        runs, key=lambda run: (run.task.benchmark, place.get(run.task.style, 9), run.created)
    )


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
    return [Cause(runs[0], runs[:MAX_NAMED], len(runs)) for runs in causes.values()]


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
        keys = [run.pk for cause in chosen for run in cause[:MAX_NAMED]]
        names = named(keys)
        return [
            Cause(
                speakers[cause[0].pk],
                by_benchmark(names[run.pk] for run in cause[:MAX_NAMED] if run.pk in names),
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
    for row in rows[:MAX_FAILED]:
        run = Failed(*row)
        newest.setdefault((run.variant, run.run_key), run)
    return list(newest.values())
