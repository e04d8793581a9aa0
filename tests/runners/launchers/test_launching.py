"""What becomes of launches, with a stand-in for the engine: it remembers what it was asked."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db.models import F
from django.test import Client
from django.utils import timezone

from leaderboard.health import stand
from leaderboard.models import Launch, Run, User, Worker
from leaderboard.queue import claims, estimate, launches, live_workers, orders
from runners import launchers
from runners.capacity import Capacity
from runners.launchers import EngineTrouble, NoAnswer, Order, launching
from runners.launchers.looks import Looks
from runners.launchers.slurm import Slurm
from runners.registration import Registration, write
from tests.runners import rows

pytestmark = pytest.mark.django_db

PLAN = {
    "engine": "slurm",
    "budget": {"workers_at_once": 3, "gpus_at_once": 2},
    "kinds": [{"name": "a100", "gpus": 1, "memory_gb": 80, "hours": 8, "price": 1.9}],
}


class StandIn:
    """An engine that starts nothing."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.says: dict[str, bool | None] = {}
        self.cancelled: list[str] = []
        self.trouble = ""
        self.lost = ""
        """What is said where it makes the worker and nobody hears of it."""
        self.is_away = False

    def launch(self, order: Order) -> str:
        if self.trouble:
            raise EngineTrouble(self.trouble)
        self.orders.append(order)
        if self.lost:
            raise NoAnswer(self.lost)
        return f"job-{len(self.orders)}"

    def find(self, name: str) -> str | None:
        if self.is_away:
            raise EngineTrouble("not there")
        made = [order.name for order in self.orders]
        return f"job-{made.index(name) + 1}" if name in made else None

    def alive(self, handle: str) -> bool | None:
        return self.says.get(handle, True)

    def cancel(self, handle: str) -> None:
        self.cancelled.append(handle)


