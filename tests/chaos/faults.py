"""What goes wrong, one kind a function: each strikes while a model is evaluated, and heals.

A function answers in words what it struck, or None where there was nothing to strike just then.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import psutil

from evalcore.sandbox.confinement import BOOT
from tests.chaos.arena import FAR_WORKER, Arena
from tests.hub import get_json, set_faults
from tests.runners import place

Strike = Callable[[Arena, str, Random], str | None]
WRONG = "wrong"
"""The worker whose clock is."""
AT_ONCE = 10
"""Workers that race, and more."""
BLOCK = 1 << 16


def held(arena: Arena, model: str) -> list[dict[str, Any]]:
    return [run for run in arena.runs(model) if run["state"] == "running"]


def holder(arena: Arena, model: str) -> tuple[str, psutil.Process] | None:
    """The worker that has the model's runs, by name and process."""
    for run in held(arena, model):
        process = arena.process_of(run["worker"])
        if process is not None:
            return run["worker"], process
    return None


def unfinished(arena: Arena, model: str) -> int:
    return sum(run["state"] in ("queued", "running") for run in arena.runs(model))


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended, however long one waits."""
    return psutil.wait_procs(processes, timeout=place.STARTS_WITHIN)[1]


def worker_killed(arena: Arena, model: str, rng: Random) -> str | None:
    if (found := holder(arena, model)) is None:
        return None
    name, process = found
    below = process.children(recursive=True)
    process.kill()
    left = living(below)
    assert not left, f"a killed worker left {left}"
    return f"{name} with {len(below)} processes, {arena.let_leases_run_out(name)} runs held"


def child_killed(arena: Arena, model: str, rng: Random) -> str | None:
    if (found := holder(arena, model)) is None:
        return None
    for process in found[1].children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "evalcore" in words and BOOT not in words and "unshare" not in words[0]:
            process.kill()
            return f"process {process.pid} of {found[0]}: {words[words.index('evalcore') + 1]}"
    return None


def supervisor_killed(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model) or arena.tree is None:
        return None
    everything = [*psutil.Process(arena.tree.pid).children(recursive=True)]
    workers = {run["worker"] for run in held(arena, model)} - {arena.name_of(FAR_WORKER)}
    arena.tree.kill()
    arena.tree.wait(60)
    left = living(everything)
    assert not left, f"a killed supervisor left {left}"
    for name in workers:
        arena.let_leases_run_out(name)
    arena.start_tree()
    return f"the tree of {len(everything)} processes"


def worker_stopped_beyond_its_lease(arena: Arena, model: str, rng: Random) -> str | None:
    if (found := holder(arena, model)) is None:
        return None
    name, process = found
    process.send_signal(signal.SIGSTOP)
    try:
        if not arena.let_leases_run_out(name):
            return None
        _wait_for_another(arena, model, name)
        time.sleep(rng.uniform(0, 5))
    finally:
        process.send_signal(signal.SIGCONT)
    return f"{name}, of which others took the runs"


def _wait_for_another(arena: Arena, model: str, name: str) -> None:
    place.wait_until(
        lambda: all(run["worker"] != name or run["state"] == "done" for run in arena.runs(model)),
        180,
        lambda: f"nobody took the runs of {name}: {arena.runs(model)}\n{arena.told()}",
    )


def worker_asked_to_stop(arena: Arena, model: str, rng: Random) -> str | None:
    if (found := holder(arena, model)) is None:
        return None
    name, process = found
    process.send_signal(signal.SIGTERM)
    left = living([process])
    assert not left, f"{name} has not ended after SIGTERM"
    still = [run for run in held(arena, model) if run["worker"] == name and run["attempt"] > 1]
    assert not still, f"{name} was stopped, and its runs are charged: {still}"
    return name


def redis_flushed(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model):
        return None
    arena.redis.stop()
    time.sleep(rng.uniform(0, 4))
    arena.redis.start()
    return "Redis killed and empty"


def postgresql_restarted(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model):
        return None
    arena.postgresql.restart()
    arena.onlooker.end()
    arena.onlooker = place.Onlooker(arena.variables)
    return "PostgreSQL stopped at once and started"


def connections_cut(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model):
        return None
    arena.onlooker.end()
    arena.onlooker = place.Onlooker(arena.variables)
    cut = [arena.postgresql.cut_connections() for _ in range(rng.randint(1, 3))]
    return f"{sum(cut)} connections" if sum(cut) else None


def disk_full(arena: Arena, model: str, rng: Random) -> str | None:
    if not held(arena, model):
        return None
    ballast = arena.home / "ballast"
    with ballast.open("wb", buffering=0) as file:
        with suppress(OSError):  # others write there, too
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(arena.home).free - BLOCK)
        with suppress(OSError):
            file.seek(0, os.SEEK_END)
            while True:
                file.write(bytes(BLOCK))
    free = shutil.disk_usage(arena.home).free
    time.sleep(rng.uniform(1, 6))
    ballast.unlink()
    return f"{free} bytes were free" if free < BLOCK else None


def disturbing_clock(hours: int) -> Strike:
    def clock_moved(arena: Arena, model: str, rng: Random) -> str | None:
        """By a worker whose clock is wrong, and which alone may take the runs."""
        if not unfinished(arena, model):
            return None
        arena.start_worker(WRONG, before=("faketime", "-f", f"{hours:+}h"), DONT_FAKE_MONOTONIC="1")
        try:
            arena.wait_until(lambda: not unfinished(arena, model), model)
            name = arena.name_of(WRONG)
            took = any(run["worker"] == name for run in arena.runs(model))
        finally:
            arena.end_worker(WRONG)
        return f"the runs were evaluated {hours:+} hours from now" if took else None

    return clock_moved


def hold_back(arena: Arena, kind: str) -> list[str | None]:
    """Have only those take the model that is submitted next whom the fault wants to have it.

    Who was told not to; None is everybody, also those to come.
    """
    told: list[str | None] = []
    if kind.startswith("ten"):
        told = [None]
    elif kind.startswith("clock"):
        told = [name for name in arena.names() if arena.process_of(name)]
    elif kind.startswith("cut off"):
        far = arena.name_of(FAR_WORKER)
        told = [name for name in arena.names() if name != far and arena.process_of(name)]
    for worker in told:
        _order(arena, "drain", worker)
    return told


def let_go(arena: Arena, told: list[str | None]) -> None:
    for worker in told:
        _order(arena, "resume", worker)


def _order(arena: Arena, order: str, worker: str | None = None) -> None:
    """As `manage.py pool` gives it; without a worker's name to all, also those to come."""
    whom = f", worker={worker!r}" if worker else ""
    call = f"call_command('pool', {order!r}{whom})"
    arena.ask(f"from django.core.management import call_command; {call}")


