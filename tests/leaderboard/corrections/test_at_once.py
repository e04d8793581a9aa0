"""A recall while others write: nothing that it names slips through, and nobody waits in a circle.

Each test holds one transaction open at the moment in which the other must not be missed. On SQLite,
which has one writer at a time, the other simply waits; on PostgreSQL both are at work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evalcore.engine import VERSION
from leaderboard.corrections import recalls
from leaderboard.corrections.reports import Refused
from leaderboard.models import Recall, Run, Suite
from leaderboard.queue import claims, recalling, reruns
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db(transaction=True)

A_MOMENT = 1.0 if connection.vendor == "postgresql" else 0.1
"""Seconds in which another transaction would long have got through, if nothing held it up; SQLite
holds each of them up."""
PATIENCE = 300.0
REASON = "the tokenizer lost every full stop"


def beside(action: Callable[[], Any]) -> Future[Any]:
    """Does something on a connection of its own."""
    answer: Future[Any] = Future()

    def act() -> None:
        try:
            answer.set_result(action())
        except BaseException as problem:
            answer.set_exception(problem)
        finally:
            connection.close()

    threading.Thread(target=act, daemon=True).start()
    return answer


def recall_all() -> tuple[Recall, recalls.Concerned]:
    return recalls.recall("engine", [VERSION], reason=REASON, by="ada")


def undo(made: Recall) -> None:
    recalls.undo(made, reason="a mistake", by="bo")


@pytest.fixture
def suite() -> Suite:
    return make.make_suite("workshop", benchmarks=("facts",), styles=("cloze",))


@pytest.fixture
def heron(suite: Suite) -> Run:
    """A result that stands."""
    return make.evaluated("workshop/heron", suite, {"cloze": 0.6}, n=20).runs.get()


@pytest.fixture
def crane(suite: Suite) -> make.Claimed:
    """A run that is about to end."""
    return make.claimed(make.queued_run(make.make_variant("workshop/crane"), suite.entries.get()))


class Meanwhile:
    """Begins an action beside, once, at the moment when the patched function is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._begun = False
        self.other: Future[Any] | None = None

    def at(
        self, module: ModuleType, function: str, action: Callable[[], Any], *, before: bool = False
    ) -> None:
        """As it ends, or before it begins."""
        real = getattr(module, function)

        def slowly(*args: Any, **options: Any) -> Any:
            if before:
                self.begin(action)
            answer = real(*args, **options)
            self.begin(action)
            return answer

        self._monkeypatch.setattr(module, function, slowly)

    def begin(self, action: Callable[[], Any]) -> None:
        if not self._begun:
            self._begun = True
            self.other = beside(action)
            wait([self.other], A_MOMENT)

    def result(self) -> Any:
        return self.other.result(PATIENCE)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Meanwhile]:
    meanwhile = Meanwhile(monkeypatch)
    yield meanwhile
    if meanwhile.other is not None:
        wait([meanwhile.other], PATIENCE)


def finish(held: make.Claimed) -> None:
    make.complete(held, make.Answers(n=20))


def of(run: Run) -> tuple[str, int | None]:
    run.refresh_from_db()
    return run.state, run.recall_id


def times_recalled(run: Run) -> int:
    return run.events.filter(state="recalled").count()


def test_a_recall_asks_the_database_as_often_for_few_results_as_for_many(suite: Suite) -> None:
    """Others wait while it does: of each result it may write, and not ask."""
    asked = []
    for number in (2, 6):
        for place in range(number):
            make.evaluated(f"workshop/{number}-{place}", suite, {"cloze": 0.6}, n=20)
        with CaptureQueriesContext(connection) as queries:
            made, taken = recall_all()
            undo(made)
        assert taken.queued >= number
        asked.append(sum(query["sql"].startswith("SELECT") for query in queries))
    assert asked[0] == asked[1]


def test_a_result_that_ends_while_a_recall_queues_its_reruns_is_recalled(
    heron: Run, crane: make.Claimed, meanwhile: Meanwhile
) -> None:
    meanwhile.at(reruns, "rerun", lambda: finish(crane), before=True)
    made, taken = recall_all()
    meanwhile.result()
    assert of(crane.run) == ("recalled", made.pk)
    assert of(heron) == ("recalled", made.pk)
    assert (taken.stand, taken.queued) == (1, 1)