@pytest.fixture
def engine(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    (tmp_path / "launch.yaml").write_text(yaml.safe_dump(PLAN))
    settings.PLUMBLINE_LAUNCH = str(tmp_path / "launch.yaml")
    engine = StandIn()
    looked(monkeypatch)
    monkeypatch.setattr("runners.launchers.launching.launcher_of", lambda _: engine)
    return engine


def looked(
    monkeypatch: pytest.MonkeyPatch,
    since: timedelta = timedelta(hours=1),
    last: timedelta = timedelta(seconds=15),
) -> None:
    """The part that looks has done so since then, and last then."""
    now = timezone.now()
    monkeypatch.setattr(launching, "LOOKS", Looks(now - since, now - last))


def the_launch() -> Launch:
    return Launch.objects.latest("asked")


def show_up(order: Order, gb: int = 80, name: str = "evaluate@node/cuda:0") -> Worker:
    """What a worker does that was started so."""
    launches.came(order.launch)
    holds = Capacity("1 x A100", gb * 10**9, ("float32", "bfloat16"))
    return write(name, holds, launch=order.launch)


def earlier(**fields: timedelta) -> None:
    for name, ago in fields.items():
        Launch.objects.update(**{name: timezone.now() - ago})


def pool(client: Client) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", client.get("/pool").content.decode()).split())


def test_from_a_run_that_nobody_can_take_to_a_worker_that_ends(
    engine: StandIn, client: Client
) -> None:
    rows.queued("arc", "mmlu")
    launchers.look()
    launchers.look()
    (order,) = engine.orders
    assert order.arguments[-4:] == ["--until-idle", "5", "--launch", str(order.launch)]
    assert (the_launch().state, the_launch().handle) == ("waiting", "job-1")
    assert "a100 1 GPU Asked for" in pool(client)

    worker = show_up(order)
    claim = claims.claim_next(worker)
    assert claim is not None
    launches.took(order.launch)
    launchers.look()
    assert (the_launch().state, the_launch().claims) == ("up", 1)
    assert len(engine.orders) == 1

    launches.end(order.launch, "its worker ended")
    Worker.objects.update(ended=timezone.now())
    launchers.look()
    assert (the_launch().state, engine.cancelled) == ("ended", [])


def test_two_who_look_at_once_ask_once(engine: StandIn) -> None:
    rows.queued("arc")
    launchers.look()
    Launch.objects.update(state="asking")  # as another process left it a moment ago
    launchers.look()
    assert len(engine.orders) == 1


def test_a_worker_that_never_comes_is_given_up_and_its_kind_rests(
    engine: StandIn, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    rows.queued("arc")
    launchers.look()
    earlier(asked=timedelta(minutes=61))
    launchers.look()
    launchers.look()
    assert (the_launch().state, engine.cancelled) == ("failed", ["job-1"])
    assert len(engine.orders) == 1
    assert "did not come within 60 minutes" in caplog.text
    assert "a100 1 GPU Did not come" in pool(client)
    assert "a100 failed; none is asked for until" in pool(client)
    # What the engine says may name the operator's machines.
    assert "within 60 minutes" not in pool(client)
    client.force_login(User.objects.create_superuser("operator"))
    assert "Did not come: its worker did not come within 60 minutes" in pool(client)

    earlier(ended=timedelta(minutes=6))
    launchers.look()
    assert len(engine.orders) == 2
    # The engine knows sooner than any clock.
    engine.says["job-2"] = False
    launchers.look()
    assert the_launch().why == "the engine has ended it, and its worker never came"


def test_a_worker_that_comes_after_all_is_welcome(engine: StandIn) -> None:
    rows.queued("arc")
    launchers.look()
    earlier(asked=timedelta(minutes=61))
    launchers.look()
    assert the_launch().state == "failed"
    show_up(engine.orders[0])
    launchers.look()
    assert (the_launch().state, the_launch().ended) == ("up", None)


def test_an_engine_that_refuses_is_not_asked_again_at_once(
    engine: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    engine.trouble = "Slurm: Invalid partition"
    rows.queued("arc")
    launchers.look()
    launchers.look()
    assert Launch.objects.count() == 1
    assert the_launch().why == "the engine refused it: Slurm: Invalid partition"
    assert "no worker of kind a100: Slurm: Invalid partition" in caplog.text


def test_a_worker_of_which_the_engine_said_nothing_is_found_by_its_name(engine: StandIn) -> None:
    runs = [rows.queued("arc", variant=rows.variant(f"lab/{number}"))[0] for number in range(3)]
    engine.lost = "Kubernetes: Read timed out"
    launchers.look()
    assert (the_launch().state, the_launch().handle) == ("asking", "")
    for _ in range(4):
        launchers.look()
    assert len(engine.orders) == 2, "the budget has two GPUs"
    assert {launch.handle for launch in Launch.objects.all()} == {"job-1", "job-2"}
    for run in runs:
        claims.cancel(run, by="the operator")
    launchers.look()
    assert sorted(engine.cancelled) == ["job-1", "job-2"]


def test_a_worker_that_the_engine_denies_is_given_up_after_some_minutes(engine: StandIn) -> None:
    rows.queued("arc")
    engine.lost = "Ray: Read timed out"
    launchers.look()
    engine.orders.clear()
    launchers.look()
    assert the_launch().state == "asking", "it may still make it"
    earlier(asked=timedelta(minutes=6))
    launchers.look()
    launch = the_launch()
    assert (launch.state, launch.why) == ("failed", "the engine has no such worker")
    assert engine.orders == [], "its kind rests"


def test_an_engine_that_is_away_is_believed_to_have_the_worker_for_as_long_as_one_may_take(
    engine: StandIn,
) -> None:
    rows.queued("arc")
    engine.lost = "Ray: Read timed out"
    launchers.look()
    engine.is_away = True
    for minutes, state in ((59, "asking"), (61, "failed")):
        earlier(asked=timedelta(minutes=minutes))
        launchers.look()
        assert (the_launch().state, len(engine.orders)) == (state, 1)
    # And if it comes after all, it is known, and ended by its name when it is over.
    show_up(engine.orders[0])
    launches.took(engine.orders[0].launch)
    engine.is_away = False
    earlier(came=timedelta(hours=1))
    Worker.objects.update(seen=timezone.now() - timedelta(minutes=30))
    launchers.look()
    assert engine.cancelled == ["job-1"]


def test_a_disk_that_is_full_where_slurm_prints_to_takes_nothing_of_the_budget(
    engine: StandIn, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").touch()  # nothing can be made in it
    settings.PLUMBLINE_HOME = tmp_path / "home"
    monkeypatch.setattr("runners.launchers.launching.launcher_of", lambda _: Slurm({}))
    rows.queued("arc")
    launchers.look()
    assert the_launch().state == "failed"
    assert the_launch().why.startswith("the engine refused it: Slurm: ")
    assert "Not a directory" in the_launch().why


def test_a_worker_that_is_cut_off_is_cancelled_and_replaced(engine: StandIn) -> None:
    rows.queued("arc")
    launchers.look()
    show_up(engine.orders[0])
    launches.took(engine.orders[0].launch)
    earlier(came=timedelta(hours=1))
    Worker.objects.update(seen=timezone.now() - timedelta(minutes=3))
    launchers.look()
    assert engine.cancelled == ["job-1"]
    assert [launch.state for launch in Launch.objects.order_by("asked")] == ["ended", "waiting"]


def test_a_worker_that_has_come_is_given_minutes_to_find_out_what_it_holds(
    engine: StandIn,
) -> None:
    rows.queued("arc")
    launchers.look()
    (order,) = engine.orders
    with Registration("evaluate@node/cuda:0", "cpu", order.launch):
        launchers.look()
        earlier(came=timedelta(minutes=4))
        launchers.look()
        assert (the_launch().state, engine.cancelled, len(engine.orders)) == ("up", [], 1)
        earlier(came=timedelta(minutes=6))
        launchers.look()
        assert (the_launch().state, engine.cancelled) == ("ended", ["job-1"])


def test_the_row_of_an_earlier_worker_of_that_name_says_nothing_of_the_new_one(
    engine: StandIn,
) -> None:
    rows.queued("arc")
    launchers.look()
    show_up(engine.orders[0])
    launches.took(engine.orders[0].launch)
    launches.end(engine.orders[0].launch, "its worker ended")
    Worker.objects.update(seen=timezone.now() - timedelta(days=2), ended=timezone.now())
    for _ in range(2):
        # The second time the engine starts the same launch anew, as Slurm does after a node fails.
        launchers.look()
        launches.came(engine.orders[-1].launch)
        launchers.look()
        assert (the_launch().state, engine.cancelled, len(engine.orders)) == ("up", [], 2)
        show_up(engine.orders[-1])
        launches.took(engine.orders[-1].launch)
        Worker.objects.update(seen=timezone.now() - timedelta(hours=2))
        earlier(came=timedelta(hours=3))
        launches.end(engine.orders[-1].launch, "its worker ended")
        Run.objects.update(state="cancelled")


def test_a_host_whose_clock_is_minutes_ahead_misses_nobody(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.queued("arc")
    launchers.look()
    worker = show_up(engine.orders[0])
    rows.queued("mmlu")
    now = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + timedelta(minutes=3))
    launchers.look()
    assert (the_launch().state, engine.cancelled, len(engine.orders)) == ("up", [], 1)
    assert [live.name for live in live_workers()] == [worker.name]
    assert estimate.made().turns[0].takers == (worker.name,)


def test_while_the_database_was_away_nobody_could_be_seen(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.queued("arc")
    launchers.look()
    show_up(engine.orders[0])
    launches.took(engine.orders[0].launch)
    away = timedelta(minutes=10)
    earlier(came=timedelta(hours=1))
    Worker.objects.update(seen=timezone.now() - away)
    looked(monkeypatch, last=away)
    launchers.look()
    # It is back for a minute, and the worker has not been seen yet.
    looked(monkeypatch, since=timedelta(minutes=1))
    launches.ask("a100", "slurm", gpus=1, hours=8, price=1.9, at=timezone.now() - away * 60)
    Launch.objects.filter(state="asking").update(state="waiting")
    launchers.look()
    assert engine.cancelled == []
    assert not Launch.objects.filter(state="failed").exists()
    looked(monkeypatch, since=timedelta(minutes=3))
    launchers.look()
    assert "job-1" in engine.cancelled


def test_after_a_pause_workers_say_that_they_live_before_others_are_asked_for(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.queued("arc")
    worker = rows.worker()
    Worker.objects.update(seen=timezone.now() - timedelta(minutes=10))
    looked(monkeypatch, last=timedelta(minutes=10))
    launchers.look()
    assert engine.orders == []
    launchers.look()
    assert len(engine.orders) == 1, f"{worker} is not there"


def test_a_worker_is_asked_for_while_the_machine_of_the_only_one_is_full(engine: StandIn) -> None:
    rows.queued("arc")
    worker = rows.worker()
    launchers.look()
    assert engine.orders == []
    Worker.objects.update(full_until=timezone.now() + timedelta(minutes=5))
    launchers.look()
    assert len(engine.orders) == 1
    Worker.objects.filter(pk=worker.pk).update(full_until=None)
    launchers.look()
    assert engine.cancelled == ["job-1"]


def give_back(claim: claims.Claim) -> None:
    claims.give_back(claim.token, why="drained")


def stall(claim: claims.Claim) -> None:
    Run.objects.update(lease_until=timezone.now() - timedelta(minutes=1), phase="evaluate")
    assert claims.release_stalled() == 1


def stall_before_it_begins(claim: claims.Claim) -> None:
    Run.objects.update(lease_until=timezone.now() - timedelta(minutes=1))
    assert claims.release_stalled() == 1


def rest(claim: claims.Claim) -> None:
    claims.fail(claim.token, claim.runs[0], error_class="InfraError", message="the Hub is down")
    Run.objects.update(not_before=F("not_before") - timedelta(seconds=31))


def try_again(claim: claims.Claim) -> None:
    claims.fail(claim.token, claim.runs[0], error_class="ModelError", message="no tokenizer")
    assert claims.retry(Run.objects.get(), by="the operator")


@pytest.mark.parametrize("happens", [give_back, stall, stall_before_it_begins, rest, try_again])
def test_a_run_that_is_queued_again_waits_from_then_on(engine: StandIn, happens: Any) -> None:
    idle = rows.worker()
    rows.queued("arc")
    Run.objects.update(created=timezone.now() - timedelta(days=30))
    claim = claims.claim_next(idle)
    assert claim is not None
    happens(claim)
    assert Run.objects.get().state == "queued"
    oldest = stand.waiting(timezone.now()).oldest_seconds
    assert oldest is not None
    assert oldest < 60
    launchers.look()
    assert engine.orders == [], "the idle worker takes it in a second"
    Run.objects.update(not_before=timezone.now() - timedelta(minutes=16))
    launchers.look()
    assert len(engine.orders) == 1
    assert claims.claim_next(idle) is not None


def test_one_that_came_and_found_less_memory_is_not_asked_for_again(engine: StandIn) -> None:
    rows.queued("arc", needed_bytes=75 * 10**9)
    launchers.look()
    show_up(engine.orders[0], gb=70)
    launches.end(engine.orders[0].launch, "its worker ended")
    Worker.objects.update(ended=timezone.now())
    earlier(ended=timedelta(hours=7), came=timedelta(hours=8))
    launchers.look()
    assert len(engine.orders) == 1


def test_nothing_is_asked_for_while_everybody_rests_and_what_is_asked_is_taken_back(
    engine: StandIn,
) -> None:
    orders.give("pause", by="the operator")
    (run,) = rows.queued("arc")
    launchers.look()
    assert engine.orders == []
    orders.lift()
    launchers.look()
    assert len(engine.orders) == 1
    claims.cancel(run, by="the operator")
    launchers.look()
    assert engine.cancelled == ["job-1"]
    assert (the_launch().state, the_launch().came) == ("ended", None)
    assert Run.objects.get().state == "cancelled"


def test_a_file_that_is_wrong_is_named_in_the_log_and_nothing_is_asked(
    engine: StandIn, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "launch.yaml").write_text("engine: lsf\n")
    rows.queued("arc")
    launchers.look()
    assert engine.orders == []
    assert "engine: 'lsf': expected one of" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_looks_side_by_side_stay_within_the_budget(engine: StandIn) -> None:
    for number in range(6):
        rows.queued("arc", variant=rows.variant(commit=f"{number:040x}"))
    others = [threading.Thread(target=_look) for _ in range(3)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert len(engine.orders) == 2


def _look() -> None:
    from django.db import connection

    launchers.look()
    connection.close()
