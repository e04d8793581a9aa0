"""What Celery promises of its workers holds for those that evaluate, on both brokers: they answer
while they compute, end by its signals and commands, and work on when the broker is away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import httpx2
import psutil
import pytest

from tests.hub import serve
from tests.runners import place
from tests.runners.place import ANSWERING, ATTEMPTS, STATES
from tests.services import STARTS_WITHIN, Server, redis_server, wait_until

MANY, WORDS = 20_000, 30
"""Questions that no test waits for, and words in each."""
OTHER_MODEL, THIRD_MODEL = "awkward/second-llama", "awkward/third-llama"
STARTED = "print(Worker.objects.get().started)"
GIVEN_BACK = "print(RunEvent.objects.filter(state='queued', why__contains='stopped').count())"
NO_TASK = """
from kombu import Producer
from runners.celery import app
with app.connection_for_write() as connection:
    Producer(connection.default_channel).publish(
        ["no task"], exchange="evaluate", routing_key="evaluate", serializer="json",
        headers={"task": "evaluate", "id": "of a test", "lang": "py"},
    )
"""
"""A message of somebody else's, whose body is not what Celery expects."""
BROKERS = ("files", "Redis")
CELERY = [sys.executable, "-m", "celery", "--quiet", "--app", "runners"]


@dataclass
class Broker:
    """Where messages are, and how it is taken away."""

    url: str
    folder: Path
    server: Server | None

    def flush(self) -> None:
        """All messages are gone."""
        if self.server:
            self.server.stop()
            self.server.start()
            return
        for file in self.folder.glob("messages/*"):
            file.unlink(missing_ok=True)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nobody can send or read a message."""
        if self.server:
            self.server.stop()
            try:
                yield
            finally:
                self.server.start()
            return
        hidden = self.folder.rename(self.folder.with_name("hidden"))
        self.folder.touch()
        try:
            yield
        finally:
            self.folder.unlink()
            hidden.rename(self.folder)


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    folder = tmp_path / "home" / "broker"
    if request.param == "files":
        yield Broker("filesystem://", folder, None)
        return
    with redis_server(tmp_path) as server:
        yield Broker(f"redis://127.0.0.1:{server.port}/0", folder, server)


@pytest.fixture(scope="module")
def endless_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve([place.write_content(tmp_path_factory.mktemp("many"), MANY, WORDS)]) as url:
        yield url


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    content = place.write_content(tmp_path_factory.mktemp("few"), rows=12)
    for model in (OTHER_MODEL, THIRD_MODEL):
        shutil.copytree(content / "models" / place.MODEL, content / "models" / model)
    with serve([content]) as url:
        yield url


def celery(here: place.Site, *words: str) -> str:
    """What Celery's own command prints; nothing where no worker answers."""
    done = subprocess.run(
        [*CELERY, *words],
        cwd=place.ROOT,
        env=here.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def replies(here: place.Site, *words: str) -> Any:
    """Of the one worker that there is; None where it does not answer."""
    said = celery(here, "inspect", *words, "--json", "--timeout", "5")
    return next(iter(json.loads(said).values())) if said.strip() else None


def answer(here: place.Site, *words: str) -> Any:
    found: list[Any] = []

    def has_answered() -> bool:
        found[:] = [replies(here, *words)]
        return bool(found[0])

    wait_until(has_answered, STARTS_WITHIN, here.log)
    return found[0]


def end_by_signals(*numbers: signal.Signals) -> Callable[[place.Site, psutil.Process], object]:
    def end(_: place.Site, worker: psutil.Process) -> None:
        for number in numbers:
            worker.send_signal(number)

    return end


def end_by_many_signals(_: place.Site, worker: psutil.Process) -> None:
    """So close together that many come while the worker's handler hears one before."""
    for _number in range(200):
        os.kill(worker.pid, signal.SIGTERM)
        sleep(0.0001)


ENDS = {
    "SIGTERM": end_by_signals(signal.SIGTERM),
    "many SIGTERM": end_by_many_signals,
    "SIGQUIT": end_by_signals(signal.SIGQUIT),
    "control shutdown": lambda here, _: celery(here, "control", "shutdown"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_worker_tells_what_it_computes_gives_it_back_when_told_and_ends_with_nothing_charged(
    tmp_path: Path, endless_hub: str, broker: Broker, end: str
) -> None:
    with (
        place.site(tmp_path, endless_hub, PLUMBLINE_BROKER_URL=broker.url) as here,
        here.running("--devices", "cpu") as worker,
    ):
        here.wait_for(ANSWERING, lambda count: count != "0")
        (task,) = answer(here, "active")
        assert task["name"] == "evaluate"
        assert task["kwargs"]["model"].startswith(place.MODEL)
        assert task["kwargs"]["suite"] == "small"
        computing = answer(here, "computing")
        assert computing["model"].startswith(place.MODEL)
        assert set(computing["runs"]) == {"counting", "counting_mmlu"}

        celery(here, "control", "terminate", "SIGTERM", task["id"])
        here.wait_for(GIVEN_BACK, lambda count: count == "2")
        here.wait_for(STATES, lambda states: states == "running running")
        assert worker.poll() is None
        assert here.ask(ATTEMPTS) == "1 1"

        below = psutil.Process(worker.pid).children(recursive=True)
        ENDS[end](here, psutil.Process(worker.pid))
        assert worker.wait(STARTS_WITHIN) == 0, here.log()
        assert psutil.wait_procs(below, timeout=STARTS_WITHIN)[1] == []
        assert (here.ask(STATES), here.ask(ATTEMPTS)) == ("queued queued", "0 0")
        assert here.ask("print(Worker.objects.filter(ended=None).count())") == "0"


WRONG_OPTIONS = {
    "--queues evaluate --pool solo": "leave --pool, --concurrency and --autoscale out",
    "--queues evaluate --concurrency 4": "leave --pool, --concurrency and --autoscale out",
    "--queues evaluate --autoscale 4,1": "leave --pool, --concurrency and --autoscale out",
    "--queues evaluate,chores": "has no other queue than evaluate",
    "--queues evaluate --beat": "sends no chores",
    "--queues evaluate --until-idle nan": "nan is no number of minutes",
    "--devices cpu": "add --queues evaluate",
    "--queues chores --drain": "add --queues evaluate",
}


def test_a_worker_says_in_one_line_what_is_wrong_in_its_options(tmp_path: Path) -> None:
    variables = place.environment(tmp_path, tmp_path, "", PLUMBLINE_DEBUG="1")
    started = {
        words: subprocess.Popen(
            [*CELERY, "worker", *words.split()],
            cwd=place.ROOT, env=variables, stderr=subprocess.PIPE, text=True,
        )
        for words in WRONG_OPTIONS
    }  # fmt: skip
    try:
        for words, process in started.items():
            said = process.communicate(timeout=STARTS_WITHIN)[1]
            assert WRONG_OPTIONS[words] in said
            assert (said.count("\n"), process.returncode) == (1, 1), said
    finally:
        for process in started.values():
            process.kill()


def test_a_worker_that_cannot_write_into_its_home_says_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "workers").touch()
    variables = place.environment(tmp_path, tmp_path, "")
    ended = place.finished_worker(variables, "--devices", "cpu")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert str(tmp_path / "workers") in ended.stderr


@pytest.mark.parametrize("option", ["--drain", "--until-idle=0.01"])
def test_a_worker_that_cannot_look_for_runs_ends_when_it_would_as_an_idle_one(
    tmp_path: Path, option: str
) -> None:
    """Else an engine would pay for it for ever."""
    (tmp_path / "db").write_text("no database, and not one that is away")
    variables = place.environment(
        tmp_path, tmp_path, "", PLUMBLINE_DATABASE_URL=f"sqlite:///{tmp_path / 'db'}"
    )
    ended = place.finished_worker(variables, "--devices", "cpu", option)
    assert ended.returncode == os.EX_UNAVAILABLE
    assert "ends: it cannot look for runs" in ended.stderr


def test_flower_shows_the_model_that_is_computed_to_those_who_log_in(
    tmp_path: Path, endless_hub: str
) -> None:
    log_in = "ada:of a test"
    with (
        place.site(tmp_path, endless_hub, PLUMBLINE_BROKER_URL="filesystem://") as here,
        Server(
            lambda port: [*CELERY, "flower", f"--port={port}", f"--basic-auth={log_in}"],
            cwd=place.ROOT,
            env=here.variables,
        ) as flower,
        here.running("--devices", "cpu"),
    ):
        page = f"{flower.address}/api/tasks?taskname=evaluate"
        refused = httpx2.get(page)
        assert refused.status_code == 401
        client = httpx2.Client(auth=tuple(log_in.split(":")))

        def is_shown() -> bool:
            shown = client.get(page).json().values()
            return any(
                task["state"] == "PROGRESS" and place.MODEL in task["kwargs"] for task in shown
            )

        wait_until(is_shown, STARTS_WITHIN, here.log)


def test_a_worker_works_on_without_its_broker_and_answers_when_that_is_back(
    tmp_path: Path, hub: str, broker: Broker
) -> None:
    with place.site(tmp_path, hub, PLUMBLINE_BROKER_URL=broker.url) as here:
        with here.running("--devices", "cpu"):
            here.wait_for(STATES, lambda states: states == "done done")
            with broker.away():
                here.ask(place.submitting(OTHER_MODEL))
                here.wait_for(STATES, lambda states: states == " ".join(["done"] * 4))
            assert answer(here, "ping") == {"ok": "pong"}
            broker.flush()
            here.ask(NO_TASK)
            here.ask(place.submitting(THIRD_MODEL))
            here.wait_for(STATES, lambda states: states == " ".join(["done"] * 6))
            assert answer(here, "ping") == {"ok": "pong"}
        assert here.ask(ATTEMPTS) == "1 1 1 1 1 1"


def test_two_workers_of_one_name_share_what_waits_and_no_run_is_evaluated_twice(
    tmp_path: Path, hub: str, broker: Broker
) -> None:
    """As of two containers that were given one host name: each has a home of its own."""
    with place.site(tmp_path, hub, PLUMBLINE_BROKER_URL=broker.url) as here:
        for model in (OTHER_MODEL, THIRD_MODEL):
            here.ask(place.submitting(model))
        (tmp_path / "other").mkdir()
        beside = here.in_home(tmp_path / "other")
        with (
            here.running("--drain", "--devices", "cpu") as one,
            beside.running("--drain", "--devices", "cpu") as other,
        ):
            assert (one.wait(), other.wait()) == (0, 0), here.log() + beside.log()
        assert here.ask(STATES) == " ".join(["done"] * 6)
        assert here.ask(ATTEMPTS) == "1 1 1 1 1 1"
        assert here.ask("print(Worker.objects.count())") == "1"


def test_a_shutdown_that_no_worker_heard_does_not_end_the_next_one(
    tmp_path: Path, hub: str, broker: Broker
) -> None:
    with place.site(tmp_path, hub, PLUMBLINE_BROKER_URL=broker.url) as here:
        here.drained("cpu")
        celery(here, "control", "shutdown")
        here.ask(place.submitting(OTHER_MODEL))
        here.drained("cpu")
        assert here.ask(STATES) == "done done done done"


def test_a_worker_begins_anew_at_sighup_and_writes_into_its_own_log_file(
    tmp_path: Path, hub: str
) -> None:
    with place.site(tmp_path, hub, PLUMBLINE_BROKER_URL="filesystem://") as here:
        words = ("--devices", "cpu", "--logfile", str(tmp_path / "%n.log"))
        with here.running(*words) as worker:
            here.wait_for(STATES, lambda states: states == "done done")
            began = here.ask(STARTED)
            worker.send_signal(signal.SIGHUP)
            wait_until(lambda: here.ask(STARTED) != began, STARTS_WITHIN, here.log)
            here.ask(place.submitting(OTHER_MODEL))
            here.wait_for(STATES, lambda states: states == "done done done done")
            assert worker.poll() is None
        assert (tmp_path / "evaluate-cpu.log").read_text().count(" is done\n") == 4


def test_a_worker_whose_broker_hangs_ends_all_the_same(tmp_path: Path, hub: str) -> None:
    with (
        redis_server(tmp_path) as server,
        place.site(
            tmp_path, hub, PLUMBLINE_BROKER_URL=f"redis://127.0.0.1:{server.port}/0"
        ) as here,
        here.running("--devices", "cpu") as worker,
    ):
        here.wait_for(STATES, lambda states: states == "done done")
        server.process.suspend()
        try:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(STARTS_WITHIN) == 0
        finally:
            server.process.resume()
        assert here.ask("print(Worker.objects.filter(ended=None).count())") == "0"