def two_beats(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model):
        return None
    command = [sys.executable, "-m", "celery", "--quiet", "--app", "runners", "beat"]
    command += ["--scheduler", "celery.beat:Scheduler", "--loglevel", "WARNING"]
    with arena.log.open("ab") as output:
        second = subprocess.Popen(
            command, cwd=place.ROOT, env=arena.settings, stdout=output, stderr=output
        )
    try:
        arena.wait_until(lambda: not unfinished(arena, model), model)
        alive = second.poll() is None
    finally:
        second.terminate()
        second.wait(60)
    return "a second beat beside the first" if alive else None


def messages_repeated(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model):
        return None
    times = rng.randint(20, 60)
    code = (
        "from runners.celery import app, send_hint\n"
        f"for _ in range({times}):\n"
        "    send_hint()\n"
        "    for name in ('release_stalled', 'build_boards', 'sweep'):\n"
        "        app.send_task(name, expires=30)\n"
    )
    arena.ask(code)
    return f"each hint {times} times"


def many_workers(arena: Arena, model: str, rng: Random) -> str | None:
    """Nobody takes anything until all are there; then all want the same."""
    if not unfinished(arena, model):
        return None
    racers = [f"racer {number}" for number in range(AT_ONCE)]
    try:
        for racer in racers:
            arena.start_worker(racer)
        place.wait_until(lambda: all(map(arena.name_of, racers)), 600, arena.told)
        waiting = unfinished(arena, model)
        _order(arena, "resume")
        arena.wait_until(lambda: not unfinished(arena, model), model)
    finally:
        for racer in racers:
            arena.end_worker(racer)
    return f"{len(racers)} workers more, when {waiting} runs waited" if waiting else None


