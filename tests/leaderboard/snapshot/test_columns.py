"""Columns that are kept from one board to the next are what would be read from the database."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard import recalls
from leaderboard.models import Recall, Run, RunCost, Suite, SuiteEntry
from leaderboard.models.edition import changing
from leaderboard.queue import claims, reruns
from leaderboard.samples import costs
from leaderboard.snapshot import columns
from leaderboard.snapshot.columns import ColumnCells
from tests.leaderboard import factories as make
from tests.leaderboard.snapshot.test_file import plain

pytestmark = pytest.mark.django_db

State = Run.State
Change = Callable[[Suite, random.Random], object]


@pytest.fixture
def suite(db: None) -> Suite:
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))
    for number in range(3):
        make.evaluated(f"lab/m{number}", suite, {"cloze": 0.9, "mmlu": 0.5}, n=20)
    return suite


def entries_of(suite: Suite) -> list[SuiteEntry]:
    return list(suite.entries.select_related("task").order_by("position"))


def told(column: ColumnCells) -> dict[str, Any]:
    """All that a column says, to be compared."""
    names = {field.name for field in fields(column)} - {"entries"}
    found = {name: plain(getattr(column, name)) for name in names}
    return found | {"entries": [(entry.pk, entry.title, entry.keys) for entry in column.entries]}


def one(state: State, chosen: random.Random) -> Run | None:
    found = list(Run.objects.filter(state=state).order_by("created", "pk"))
    return chosen.choice(found) if found else None


def submit(suite: Suite, chosen: random.Random) -> None:
    make.make_submission(make.make_variant(f"lab/new-{chosen.random()}"), suite)


def start(_: Suite, chosen: random.Random) -> None:
    if run := one(State.QUEUED, chosen):
        make.start(run, 1, 20)


def finish(_: Suite, chosen: random.Random) -> None:
    if run := one(State.QUEUED, chosen):
        make.finish(run, skill=chosen.random(), n=20)


def fail(_: Suite, chosen: random.Random) -> None:
    if run := one(State.QUEUED, chosen):
        make.fail(run, "ModelError", "It answered with NaN.")


def cancel(_: Suite, chosen: random.Random) -> None:
    if run := one(State.QUEUED, chosen):
        claims.cancel(run, by="an operator")


def retry(_: Suite, chosen: random.Random) -> None:
    if run := one(State.FAILED, chosen):
        claims.retry(run, by="an operator")


def measure_again(_: Suite, chosen: random.Random) -> None:
    if run := one(State.DONE, chosen):
        runs = Run.objects.filter(pk=run.pk)
        reruns.rerun(runs.select_related("variant", "task"), by="an operator", reason="a mistake")


def recall(_: Suite, chosen: random.Random) -> None:
    if run := one(State.DONE, chosen):
        recalls.recall(Recall.Kind.RUNS, [str(run.pk)], reason="a mistake", by="an operator")


def undo(_: Suite, chosen: random.Random) -> None:
    made = list(Recall.objects.filter(undone=None).order_by("pk"))
    if made:
        recalls.undo(chosen.choice(made), reason="it was right", by="an operator")


def retitle(suite: Suite, chosen: random.Random) -> None:
    entry = chosen.choice(entries_of(suite))
    SuiteEntry.objects.filter(pk=entry.pk).update(title=f"Title {chosen.random()}")


def lose_costs(_: Suite, __: random.Random) -> None:
    """As runs of a version that kept none, whose files are read later."""
    with changing():
        RunCost.objects.all().delete()
    costs.fill_missing()


CHANGES: list[Change] = [
    *(submit, start, finish, finish, finish, fail, cancel, retry, measure_again),
    *(recall, undo, retitle, lose_costs),
]


@pytest.mark.parametrize("seed", range(3))
def test_kept_columns_are_those_that_are_read_anew(suite: Suite, seed: int) -> None:
    chosen = random.Random(seed)
    before = columns.columns_of(suite, entries_of(suite))
    moved = 0
    for _ in range(30):
        change = chosen.choice(CHANGES)
        change(suite, chosen)
        # The factories put first what they want to have claimed.
        Run.objects.update(priority=0)
        kept = columns.columns_of(suite, entries_of(suite))
        columns.forget()
        anew = columns.columns_of(suite, entries_of(suite))
        for mine, theirs in zip(map(told, kept), map(told, anew), strict=True):
            assert mine == theirs, change
        moved += list(map(told, anew)) != list(map(told, before))
        before = anew
    assert moved > 10, "the changes change something"


def test_a_run_that_ends_has_its_benchmarks_columns_read_and_no_other(suite: Suite) -> None:
    make.make_submission(make.make_variant("lab/new"), suite)
    held = make.claimed(Run.objects.filter(state=State.QUEUED, task__benchmark="facts")[0])
    before = columns.columns_of(suite, entries_of(suite))
    make.complete(held, make.Answers(n=20))
    after = columns.columns_of(suite, entries_of(suite))
    again = [mine is not theirs for mine, theirs in zip(after, before, strict=True)]
    assert again == [column.entry.benchmark == "facts" for column in after]
    with CaptureQueriesContext(connection) as queries:
        columns.columns_of(suite, entries_of(suite))
    assert len(queries) == 3, "the entries and two sets of numbers"


def test_boards_share_a_column(suite: Suite) -> None:
    own = columns.columns_of(suite, [entry for entry in entries_of(suite) if entry.own])
    every = columns.columns_of(suite, entries_of(suite))
    assert {id(column) for column in own} < {id(column) for column in every}
