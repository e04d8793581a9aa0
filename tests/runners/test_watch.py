"""What the pages are told while a child works: the phase and the counts of each run."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from evalcore.watch import LOOKS, Stratum
from leaderboard.models import Run, Worker
from leaderboard.queue import claims
from runners.footprint import Footprint
from runners.heartbeat import Heartbeat
from runners.process import Child, Use
from runners.protocol import Event, Look, Phase, Progress, TaskDone
from runners.watch import Taken, Watch
from tests.runners import rows

pytestmark = pytest.mark.django_db


class Script:
    """A child that says what it is given, one event a turn."""

    def __init__(self, *events: Event) -> None:
        self._events = list(events)

    def next_event(self, _seconds: float) -> Event | None:
        return self._events.pop(0)

    def has_ended(self) -> bool:
        return not self._events

    def use(self) -> Use:
        return Use(0, 0)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Over two runs, arc and mmlu; what it hears is stored at once."""
    monkeypatch.setattr("runners.watch.STORE_EVERY", 0.0)
    rows.queued("arc", "mmlu")
    worker = rows.worker()
    claim = claims.claim_next(worker)
    assert claim is not None
    runs = {run.task.name: run for run in claim.runs}
    return Watch(claim, worker, Heartbeat(claim, worker), runs, threading.Event())


def after(watch: Watch, phase: str, *events: Event) -> dict[str, tuple[str, int, int]]:
    """How the runs stand once the child has said all that."""
    for _ in watch.follow(cast(Child, Script(*events)), phase, Footprint(())):
        pass
    fields = Run.objects.values_list("task__name", "phase", "progress_done", "progress_total")
    return {name: (now, done, total) for name, now, done, total in fields}


def test_data_sets_are_counted_for_every_run_whatever_the_task_they_belong_to(
    watch: Watch,
) -> None:
    stands = after(watch, "download", Phase("download"), Progress("arc_part_2", 2, 6))
    assert stands == {"arc": ("download", 2, 6), "mmlu": ("download", 2, 6)}


def test_no_count_outlives_its_phase(watch: Watch) -> None:
    after(watch, "download", Phase("download"), Progress("arc", 6, 6))
    assert set(after(watch, "load", Phase("load")).values()) == {("load", 0, 0)}
    assert after(watch, "load", Phase("prepare"))["arc"] == ("prepare", 0, 0)
    assert after(watch, "load", Phase("evaluate"))["arc"] == ("evaluate", 0, 0)


def test_only_the_task_being_answered_has_counts(watch: Watch) -> None:
    stands = after(watch, "load", Phase("prepare"), Phase("evaluate"), Progress("arc", 8, 40))
    assert stands == {"arc": ("evaluate", 8, 40), "mmlu": ("turn", 0, 0)}
    watch.finished("arc")
    stands = after(watch, "load", Phase("prepare"), Phase("evaluate"), Progress("mmlu", 3, 90))
    assert stands["mmlu"] == ("evaluate", 3, 90)


def test_the_task_that_the_engine_names_is_the_one_being_answered(watch: Watch) -> None:
    stands = after(watch, "load", Phase("evaluate"), Progress("mmlu", 3, 90))
    assert stands == {"arc": ("turn", 0, 0), "mmlu": ("evaluate", 3, 90)}


def test_tasks_that_are_answered_together_each_have_their_counts(watch: Watch) -> None:
    events = Phase("evaluate"), Progress("arc", 8, 40), Progress("mmlu", 3, 90)
    stands = after(watch, "load", *events)
    assert stands == {"arc": ("evaluate", 8, 40), "mmlu": ("evaluate", 3, 90)}
    script = Script(*events, TaskDone("arc", "record", "samples"))
    for event in watch.follow(cast(Child, script), "load", Footprint(())):
        if isinstance(event, TaskDone):
            watch.finished("arc")
    mmlu = Run.objects.get(task__name="mmlu")
    assert (mmlu.phase, mmlu.progress_done, mmlu.progress_total) == ("evaluate", 3, 90)


def look(answered: int, right: int, documents: int = 240) -> Look:
    stratum = Stratum(
        weight=1.0, documents=documents, answered=answered, right=right, zero_or_one=True
    )
    return Look("arc", "acc", (stratum,))


def so_far() -> dict[str, object]:
    stands: dict[str, object] = Run.objects.get(task__name="arc").so_far
    return stands


def test_where_a_score_stands_so_far_is_stored_look_by_look(watch: Watch) -> None:
    after(watch, "load", Phase("evaluate"), look(30, 12), look(60, 21))
    stands = so_far()
    assert stands["metric"] == "acc"
    first, second = cast(list[dict[str, float]], stands["looks"])
    assert (first["answered"], first["documents"], first["value"]) == (30, 240, 0.4)
    assert (second["answered"], second["value"]) == (60, 0.35)
    assert first["low"] <= second["low"] < 0.35 < second["high"] <= first["high"]
    assert Run.objects.get(task__name="mmlu").so_far == {}


def test_a_look_that_is_told_again_or_made_up_is_no_news(watch: Watch) -> None:
    """A second child goes on with the journal of the first; a model may say what it likes."""
    after(watch, "load", Phase("evaluate"), look(30, 12), look(60, 21))
    stands = so_far()
    after(watch, "load", Phase("evaluate"), look(30, 12), look(60, 60), look(20, 20))
    assert so_far() == stands
    after(watch, "load", Phase("evaluate"), *(look(n, 9) for n in range(61, 90)))
    assert len(cast(list[object], so_far()["looks"])) == LOOKS
    made_up = Look("hellaswag", "acc", look(30, 12).strata)
    after(watch, "load", Phase("evaluate"), made_up)


def test_a_worker_that_lost_its_lease_stores_no_look(watch: Watch) -> None:
    run = watch.runs["arc"]
    claims.cancel(run, by="ada")
    with pytest.raises(Taken):
        after(watch, "load", Phase("evaluate"), look(30, 12))
    assert not claims.look(watch.token, run, metric="acc", looks=[{"value": 0.4}])
    assert so_far() == {}


def test_a_new_attempt_knows_nothing_of_the_looks_before_it(watch: Watch) -> None:
    after(watch, "load", Phase("evaluate"), look(30, 12))
    claims.give_back(watch.token, why="the worker stops")
    assert claims.claim_next(Worker.objects.get()) is not None
    assert so_far() == {}
