"""What becomes of launches, with a stand-in for the engine: it remembers what it was asked."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from django.utils import timezone

from leaderboard.models import Launch, Run, User, Worker
from leaderboard.queue import claims, launches, orders
from runners import launchers
from runners.capacity import Capacity
from runners.launchers import EngineTrouble, NoAnswer, Order, launching
from runners.launchers.looks import Looks
from runners.registration import write
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


def begin_work(order: Order) -> None:
    show_up(order)
    launches.took(order.launch)


def ask_for_one() -> None:
    """A run waits that nobody can take."""
    rows.queued("arc")
    launchers.look()


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


def test_a_worker_that_never_comes_is_given_up_and_its_kind_rests(
    engine: StandIn, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    ask_for_one()
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


def test_an_engine_that_refuses_is_not_asked_again_at_once(
    engine: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    engine.trouble = "Slurm: Invalid partition"
    ask_for_one()
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


def test_what_the_engine_has_not_got_after_minutes_is_given_up_and_later_where_it_is_away(
    engine: StandIn,
) -> None:
    rows.queued("arc")
    engine.lost = "Ray: Read timed out"
    launchers.look()
    (order,) = engine.orders
    engine.orders.clear()
    launchers.look()
    assert the_launch().state == "asking", "it may still make it"
    engine.is_away = True
    earlier(asked=timedelta(minutes=59))
    launchers.look()
    assert the_launch().state == "asking", "nobody knows"
    engine.is_away = False
    launchers.look()
    assert (the_launch().state, the_launch().why) == ("failed", "the engine has no such worker")
    # If it comes after all, it is welcome, and ended by its name when it is over.
    show_up(order)
    assert (the_launch().state, the_launch().ended) == ("up", None)
    engine.orders.append(order)
    earlier(came=timedelta(hours=9))
    launchers.look()
    assert engine.cancelled == ["job-1"]


def test_a_worker_is_missed_where_it_says_nothing_for_minutes_and_another_takes_its_place(
    engine: StandIn,
) -> None:
    ask_for_one()
    show_up(engine.orders[0])
    # What is there of before it came says nothing; it is given minutes to find out what it holds.
    Worker.objects.update(seen=timezone.now() - timedelta(hours=2))
    for minutes, state in ((4, "up"), (6, "ended")):
        earlier(came=timedelta(minutes=minutes))
        launchers.look()
        assert Launch.objects.earliest("asked").state == state
    assert engine.cancelled == ["job-1"]
    earlier(ended=timedelta(hours=7))
    launchers.look()
    show_up(engine.orders[1])
    launches.took(engine.orders[1].launch)
    earlier(came=timedelta(hours=1))
    Worker.objects.update(seen=timezone.now() - timedelta(minutes=3))
    launchers.look()
    assert engine.cancelled == ["job-1", "job-2"]
    assert len(engine.orders) == 3


def test_while_the_database_was_away_nobody_could_be_seen(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_for_one()
    show_up(engine.orders[0])
    rows.queued("arc", variant=rows.variant("tiny/gpt2"), needed_bytes=79 * 10**9)
    away = timedelta(minutes=10)
    earlier(came=timedelta(hours=1))
    Worker.objects.update(seen=timezone.now() - away)
    looked(monkeypatch, last=away)
    launchers.look()
    assert len(engine.orders) == 1, "who lives says so before others are asked for"
    # It is back for a minute, and the worker has not been seen yet.
    looked(monkeypatch, since=timedelta(minutes=1))
    launchers.look()
    assert engine.cancelled == []
    looked(monkeypatch, since=timedelta(minutes=3))
    launchers.look()
    assert engine.cancelled == ["job-1"]
    assert len(engine.orders) > 1
