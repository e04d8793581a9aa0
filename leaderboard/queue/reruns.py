"""Measuring again what stands: by a newer version of its task, or because it was recalled.

The earlier result stays published until the new one is stored (`take_place`). A rerun fails and is
cancelled like any run, and then the earlier result stays. One that was recalled is on no board
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.db.models.functions import Now

from leaderboard.models import HubModel, Rerun, Run, SuiteEntry, TaskVersion
from leaderboard.models.edition import changing
from leaderboard.models.run import WAITING, State
from leaderboard.queue import claims, fairness
from leaderboard.queue.history import tell

LONGEST_REASON = 300
AT_ONCE = 1_000
"""Variants in one query."""


class NoReason(ValueError):
    """A result is replaced for a reason that everybody can read, or not at all."""


@dataclass(frozen=True)
class Ordered:
    """What became of the runs that were to be replaced."""

    queued: list[Run]
    measured: int
    """Those that the newest version had measured already; they now say so."""
    asked: int
    """Those for which such a run waits already."""
    gone: int
    """Those that no suite asks any more in the newest version of their task."""
    departed: int
    """Those of models that their authors took out of the ranking."""


def finished(task: str, model: str = "") -> QuerySet[Run]:
    """The results that stand of NAME or NAME@VERSION, and of the model with this ID."""
    name, _, version = task.partition("@")
    runs = Run.objects.filter(state=State.DONE, superseded_by=None, task__name=name)
    if version:
        runs = runs.filter(task__version=version)
    return runs.filter(variant__hub_model__repo_id=model) if model else runs


def rerun(runs: Iterable[Run], *, by: str, reason: str) -> Ordered:
    """Queue a run in the place of each of these finished ones. Raises NoReason."""
    reason = reason.strip().rstrip(".")[:LONGEST_REASON]
    if not reason:
        raise NoReason("reason: say why the results are replaced; everybody reads it")
    queue, stood = _Queue(), list(runs)
    with changing():
        order = Rerun.objects.create(reason=reason, by=by, at=Now())
        queue.look(stood)
        for old in stood:
            queue.take(old, order, by)
        new = claims.enqueue(queue.new, by=by, why=f"again: {reason}")
        if not new:
            order.delete()
    return Ordered(new, queue.measured, queue.asked, queue.gone, queue.departed)


class _Queue:
    """The new runs, each model in its turn as if one person had submitted them all."""

    def __init__(self) -> None:
        self.new: list[Run] = []
        self.measured = self.asked = self.gone = self.departed = 0
        self._departed = set(HubModel.objects.filter(departed=True).values_list("pk", flat=True))
        self._newest: dict[str, TaskVersion] = {}
        self._turns: dict[int, datetime] = {}
        self._next = fairness.due_after(Run.objects.filter(rerun__isnull=False))
        self._there: dict[tuple[int, str], list[Run]] = {}

    def look(self, stood: Sequence[Run]) -> None:
        """Notes what waits or is done of the variants that `take` will be given, in few queries: a
        recall takes thousands of runs at once, and holds what others wait for."""
        variants = list({old.variant_id for old in stood})
        for start in range(0, len(variants), AT_ONCE):
            some = variants[start : start + AT_ONCE]
            there = Run.objects.filter(variant__in=some, state__in=(*WAITING, State.DONE))
            for run in there.order_by("pk").only("variant_id", "run_key", "state"):
                self._there.setdefault((run.variant_id, run.run_key), []).append(run)

    def take(self, old: Run, order: Rerun, by: str) -> None:
        if old.variant.hub_model_id in self._departed:
            self.departed += 1
            return
        asked = self._way(old)
        if asked is None:
            self.gone += 1
            return
        task, key = asked
        there = self._there.get((old.variant_id, key), [])
        if any(run.state in WAITING for run in there):
            self.asked += 1
            return
        done = (run for run in there if run.state == State.DONE and run.pk != old.pk)
        if measured := next(done, None):
            Run.objects.filter(pk=old.pk).update(superseded_by=measured)
            why = f"measured by version {task.version} as well"
            tell([old], State(old.state), by=by, why=why)
            self.measured += 1
            return
        self.new.append(
            Run(
                variant=old.variant,
                task=task,
                shots=old.shots,
                mode=old.mode,
                fewshot_draw=old.fewshot_draw,
                fewshot_seed=old.fewshot_seed,
                run_key=key,
                needed_bytes=old.needed_bytes,
                due=self._turn(old),
                rerun=order,
                replaces=old,
            )
        )

    def _way(self, old: Run) -> tuple[TaskVersion, str] | None:
        """The newest version of the task with the key by which a suite asks it as `old` was."""
        name = old.task.name
        if name not in self._newest:
            versions = TaskVersion.objects.filter(name=name).order_by("-created", "-pk")
            self._newest[name] = versions[0]
        newest = self._newest[name]
        if newest == old.task:
            return newest, old.run_key
        entry = SuiteEntry.objects.filter(
            task=newest,
            shots=old.shots,
            fewshot_seed=old.fewshot_seed,
            suite__fewshot_draw=old.fewshot_draw,
        ).first()
        key = entry.run_key_of(chat=old.variant.chat) if entry and old.mode == "strict" else ""
        return (newest, key) if key else None

    def _turn(self, old: Run) -> datetime:
        if old.variant_id not in self._turns:
            self._turns[old.variant_id] = self._next
            self._next += fairness.gap(old.variant.parameters)
        return self._turns[old.variant_id]
