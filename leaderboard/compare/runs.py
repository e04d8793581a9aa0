"""Runs of one benchmark, however it was asked, with why two of them cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence

from leaderboard.compare.lineup import Lineup, Number, Side, Task, named
from leaderboard.models import Result, Run, SuiteEntry
from leaderboard.models.task import Style
from leaderboard.snapshot.data import Score


def lineup(runs: Sequence[Run], base: int) -> Lineup:
    """Finished runs of one benchmark, of which `base` is what the others are compared with.

    `runs` come with their task, their variant and its model.
    """
    first = runs[base]
    title, metric, filter_ = _shown(first)
    rows = Result.objects.filter(
        run__in=runs, subset="", task_name__in={run.task.name for run in runs}, metric=metric
    ).order_by("pk")
    results = {(row.run_id, row.task_name): row for row in rows if row.filter == filter_}
    found = [results.get((run.pk, run.task.name)) for run in runs]
    of_base = found[base]
    task = Task(
        key=first.task.benchmark,
        benchmark=first.task.benchmark,
        title=title,
        style=first.task.style,
        name=first.task.name,
        metric=metric,
        filter=filter_,
        shots=first.shots,
        n=of_base.n if of_base else None,
        numbers=tuple(_number(result) if result else None for result in found),
        why=tuple(
            _why_apart(run, result, first, metric) for run, result in zip(runs, found, strict=True)
        ),
        higher_is_better=of_base.higher_is_better if of_base else True,
    )
    return Lineup(sides=named([_side(run) for run in runs]), tasks=(task,), averaged=False)


def _shown(run: Run) -> tuple[str, str, str]:
    """Title, metric and filter under which the newest suite with this run's task shows it."""
    entries = SuiteEntry.objects.filter(task__benchmark=run.task.benchmark)
    entry = (
        entries.filter(run_key=run.run_key).order_by("-suite__created").first()
        or entries.filter(task=run.task).order_by("-suite__created").first()
    )
    if entry:
        return entry.title, entry.metric, entry.filter
    own = run.results.filter(subset="", task_name=run.task.name, metric=run.task.primary_metric)
    filter_ = own.order_by("pk").values_list("filter", flat=True).first()
    return run.task.benchmark, run.task.primary_metric, filter_ or "none"


def _side(run: Run) -> Side:
    variant = run.variant
    shots = "1 shot" if run.shots == 1 else f"{run.shots} shots"
    return Side(
        letter="",
        key=str(run.pk),
        repo_id=variant.hub_model.repo_id,
        commit=variant.commit,
        dtype=variant.dtype,
        quantisation=variant.quantisation,
        flag_reason=variant.hub_model.flag_reason,
        asked=f"{Style(run.task.style).label}, {shots}",
    )


def _number(result: Result) -> Number:
    score = Score(result.value, result.low, result.high, result.n)
    return Number(score=score, results=(result.pk,), runs=(result.run_id,))


def _why_apart(run: Run, result: Result | None, base: Run, metric: str) -> str:
    """Why this run's number has no difference to the baseline's; empty where it has one."""
    if result is None:
        return f"no result for {metric}"
    if run.task.style != base.task.style:
        own, other = Style(run.task.style).label, Style(base.task.style).label
        return f"asked in another style: {own}, the baseline {other}"
    if run.docs_digest != base.docs_digest:
        return f"other questions than the baseline’s (n = {result.n:,})"
    return ""