def test_a_result_that_has_looked_for_recalls_and_is_not_stored_yet_is_recalled(
    heron: Run, crane: make.Claimed, meanwhile: Meanwhile
) -> None:
    meanwhile.at(recalling, "at_birth", recall_all)
    finish(crane)
    made, _ = meanwhile.result()
    assert of(crane.run) == ("recalled", made.pk)
    assert (times_recalled(crane.run), made.results) == (1, 2)


def test_a_result_that_ends_while_a_recall_is_undone_stands(
    heron: Run, crane: make.Claimed, meanwhile: Meanwhile
) -> None:
    made, _ = recall_all()
    meanwhile.at(recalling, "at_birth", lambda: undo(made))
    finish(crane)
    meanwhile.result()
    assert of(crane.run) == ("done", None)
    assert of(heron) == ("done", None)


def test_a_rerun_that_ends_while_its_recall_is_undone_is_cancelled_and_the_earlier_stands(
    heron: Run, meanwhile: Meanwhile
) -> None:
    made, _ = recall_all()
    held = make.claimed(Run.objects.get(replaces=heron))
    meanwhile.at(recalling, "put_back", lambda: finish(held))
    undo(made)
    with pytest.raises(claims.LeaseLost):
        meanwhile.result()
    assert of(heron) == ("done", None)
    assert of(held.run) == ("cancelled", None)


def test_a_rerun_that_takes_a_place_while_that_is_recalled_is_stored(
    suite: Suite, heron: Run, meanwhile: Meanwhile
) -> None:
    reruns.rerun([heron], by="ada", reason="to see")
    held = make.claimed(Run.objects.get(replaces=heron))
    meanwhile.at(recalling, "take", lambda: finish(held))
    made, _ = recalls.recall("runs", [str(heron.pk)], reason=REASON, by="ada")
    meanwhile.result()
    assert of(heron) == ("superseded", made.pk)
    assert of(held.run) == ("done", None)


def test_a_result_that_two_recalls_name_at_once_is_taken_once(
    heron: Run, meanwhile: Meanwhile
) -> None:
    meanwhile.at(recalling, "take", recall_all)
    first, _ = recall_all()
    with suppress(Refused):  # where it began when the first had ended
        second, taken = meanwhile.result()
        assert (second.results, taken.stand, taken.queued) == (0, 0, 0)
    assert of(heron) == ("recalled", first.pk)
    assert (first.results, times_recalled(heron)) == (1, 1)
    assert Run.objects.filter(replaces=heron).count() == 1


def test_a_recall_that_begins_while_another_is_undone_takes_what_both_name(
    suite: Suite, heron: Run, meanwhile: Meanwhile
) -> None:
    first, _ = recalls.recall("runs", [str(heron.pk)], reason=REASON, by="ada")
    other = make.evaluated("workshop/stork", suite, {"cloze": 0.4}, n=20).runs.get()
    meanwhile.at(recalling, "put_back", recall_all)
    undo(first)
    second, _ = meanwhile.result()
    assert of(heron) == of(other) == ("recalled", second.pk)


def test_undoing_a_recall_that_still_queues_its_reruns_leaves_none_of_them(
    heron: Run, meanwhile: Meanwhile
) -> None:
    meanwhile.at(reruns, "rerun", lambda: undo(Recall.objects.get()), before=True)
    recall_all()
    meanwhile.result()
    assert of(heron) == ("done", None)
    assert not Run.objects.filter(state="queued").exists()


def test_a_recall_that_was_killed_half_way_stands_and_again_goes_on_with_it(
    heron: Run, crane: make.Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(recalling, "take", die)
        with pytest.raises(Killed):
            recall_all()
    made = Recall.objects.get()
    finish(crane)
    assert of(crane.run) == ("recalled", made.pk), "it stands from its first transaction on"
    assert of(heron) == ("done", None)

    with monkeypatch.context() as patch:
        patch.setattr(reruns, "rerun", die)
        with pytest.raises(Killed):
            recalls.again(made, by="bo")
    assert of(heron) == ("recalled", made.pk), "what was taken stays taken"
    assert recalls.again(made, by="bo") == 2
    assert recalls.again(made, by="bo") == 0
    made.refresh_from_db()
    assert made.settled is not None
