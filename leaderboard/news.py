"""Which suites had news since somebody last asked: runs note every change of theirs as an event."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from django.db.models import Count, Max, Q

from leaderboard.models import HubModel, RunEvent, Suite

WINDOW = 1000
"""Events are looked at again for so long: one with a smaller number may be committed later."""


@dataclass
class News:
    """What one process has seen so far; nothing is kept beyond it."""

    _noted: dict[int, str] = field(default_factory=dict)
    _count: Counter[int] = field(default_factory=Counter)

    def stamps(self) -> list[tuple[Suite, object]]:
        """Each suite, the newest first, with a value that changes whenever its boards may."""
        moved = self._moved()
        special = Q(official=True) | ~Q(flag_reason="") | ~Q(hub_state=HubModel.HubState.PRESENT)
        facts = HubModel.objects.filter(special).values("official", "flag_reason", "hub_state")
        of_models = sorted(tuple(row.values()) for row in facts.annotate(n=Count("pk")))
        stamps: list[tuple[Suite, object]] = []
        for suite in Suite.objects.order_by("-created"):
            entries = list(suite.entries.values_list("pk", "task__benchmark", "people"))
            if moved is None or moved & {benchmark for _, benchmark, _ in entries}:
                self._count[suite.pk] += 1
            stamps.append((suite, (self._count[suite.pk], suite.title, entries, of_models)))
        return stamps

    def _moved(self) -> set[str] | None:
        """The benchmarks of runs with news; None where more happened than could be followed."""
        last = RunEvent.objects.aggregate(last=Max("pk"))["last"] or 0
        window = RunEvent.objects.filter(pk__gt=last - WINDOW)
        now = dict(window.values_list("pk", "run__task__benchmark"))
        before, self._noted = self._noted, now
        if not before or last < max(before) or not before.keys() & now.keys():
            return None
        return {benchmark for pk, benchmark in now.items() if pk not in before}