def hub_down(arena: Arena, model: str, rng: Random) -> str | None:
    if not _downloads(arena, model):
        return None
    arena.hub.stop()
    time.sleep(rng.uniform(2, 8))
    arena.hub.start()
    return "the Hub was away during the download"


def hub_faulty(**fault: object) -> Strike:
    def strike(arena: Arena, model: str, rng: Random) -> str | None:
        if not _downloads(arena, model):
            return None
        times = rng.randint(1, 6)
        set_faults(arena.faults_of_hub, [{"match": f"*{model}*", "times": times, **fault}])
        try:
            arena.wait_until(lambda: not _downloads(arena, model), model)
            (left,) = get_json(arena.faults_of_hub, "/_faults")
        finally:
            set_faults(arena.faults_of_hub, [])
        used = times - left["times"]
        return f"{used} answers of the Hub: {fault}" if used else None

    return strike


def _downloads(arena: Arena, model: str) -> bool:
    return any(run["phase"] in ("", "download") for run in held(arena, model))


def cut_off_beyond_its_lease(arena: Arena, model: str, rng: Random) -> str | None:
    """The worker in the other network is cut off from everything until others have its runs."""
    far = arena.name_of(FAR_WORKER)
    if far is None or not any(run["worker"] == far for run in held(arena, model)):
        return None
    line = f"link set {arena.namespace}"
    subprocess.run(["ip", *line.split(), "down"], check=True)
    try:
        if not arena.let_leases_run_out(far):
            return None
        let_go(arena, [name for name in arena.names() if name != far])
        _wait_for_another(arena, model, far)
        time.sleep(rng.uniform(0, 5))
    finally:
        subprocess.run(["ip", *line.split(), "up"], check=True)
    return "the far worker, of which others took the runs"


WHILE_IT_ANSWERS = "child killed while it answers"
"""Strikes when there are answers in the journal, which the next child has to take from it."""

ALWAYS: dict[str, Strike] = {
    "worker killed": worker_killed,
    "child killed": child_killed,
    WHILE_IT_ANSWERS: child_killed,
    "supervisor killed": supervisor_killed,
    "worker stopped beyond its lease": worker_stopped_beyond_its_lease,
    "worker asked to stop": worker_asked_to_stop,
    "Redis killed and flushed": redis_flushed,
    "PostgreSQL restarted": postgresql_restarted,
    "connections cut": connections_cut,
    "two beats": two_beats,
    "messages repeated": messages_repeated,
    "ten workers more": many_workers,
    "Hub down": hub_down,
    "Hub slow": hub_faulty(delay=3),
    "Hub says 429": hub_faulty(status=429, retry_after=1),
    "Hub cuts its answers": hub_faulty(truncate=100),
}

AT_THE_BEGINNING = ("Hub", "clock", "ten")
"""Kinds that strike what comes first, or take time to begin."""

NEEDS = {
    "disk full": "root, for a file system of its own",
    "cut off beyond its lease": "root and `ip`, for a network of its own",
    "clock two hours ahead": "the program `faketime`",
    "clock two hours behind": "the program `faketime`",
}
"""What cannot be done everywhere, and what it takes."""


def kinds(arena: Arena) -> dict[str, Strike]:
    """Everything that can be done on this machine, by name."""
    found = dict(ALWAYS)
    if arena.has_own_disk:
        found["disk full"] = disk_full
    if arena.namespace is not None:
        found["cut off beyond its lease"] = cut_off_beyond_its_lease
    if shutil.which("faketime"):
        found["clock two hours ahead"] = disturbing_clock(2)
        found["clock two hours behind"] = disturbing_clock(-2)
    return found
