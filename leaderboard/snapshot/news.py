"""Which suites had news since somebody last asked: runs note every change of theirs as an event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Max

from leaderboard.models import HubModel, RunEvent, Suite, SuiteEntry, Variant

WINDOW = 1000
"""Events are looked at again for so long: one with a smaller number may be committed later."""
OF_MODELS = {HubModel: {"hub_checked", "first_seen"}, Variant: {"created", "weights_digest"}}
"""The tables of what a board says of a model, each with what it does not say."""


@dataclass
class News:
    """What one process has seen so far; nothing is kept beyond it."""

    _noted: dict[int, str] = field(default_factory=dict)
    _count: Counter[int] = field(default_factory=Counter)
    _facts: dict[type, Mapping[int, Any]] = field(default_factory=dict)
    _corrections: int = 0

    def stamps(self) -> list[tuple[Suite, object]]:
        """Each suite, the newest first, with a value that changes whenever its boards may."""
        moved = self._moved()
        self._corrections += self._corrected()
        stamps: list[tuple[Suite, object]] = []
        for suite in Suite.objects.order_by("-created"):
            entries = list(suite.entries.values_list(*_fields(SuiteEntry), "task__benchmark"))
            if moved is None or moved & {entry[-1] for entry in entries}:
                self._count[suite.pk] += 1
            stamps.append((suite, (self._count[suite.pk], suite.title, entries, self._corrections)))
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

    def _corrected(self) -> bool:
        """Whether something is now said otherwise of a model that was there already.

        A model that is new comes onto a board with its runs, whose events are news enough.
        """
        corrected = False
        for table, left_out in OF_MODELS.items():
            names = _fields(table, left_out)
            now = {row[0]: hash(row) for row in table._default_manager.values_list("pk", *names)}
            before = self._facts.get(table, {})
            corrected |= any(before.get(pk, said) != said for pk, said in now.items())
            self._facts[table] = now
        return corrected


def _fields(table: type[Any], left_out: set[str] | frozenset[str] = frozenset()) -> list[str]:
    fields = table._meta.concrete_fields
    return [
        one.attname
        for one in fields
        if one.name not in left_out and one.get_internal_type() != "JSONField"
    ]
