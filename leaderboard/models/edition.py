"""The numbers by which a kept page is known to be true, moved on by whoever changes what it shows.

Each suite has two: one of the data that its boards are built from, one of the pages that show its
boards. A third row is the site's: what belongs to no suite. See
docs/decisions/0017-one-rule-of-caching.md.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

from django.db import models, transaction
from django.db.models import F

SITE = 0
"""The row of what belongs to no suite: accounts, submissions, words about tasks."""


class Edition(models.Model):
    """Of a suite, or of the site. Equal numbers mean that nothing has changed."""

    of = models.BigIntegerField(primary_key=True)
    """The suite's primary key, or SITE. No foreign key: nothing else may lock or remove the row."""
    data = models.BigIntegerField(default=1)
    """Moves with a run of its benchmarks, its entries, and what boards say of models."""
    pages = models.BigIntegerField(default=1)
    """Moves with a published snapshot, and with the words around it."""
    columns = models.BigIntegerField(default=1)
    """Moves with `data`, but where it is known which benchmarks changed, if any."""

    def __str__(self) -> str:
        return f"{self.of or 'site'}: data {self.data}, pages {self.pages}"


class BenchmarkEdition(models.Model):
    """Of a benchmark's columns on all boards: moves with its runs. The row of a suite says more."""

    of = models.CharField(max_length=200, primary_key=True)
    data = models.BigIntegerField(default=1)
    results = models.BigIntegerField(default=1)
    """Moves with `data`, but only where a run gains or loses its numbers, not with each claim."""

    def __str__(self) -> str:
        return f"{self.of}: data {self.data}"


def now() -> tuple[tuple[int, int, int], ...]:
    """Every number there is: for a page that shows more than one suite's boards."""
    return tuple(Edition.objects.order_by("of").values_list("of", "data", "pages"))


def of_results(benchmark: str) -> tuple[int, int]:
    """The numbers by which a page of one benchmark's results stands: the site's and its own."""
    site = Edition.objects.filter(of=SITE).values_list("pages", flat=True).first()
    own = BenchmarkEdition.objects.filter(of=benchmark).values_list("results", flat=True).first()
    return site or 0, own or 0


def of_data() -> dict[int, int]:
    """By suite the number of its boards' data."""
    return dict(Edition.objects.values_list("of", "data"))


def of_columns(suite: int) -> tuple[int, dict[str, int]]:
    """The number of all columns of the suite, and by benchmark the number of its own.

    What is read afterwards is of these numbers, or newer.
    """
    whole = Edition.objects.filter(of=suite).values_list("columns", flat=True).first() or 0
    return whole, dict(BenchmarkEdition.objects.values_list("of", "data"))


_NUMBERS = ("data", "pages", "columns")


@dataclass
class _Moved:
    """What one transaction has changed so far."""

    rows: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in _NUMBERS})
    everywhere: set[str] = field(default_factory=set)
    benchmarks: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)

    def store(self) -> None:
        """Move the numbers on: at the very end, in one order, so that nobody waits in a circle."""
        named = {of for rows in self.rows.values() for of in rows}
        rows = Edition.objects.order_by("of").select_for_update(no_key=True)
        if self.everywhere:
            named.add(SITE)
        elif named:
            rows = rows.filter(of__in=named)
        else:
            return
        known = set(rows.values_list("of", flat=True))
        if new := sorted(named - known):
            Edition.objects.bulk_create([Edition(of=of) for of in new], ignore_conflicts=True)
        for name, of in self.rows.items():
            moved = known | named if name in self.everywhere else of
            if moved:
                Edition.objects.filter(of__in=moved).update(**{name: F(name) + 1})
        if self.benchmarks:
            self._store_benchmarks()

    def _store_benchmarks(self) -> None:
        columns = BenchmarkEdition.objects.filter(of__in=self.benchmarks)
        rows = columns.order_by("of").select_for_update(no_key=True)
        if new := sorted(self.benchmarks - set(rows.values_list("of", flat=True))):
            BenchmarkEdition.objects.bulk_create(
                [BenchmarkEdition(of=of) for of in new], ignore_conflicts=True
            )
        columns.update(data=F("data") + 1)
        if self.measured:
            columns.filter(of__in=self.measured).update(results=F("results") + 1)


class _Open(threading.local):
    moved: _Moved | None = None


_open = _Open()


@contextmanager
def changing() -> Iterator[_Moved]:
    """A transaction that moves on, at its end, the numbers of all that was noted within it."""
    with transaction.atomic():
        if _open.moved is not None:
            yield _open.moved
            return
        moved = _open.moved = _Moved()
        try:
            yield moved
            moved.store()
        finally:
            _open.moved = None


def note(
    *names: str,
    of: Iterable[int] | None = None,
    benchmarks: Collection[str] | None = None,
    measured: bool = False,
) -> None:
    """That the `data`, the `pages` or both of these suites change; None is all, and the site.

    Of the data every column is read anew, but where `benchmarks` names those that are concerned;
    `measured` says that runs of these gained or lost their numbers.
    """
    moved_too = ("columns",) if "data" in names and benchmarks is None else ()
    suites = None if of is None else set(of)
    with changing() as moved:
        moved.benchmarks.update(benchmarks or ())
        moved.measured.update((benchmarks or ()) if measured else ())
        for name in (*names, *moved_too):
            if suites is None:
                moved.everywhere.add(name)
            else:
                moved.rows[name].update(suites)


Row = TypeVar("Row", bound="Fact")


class Told(models.QuerySet[Row]):
    """Rows of which pages tell: a change by QuerySet moves the numbers on as one by `save` does."""

    def update(self, **values: Any) -> int:
        if not self.model.shows(values):
            return super().update(**values)
        with changing():
            self.model.note_change(created=False)
            return super().update(**values)

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[Row], *args: Any, **options: Any) -> list[Row]:
        with changing():
            self.model.note_change(created=True)
            return super().bulk_create(objs, *args, **options)

    def delete(self) -> tuple[int, dict[str, int]]:
        with changing():
            self.model.note_change(created=False)
            return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]


class Fact(models.Model):
    """A row of which pages tell: to write it is to move their numbers on."""

    ASIDE: ClassVar[Collection[str]] = ()
    """Fields that no page shows."""

    objects: ClassVar[models.Manager[Self]] = Told.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **options: Any) -> None:
        named = options.get("update_fields")
        if named is not None and not self.shows(named):
            super().save(*args, **options)
            return
        with changing():
            self.note_change(created=self._state.adding)
            super().save(*args, **options)

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        with changing():
            self.note_change(created=False)
            return super().delete(*args, **options)

    @classmethod
    def shows(cls, fields: Iterable[str]) -> bool:
        return not set(fields) <= set(cls.ASIDE)

    @classmethod
    def note_change(cls, *, created: bool) -> None:  # noqa: ARG003
        """Which numbers a new row moves on, and which a changed one."""
        note("pages", of=[SITE])
