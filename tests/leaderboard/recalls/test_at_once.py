"""A recall while others write: nothing that it names slips through, and nobody waits in a circle.

Each test holds one transaction open at the moment in which the other must not be missed. On SQLite,
which has one writer at a time, the other simply waits; `test_postgresql.py` runs these there, where
both are at work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection

from evalcore.engine import VERSION
from leaderboard import recalls
from leaderboard.models import Recall, Run, Suite
from leaderboard.queue import claims, recalling, reruns
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db(transaction=True)

A_MOMENT = 1.0
"""Seconds in which another transaction would long have got through, if nothing held it up."""
PATIENCE = 60.0
REASON = "the tokenizer lost every full stop"


class Beside(threading.Thread):
    """Does something on a connection of its own; `result` waits for it and raises its error."""

    def __init__(self, action: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._action, self._given, self._problem = action, None, None
        self.start()

    def run(self) -> None:
        try:
            self._given = self._action()
        except BaseException as problem:
            self._problem = problem
        finally:
            connection.close()

    def result(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive(), "it waits for ever"
        if self._problem is not None:
            raise self._problem
        return self._given


def recall_all() -> tuple[Recall, recalls.Concerned]:
    return recalls.recall("engine", [VERSION], reason=REASON, by="ada")


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


@pytest.fixture
def beside() -> Iterator[Callable[[Callable[[], Any]], Beside]]:
    begun: list[Beside] = []

    def begin(action: Callable[[], Any]) -> Beside:
        begun.append(Beside(action))
        return begun[-1]

    yield begin
    for other in begun:
        other.join(PATIENCE)


def finish(held: make.Claimed) -> None:
    make.complete(held, make.Answers(n=20))


def of(run: Run) -> tuple[str, int | None]:
    run.refresh_from_db()
    return run.state, run.recall_id


def times_recalled(run: Run) -> int:
    return run.events.filter(state="recalled").count()


def test_a_result_that_ends_while_a_recall_queues_its_reruns_is_recalled(
    heron: Run, crane: make.Claimed, monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    queues, ended = threading.Event(), threading.Event()
    real = reruns.rerun

    def long_part(*args: Any, **options: Any) -> reruns.Ordered:
        queues.set()
        ended.wait(A_MOMENT)
        return real(*args, **options)

    monkeypatch.setattr(reruns, "rerun", long_part)
    recall = beside(recall_all)
    assert queues.wait(PATIENCE)
    finish(crane)
    waited_for_all_of_it = not recall.is_alive()
    ended.set()
    made, taken = recall.result()
    assert of(crane.run) == ("recalled", made.pk)
    assert of(heron) == ("recalled", made.pk)
    assert ([run.pk for run in taken.stand], taken.queued) == ([heron.pk], 1)
    if connection.vendor == "postgresql":
        assert not waited_for_all_of_it


def test_a_result_that_has_looked_for_recalls_and_is_not_stored_yet_is_recalled(
    heron: Run, crane: make.Claimed, monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    begun: list[Beside] = []
    real = recalling.at_birth

    def looks(run: Run) -> None:
        real(run)
        begun.append(beside(recall_all))
        begun[0].join(A_MOMENT)

    monkeypatch.setattr(recalling, "at_birth", looks)
    finish(crane)
    made, _ = begun[0].result()
    assert of(crane.run) == ("recalled", made.pk)
    assert (times_recalled(crane.run), made.results) == (1, 2)


def test_a_result_that_ends_while_a_recall_is_undone_stands(
    heron: Run, crane: make.Claimed, monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    made, _ = recall_all()
    begun: list[Beside] = []
    real = recalling.at_birth

    def looks(run: Run) -> None:
        real(run)
        begun.append(beside(lambda: recalls.undo(made, reason="a mistake", by="bo")))
        begun[0].join(A_MOMENT)

    monkeypatch.setattr(recalling, "at_birth", looks)
    finish(crane)
    begun[0].result()
    assert of(crane.run) == ("done", None)
    assert of(heron) == ("done", None)


def test_a_rerun_that_ends_while_its_recall_is_undone_is_cancelled_and_the_earlier_stands(
    heron: Run, monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    made, _ = recall_all()
    held = make.claimed(Run.objects.get(replaces=heron))
    begun: list[Beside] = []
    real = recalling.put_back

    def slowly(*args: Any, **options: Any) -> list[Run]:
        freed = real(*args, **options)
        begun.append(beside(lambda: finish(held)))
        begun[0].join(A_MOMENT)
        return freed

    monkeypatch.setattr(recalling, "put_back", slowly)
    recalls.undo(made, reason="a mistake", by="bo")
    with pytest.raises(claims.LeaseLost):
        begun[0].result()
    assert of(heron) == ("done", None)
    assert of(held.run) == ("cancelled", None)


def test_a_rerun_that_takes_a_place_while_that_is_recalled_is_stored(
    suite: Suite, heron: Run, monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    reruns.rerun([heron], by="ada", reason="to see")
    held = make.claimed(Run.objects.get(replaces=heron))
    begun: list[Beside] = []
    real = recalling.take

    def slowly(*args: Any, **options: Any) -> list[Run]:
        stood = real(*args, **options)
        begun.append(beside(lambda: finish(held)))
        begun[0].join(A_MOMENT)
        return stood

    monkeypatch.setattr(recalling, "take", slowly)
    made, _ = recalls.recall("runs", [str(heron.pk)], reason=REASON, by="ada")
    begun[0].result()
    assert of(heron) == ("superseded", made.pk)
    assert of(held.run) == ("done", None)


def test_a_result_that_two_recalls_name_at_once_is_taken_once(
    heron: Run, monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    begun: list[Beside] = []
    real = recalling.take

    def slowly(*args: Any, **options: Any) -> list[Run]:
        stood = real(*args, **options)
        if not begun:
            begun.append(beside(recall_all))
            begun[0].join(A_MOMENT)
        return stood

    monkeypatch.setattr(recalling, "take", slowly)
    first, _ = recall_all()
    with suppress(recalls.Refused):  # where it began when the first had ended
        second, taken = begun[0].result()
        assert (second.results, taken.stand, taken.queued) == (0, [], 0)
    assert of(heron) == ("recalled", first.pk)
    assert (first.results, times_recalled(heron)) == (1, 1)
    assert Run.objects.filter(replaces=heron).count() == 1


def test_a_recall_that_begins_while_another_is_undone_takes_what_both_name(
    heron: Run, monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    first, _ = recalls.recall("runs", [str(heron.pk)], reason=REASON, by="ada")
    other = make.evaluated("workshop/stork", Suite.objects.get(), {"cloze": 0.4}, n=20).runs.get()
    begun: list[Beside] = []
    real = recalling.put_back

    def slowly(*args: Any, **options: Any) -> list[Run]:
        freed = real(*args, **options)
        begun.append(beside(recall_all))
        begun[0].join(A_MOMENT)
        return freed

    monkeypatch.setattr(recalling, "put_back", slowly)
    recalls.undo(first, reason="a mistake", by="bo")
    second, _ = begun[0].result()
    assert of(heron) == of(other) == ("recalled", second.pk)


def test_undoing_a_recall_that_still_queues_its_reruns_leaves_none_of_them(
    heron: Run, monkeypatch: pytest.MonkeyPatch, beside: Any
) -> None:
    begun: list[Beside] = []
    real = reruns.rerun

    def long_part(*args: Any, **options: Any) -> reruns.Ordered:
        made = Recall.objects.get()
        begun.append(beside(lambda: recalls.undo(made, reason="a mistake", by="bo")))
        begun[0].join(A_MOMENT)
        return real(*args, **options)

    monkeypatch.setattr(reruns, "rerun", long_part)
    recall_all()
    begun[0].result()
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
