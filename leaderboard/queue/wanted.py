"""How many more workers of a kind the waiting runs could use.

Engines that start workers (KEDA, a cron line beside Slurm) read this number. It is one SQL query,
built on the filter by which workers claim runs (`claims.fitting`), so that an engine never starts a
worker that would find nothing. Messages of the broker are not counted: they are hints.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Exists, F, Func, IntegerField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.fields import TextField
from django.db.models.functions import Cast, Greatest, Now, StrIndex
from django.db.models.lookups import Exact, GreaterThan

from leaderboard.models import PoolOrder, Run, Worker
from leaderboard.models.run import State
from leaderboard.queue import claims, estimate, orders


def workers_wanted(kind: Worker) -> int:
    """Variants that wait and fit a worker like `kind`, less the idle workers that may take them.

    `kind` is not a row, and its name is empty. Zero while all workers are told to take nothing.
    """
    number: int
    (number,) = _query(kind)
    return number


def workers_wanted_sql(kind: Worker) -> str:
    """The query of `workers_wanted` for PostgreSQL, with its values in place."""
    sql, values = _query(kind).query.sql_with_params()
    of_postgresql: Any = connection.ops
    return str(of_postgresql.compose_sql(sql, values))


class CountDistinct(Func):
    """COUNT as a plain function: without GROUP BY there is a row where nothing is counted, too."""

    function = "COUNT"
    template = "%(function)s(DISTINCT %(expressions)s)"
    output_field = IntegerField()


def _query(kind: Worker) -> QuerySet[Run, Any]:
    waiting = claims.fitting(kind).order_by()
    idle = _idle(waiting, kind).annotate(workers=CountDistinct(F("pk"))).values("workers")
    all_rest = PoolOrder.objects.filter(worker=orders.EVERYBODY)
    missing = CountDistinct(F("variant")) - Subquery(idle, output_field=IntegerField())
    return (
        waiting.filter(~Exists(all_rest))
        .annotate(wanted=Greatest(missing, Value(0)))
        .values_list("wanted", flat=True)
    )


def _idle(waiting: QuerySet[Run], kind: Worker) -> QuerySet[Worker]:
    """Live workers that have no run, and may take one of those that wait."""
    return estimate.live().filter(
        ~Exists(Run.objects.filter(worker=OuterRef("pk"), state=State.RUNNING)),
        ~Exists(PoolOrder.objects.filter(worker=OuterRef("pk"))),
        Q(full_until=None) | Q(full_until__lte=Now()),
        Exists(_fitting_row(waiting, kind)),
    )


def _fitting_row(waiting: QuerySet[Run], kind: Worker) -> QuerySet[Run]:
    """`claims.fitting` for a worker that is a row of the outer query; `waiting` fits `kind`."""
    runnable, computable = Q(variant__quantisation=""), Q()
    for method in kind.quantisations:
        runnable |= claims.plain_or_packed_by([method]) & _lists("quantisations", method)
    for dtype in kind.dtypes:
        computable |= Q(variant__dtype=dtype) & _lists("dtypes", dtype)
    return waiting.filter(
        ~Q(full_on=OuterRef("pk")) | Q(full_until=None) | Q(full_until__lte=Now()),
        runnable,
        computable,
        Q(variant__code="") | Q(Exact(OuterRef("runs_code"), True)) if kind.runs_code else Q(),
        needed_bytes__lte=OuterRef("memory_bytes"),
        variant__backend=OuterRef("backend"),
    )


def _lists(names: str, name: str) -> Q:
    """Whether the outer row's list, which is JSON, has this name; SQLite has no operator for it."""
    text = Cast(OuterRef(names), TextField())
    return Q(GreaterThan(StrIndex(text, Value(f'"{name}"')), 0))
