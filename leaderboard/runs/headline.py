"""A run with the title and metric of its suite, the number its page leads by, and its squares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery

from leaderboard.models import Result, Run, RunEvent, SuiteEntry, edition
from leaderboard.queue import listed
from leaderboard.samples import Waffle, by_result, draw_waffle


def runs() -> QuerySet[Run]:
    """Runs with the `title`, metric and warning that a suite gives them."""
    entries = SuiteEntry.objects.filter(
        SuiteEntry.asking(OuterRef("run_key")), task=OuterRef("task")
    )
    related = Run.objects.select_related(
        "rerun", "recall", "replaces", "superseded_by__task", "superseded_by__rerun"
    )
    newest = entries.order_by("-suite__created")
    return listed(related).annotate(
        suite_metric=Subquery(newest.values("metric")[:1]),
        suite_notice=Subquery(newest.values("suite__notice")[:1]),
    )


def editions(pk: UUID) -> tuple[object, ...]:
    """All that is shown of a finished run, as numbers that move when it changes.

    The site's words and models, the results of its benchmark, and what happened to the run and to
    those that are measured in its place. What other runs do in the queue moves none of these.
    """
    benchmark = Run.objects.filter(pk=pk).values_list("task__benchmark", flat=True).first() or ""
    # The number of events, too: of two transactions the one with the lower key may commit last.
    events = RunEvent.objects.filter(Q(run=pk) | Q(run__replaces=pk))
    happened = events.aggregate(last=Max("pk"), n=Count("pk"))
    site = edition.Edition.objects.filter(of=edition.SITE).values_list("data", flat=True).first()
    return site, edition.of_results(benchmark), happened["last"], happened["n"]


def metric(run: Run) -> str:
    """The one that its suite shows."""
    return str(getattr(run, "suite_metric") or run.task.primary_metric)  # noqa: B009


def is_own(run: Run, result: Result) -> bool:
    """Whether the number is about the whole run."""
    return not result.subset and result.task_name == run.task.name


def primary(run: Run, results: Iterable[Result]) -> Result | None:
    """The number of the run's page; None where it has none in its suite's metric."""
    wanted = metric(run)
    own = (result for result in results if is_own(run, result))
    return next((result for result in own if result.metric == wanted), None)


@dataclass(frozen=True)
class Squares:
    """All questions of a number, drawn for desks and for phones."""

    wide: Waffle
    thin: Waffle

    @property
    def both(self) -> tuple[tuple[Waffle, str], tuple[Waffle, str]]:
        """Each with the class that shows it at its width."""
        return (self.wide, "wide"), (self.thin, "thin")


def squares(result: Result) -> Squares | None:
    """None where the number has no scores by question, or these are no shares of a point."""
    vector = by_result([result.pk]).get(result.pk)
    if vector is None:
        return None
    wide = draw_waffle(vector.scores, width=845, height=160)
    thin = draw_waffle(vector.scores, width=322, height=200)
    return Squares(wide, thin) if wide and thin else None
