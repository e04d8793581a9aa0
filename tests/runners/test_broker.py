"""Messages as files: whole when they can be seen, taken once, gone when they are stale; how workers
wait for them, and for a database that does not answer. Many worker processes and one queue, on each
database that the site runs on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from celery.utils.nodenames import WORKER_DIRECT_EXCHANGE, worker_direct
from django.db import OperationalError
from kombu import Connection, Exchange, Queue
from kombu.transport import filesystem
from redis import Redis

from runners import broker, registration
from runners.supervisor import commands
from tests import databases, services
from tests.chaos.clock import Clock, can_be_wrong
from tests.runners.place import ROOT, environment_of_site, printed
from tests.services import redis_server

CONNECT = """
import sys
from pathlib import Path
from queue import Empty
from kombu import Connection, Exchange, Queue
from runners import broker

def connect(folder):
    return Connection(
        "filesystem://localhost//",
        transport="runners.broker:Transport",
        transport_options=broker.transport_options(folder),
    )
"""
PRODUCER = """
with connect(Path(sys.argv[1])) as connection:
    queue = connection.SimpleQueue("work")
    for number in range(int(sys.argv[3])):
        queue.put(f"{sys.argv[2]}/{number}")
"""
CONSUMER = """
with connect(Path(sys.argv[1])) as connection:
    queue = connection.SimpleQueue("work")
    while True:
        all_is_sent = Path(sys.argv[1], "all is sent").exists()
        try:
            message = queue.get(timeout=1)
        except Empty:
            if all_is_sent:
                break
            continue
        message.ack()
        print(message.payload, flush=True)
"""


def connect(folder: Path) -> Connection:
    return Connection(
        "filesystem://localhost//",
        transport="runners.broker:Transport",
        transport_options=broker.transport_options(folder),
    )


def test_every_message_of_several_producers_reaches_one_of_several_consumers(
    tmp_path: Path,
) -> None:
    def start(code: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CONNECT + code, str(tmp_path), *arguments]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    consumers = [start(CONSUMER) for _ in range(2)]
    producers = [start(PRODUCER, str(number), "100") for number in range(2)]
    for producer in producers:
        producer.communicate()
    (tmp_path / "all is sent").touch()
    got = [line for consumer in consumers for line in consumer.communicate()[0].split()]
    assert all(process.returncode == 0 for process in [*producers, *consumers])
    assert sorted(got) == sorted(f"{who}/{number}" for who in range(2) for number in range(100))


def test_two_workers_that_bind_in_one_moment_are_both_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = connect(tmp_path)
    locked = filesystem.lock

    def bind(queue: str, channel: Any) -> None:
        Queue(queue, Exchange("hints"))(channel).declare()

    def lock_late(file: IO[bytes], kind: int) -> None:
        monkeypatch.setattr(filesystem, "lock", locked)
        with connect(tmp_path) as second:
            bind("of the second", second.channel())
        locked(file, kind)

    monkeypatch.setattr(filesystem, "lock", lock_late)
    with first:
        channel = first.channel()
        bind("of the first", channel)
        assert {bound.queue for bound in channel.get_table("hints")} == {
            "of the first",
            "of the second",
        }


def test_stale_messages_are_swept_and_fresh_ones_stay(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        queue = connection.SimpleQueue("chores")
        queue.put("old")
        (old,) = (tmp_path / "messages").iterdir()
        long_ago = time.time() - 2 * broker.STALE
        os.utime(old, (long_ago, long_ago))
        queue.put("new")
        assert broker.sweep(tmp_path) == 1
        assert queue.get(timeout=30).payload == "new"


def test_a_dead_workers_own_queue_goes_from_each_broker_and_a_living_ones_stays(
    tmp_path: Path,
) -> None:
    dead, living = "evaluate-cpu@dead", "evaluate-cpu@living"
    with redis_server(tmp_path) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        on_redis = Connection(url, transport="runners.broker:BoundedRedis")
        for connection in (connect(tmp_path), on_redis):
            with connection:
                channel, producer = connection.channel(), connection.Producer()
                for name in (dead, living):
                    queue = worker_direct(name)
                    producer.publish(
                        "hint", exchange=queue.exchange, routing_key=name, declare=[queue]
                    )
                assert broker.forget_workers(connection, [living]) == 1
                table = channel.get_table(WORKER_DIRECT_EXCHANGE.name)
                assert [name for name, _, _ in table] == [living]
                own = worker_direct(living)(channel)
                assert [own.get() is not None for _ in range(2)] == [True, False]
                assert broker.forget_workers(connection, []) == 1
                assert channel.get_table(WORKER_DIRECT_EXCHANGE.name) == []
        assert Redis(port=server.port).keys() == []


def test_a_hint_on_redis_that_no_worker_reads_goes_with_its_queue(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        with Connection(url, transport="runners.broker:BoundedRedis") as connection:
            connection.SimpleQueue("hints").put("hint")
        assert 0 < Redis(port=server.port).ttl("hints") <= broker.STALE


def test_a_database_that_is_away_is_asked_again_for_minutes_and_by_who_must_end_for_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    database = SimpleNamespace(in_atomic_block=False, close=lambda: None)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def away_for(seconds: float) -> Callable[[], str]:
        back = now + seconds

        def ask() -> str:
            if now < back:
                raise OperationalError("away")
            return "answer"

        return ask

    monkeypatch.setattr(registration, "connection", database)
    monkeypatch.setattr(registration, "_hurries", [])
    monkeypatch.setattr(registration, "monotonic", lambda: now)
    monkeypatch.setattr(registration, "sleep", sleep)
    assert registration.persistently(away_for(registration.LONGEST_OUTAGE - 1)) == "answer"
    with pytest.raises(OperationalError):
        registration.persistently(away_for(registration.LONGEST_OUTAGE + 60))
    registration.hurry()
    assert registration.persistently(away_for(registration.LAST_TRIES - 1)) == "answer"
    began = now
    with pytest.raises(OperationalError):
        registration.persistently(away_for(60))
    assert now - began <= registration.LAST_TRIES + registration.LONGEST_PAUSE
    database.in_atomic_block, began = True, now
    with pytest.raises(OperationalError):
        registration.persistently(away_for(1))
    assert now == began, "what a transaction had begun is lost"


CONTEST = """
import os, sys
from datetime import timedelta
import django; django.setup()
from django.core.management import call_command
from django.db import connections
from django.db.models.functions import Now
from leaderboard.models import Result, Run, RunEvent
from leaderboard.queue import claims
from tests.runners import rows

