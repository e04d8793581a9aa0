"""`python -m runners worker`, as an engine or an operator starts it, without a tree around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners import descendants, hints
from tests import databases
from tests.hub import serve
from tests.runners import place
from tests.runners.test_tree import ANSWERING, ENDLESS, STATES, SUBMIT, WORDS

MIB = 2**20
TOLD = """
import os
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families as families
page = Client().get("/metrics", headers={"authorization": "Bearer of this test"})
for family in families(page.content.decode()):
    for sample in family.samples:
        if {"worker"} <= set(sample.labels):
            print(sample.name, sample.labels.get("device"), int(sample.value))
"""
"""What a scrape says of each worker."""
NO_BROKER = "redis://127.0.0.1:9/0"
NO_HUB = "http://127.0.0.1:9"
WORKERS = "print(*((w.name, w.ended is not None) for w in Worker.objects.all()))"


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A Hub with a few questions and one with very many."""
    few = place.write_content(tmp_path_factory.mktemp("few"), rows=12)
    many = place.write_content(tmp_path_factory.mktemp("many"), rows=4 * ENDLESS, words=WORDS)
    with serve([few]) as short, serve([many]) as endless:
        yield short, endless


def used_in(said: str) -> int:
    """Bytes in use on the processor, in what a scrape says."""
    values = {(name, device): int(n) for name, device, n in map(str.split, said.splitlines())}
    used = values["plumbline_device_memory_used_bytes", "cpu"]
    assert 0 < used < values["plumbline_device_memory_total_bytes", "cpu"]
    return used


def listing(folder: Path, *cards: str) -> Path:
    """Where a stand-in for nvidia-smi lies that lists these cards."""
    folder.mkdir()
    lines = "".join(f"echo '{card}'\n" for card in cards)
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}")
    (folder / "nvidia-smi").chmod(0o755)
    return folder


def prepared(folder: Path, hub: str, **more: str) -> tuple[dict[str, str], place.Onlooker]:
    """A home with a database and no process on it."""
    tasks = place.write_tasks(folder / "tasks")
    home = folder / "home"
    databases.begin_at(home)
    (home / "secret_key").write_text("of a test")
    variables = place.environment(home, tasks, hub, PLUMBLINE_BROKER_URL=NO_BROKER, **more)
    variables |= {"PLUMBLINE_DEBUG": "1", "DJANGO_SETTINGS_MODULE": "leaderboard.settings"}
    prepare = [sys.executable, "-m", "runners.prepare"]
    subprocess.run(prepare, cwd=place.ROOT, env=variables, check=True, timeout=place.STARTS_WITHIN)
    return variables, place.Onlooker(variables)


def test_it_evaluates_what_waits_and_ends_with_a_database_alone(
    tmp_path: Path, hubs: tuple[str, str]
) -> None:
    variables, onlooker = prepared(tmp_path, hubs[0], PLUMBLINE_METRICS_TOKEN="of this test")
    try:
        onlooker.ask(SUBMIT)
        drained = place.command(variables, "worker", "--drain", "--devices", "cpu")
        assert drained.returncode == 0, drained.stderr
        assert onlooker.ask(STATES) == "done done", drained.stderr
        (name, ended) = eval(onlooker.ask(WORKERS))
        assert name.startswith("evaluate@")
        assert (name.endswith("/cpu"), ended) == (True, True)
        costs = onlooker.ask("print(*RunCost.objects.values_list('tokens', flat=True))")
        tokens = sum(map(int, costs.split()))
        assert tokens > 100
        assert onlooker.ask(TOLD) == f"plumbline_worker_tokens_total None {tokens}"
        assert onlooker.ask("from leaderboard.queue import live_workers as l\nprint(l())") == "[]"
    finally:
        onlooker.end()


def test_it_sweeps_its_own_machine_where_no_chores_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    databases.begin_at(home)
    (home / "secret_key").write_text("of a test")
    work = home / "work" / "11111111-1111-4111-8111-111111111111"
    journal, log = home / "journal" / "7", home / "logs" / "old.log"
    for folder in (work, journal, log.parent):
        folder.mkdir(parents=True)
    log.write_text("of last month")
    for path in (journal, log):
        os.utime(path, (0, 0))
    variables = place.environment(home, tmp_path, NO_HUB, PLUMBLINE_BROKER_URL=NO_BROKER)
    drained = place.command(variables, "worker", "--drain", "--devices", "cpu")
    assert drained.returncode == 0, drained.stderr
    assert [path.name for path in (work, journal, log) if path.exists()] == []


def test_a_gpu_that_the_model_cannot_use_is_not_replaced_by_the_processor(
    tmp_path: Path, hubs: tuple[str, str]
) -> None:
    variables, onlooker = prepared(tmp_path, hubs[0])
    # The driver lists it; torch finds no eighth GPU on any machine that runs tests.
    card = "7, GPU-7, A stand-in, 8000, 0, 8000, 7.5"
    variables["PATH"] = f"{listing(tmp_path / 'bin', card)}:{variables['PATH']}"
    try:
        onlooker.ask(SUBMIT)
        drained = place.command(variables, "worker", "--drain", "--devices", "7")
        assert drained.returncode == 0, drained.stderr
        assert onlooker.ask(STATES) == "queued queued", drained.stderr
        assert "InfraError: --device cuda: this machine does not have it" in drained.stderr
    finally:
        onlooker.end()


def test_it_gives_back_what_it_has_within_ten_seconds(
    tmp_path: Path, hubs: tuple[str, str]
) -> None:
    variables, onlooker = prepared(tmp_path, hubs[1], PLUMBLINE_METRICS_TOKEN="of this test")
    worker = subprocess.Popen(
        [sys.executable, "-m", "runners", "worker", "--until-idle", "--devices", "cpu"],
        cwd=place.ROOT, env=variables, stderr=(tmp_path / "log").open("wb"),
    )  # fmt: skip
    try:
        onlooker.ask(SUBMIT)
        onlooker.wait_for(ANSWERING, lambda said: said != "0", (tmp_path / "log").read_text)
        model = max(descendants.own_memory(one) for one in descendants.living(worker.pid))
        onlooker.wait_for(
            TOLD, lambda said: used_in(said) > 0.8 * model, (tmp_path / "log").read_text
        )
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(10) == 0
        assert onlooker.ask(STATES) == "queued queued"
        assert onlooker.ask("print(*Run.objects.values_list('attempt', flat=True))") == "0 0"
    finally:
        worker.kill()
        worker.wait()
        onlooker.end()


def test_a_machine_with_two_gpus_has_two_workers_that_end_together(
    tmp_path: Path, hubs: tuple[str, str]
) -> None:
    variables, onlooker = prepared(tmp_path, hubs[0])
    cards = (f"{n}, GPU-{n}, A stand-in, {n + 1}000, {n * 100 + 50}, 8000, 7.5" for n in range(2))
    variables["PATH"] = f"{listing(tmp_path / 'bin', *cards)}:{variables['PATH']}"
    log = tmp_path / "log"
    workers = subprocess.Popen(
        [sys.executable, "-m", "runners", "evaluate"],
        cwd=place.ROOT, env=variables, stdout=log.open("wb"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    told = (
        "print(sorted((w.name.partition('/')[2], w.memory_bytes >> 20, w.memory_in_use, w.dtypes,"
        " bool(w.ended))"
        " for w in Worker.objects.all()))"
    )

    def rows(ended: bool) -> str:
        dtypes = ["float32", "float16"]
        in_use = [[[str(n), (n * 100 + 50) * MIB, 8000 * MIB]] for n in range(2)]
        return str([(f"cuda:{n}", (n + 1) * 1000, in_use[n], dtypes, ended) for n in range(2)])

    try:
        place.wait_until(
            lambda: onlooker.ask(told) == rows(False),
            place.STARTS_WITHIN,
            lambda: onlooker.ask(told) + log.read_text(),
        )
        workers.send_signal(signal.SIGTERM)
        assert workers.wait(15) == 0, log.read_text()
        assert onlooker.ask(told) == rows(True)
    finally:
        workers.kill()
        workers.wait()
        onlooker.end()


def test_a_hint_ends_the_wait_and_without_one_it_ends_by_itself() -> None:
    with hints.Hints(threading.Event()) as waiting:
        waiting.wait(0.3)
        began = time.monotonic()
        sender = threading.Timer(0.5, hints.send)
        sender.start()
        waiting.wait(60)
        sender.join()
        assert time.monotonic() - began < 30


def test_a_worker_that_is_asked_to_stop_waits_no_longer() -> None:
    stopping = threading.Event()
    with hints.Hints(stopping) as waiting:
        threading.Timer(0.2, stopping.set).start()
        began = time.monotonic()
        waiting.wait(60)
        assert time.monotonic() - began < 30