WORKERS, MODELS, TASKS = 4, 12, 3
folder = sys.argv[1]

def take_all(name, dies=False):
    me = rows.worker(name)
    with open(f"{folder}/{name}", "w") as taken:
        while claim := claims.claim_next(me):
            for run in claim.runs:
                assert claims.report(claim.token, run, phase="evaluate", done=1, total=2)
                if dies:
                    return
                claims.complete(claim.token, run, rows.record(run), rows.files())
                print(run.pk, file=taken)

def taken_by(*names):
    return [run for name in names for run in open(f"{folder}/{name}").read().split()]

call_command("migrate", verbosity=0)
for number in range(MODELS):
    variant = rows.variant(commit=f"{number:040x}")
    rows.queued(*[f"task{n}" for n in range(TASKS)], variant=variant)
connections.close_all()
ready, go = os.pipe()
started = []
for number in range(WORKERS):
    if pid := os.fork():
        started.append(pid)
        continue
    os.close(go)
    os.read(ready, 1)  # ends for all at once
    take_all(f"worker{number}", dies=number == 0)
    os._exit(0)
os.close(go)
assert [os.waitpid(pid, 0)[1] for pid in started] == [0] * WORKERS
held = Run.objects.filter(state="running")
assert held.count() <= TASKS  # by the worker that died; a part of a claim where others are idle
assert claims.release_stalled() == 0
count = held.update(lease_until=Now() - timedelta(seconds=1))
assert claims.release_stalled() == count
take_all("another")
taken = taken_by("another", *(f"worker{number}" for number in range(WORKERS)))
assert len(taken) == len(set(taken)) == MODELS * TASKS, taken
assert Run.objects.filter(state="done").count() == MODELS * TASKS
assert RunEvent.objects.filter(state="done").count() == MODELS * TASKS
assert Result.objects.count() == MODELS * TASKS
"""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def variables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a site with an empty database of this kind."""
    if request.param == "sqlite":
        databases.begin_at(tmp_path)
        yield environment_of_site(tmp_path)
        return
    with services.postgresql() as address:
        yield environment_of_site(tmp_path, address)


def test_every_run_has_one_winner_also_after_a_worker_died(
    variables: dict[str, str], tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    printed([sys.executable, "-c", CONTEST, str(taken)], variables)


def test_chores_go_on_when_the_clock_of_the_machine_is_set_back(tmp_path: Path) -> None:
    if not can_be_wrong():
        services.missing("NO C COMPILER: a clock that is wrong takes one")
    clock = Clock(tmp_path)
    variables = {**environment_of_site(tmp_path / "home"), **clock.variables}
    messages = tmp_path / "home" / "broker" / "messages"

    def hints() -> set[Path]:
        return set(messages.glob("*.chores.msg"))

    def sends_more() -> None:
        seen = hints()
        services.wait_until(lambda: len(hints() - seen) > 3, 120, lambda: f"no more than {seen}")

    beat = subprocess.Popen(commands()["beat"], cwd=ROOT, env=variables)
    try:
        sends_more()
        clock.set(-2)
        sends_more()
        sends_more()
    finally:
        beat.terminate()
        beat.wait(60)
