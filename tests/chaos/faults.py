"""What goes wrong with workers, database, disk, network and Hub, one kind a function.

Each strikes while a model is evaluated, and heals.

A function answers in words what it struck, or None where there was nothing to strike just then.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from random import Random
from typing import Any

import psutil

from evalcore.sandbox.confinement import BOOT
from tests.chaos.arena import FAR_WORKER, Arena
from tests.chaos.clock import Clock
from tests.hub import get_json, set_faults
from tests.runners import place

Strike = Callable[[Arena, str, Random], str | None]
WRONG = "wrong"
"""The worker whose clock is."""
RELIEF = "relief"
"""The worker that takes over where there is no second."""
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
    alone = len(arena.living()) == 1
    process.send_signal(signal.SIGSTOP)
    try:
        if not arena.let_leases_run_out(name):
            return None
        if alone:
            arena.start_worker(RELIEF)
        _wait_for_another(arena, model, name)
        time.sleep(rng.uniform(0, 5))
    finally:
        process.send_signal(signal.SIGCONT)
        if alone and RELIEF in arena.workers:
            arena.wait_until(lambda: not unfinished(arena, model), model)
            arena.end_worker(RELIEF)
    return f"{name}, of which others took the runs"


def _wait_for_another(arena: Arena, model: str, name: str) -> None:
    place.wait_until(
        lambda: all(run["worker"] != name or run["state"] == "done" for run in arena.runs(model)),
        180,
        lambda: f"nobody took the runs of {name}: {arena.runs(model)}\n{arena.told()}",
    )


def asking_to_stop(number: signal.Signals) -> Strike:
    def worker_asked_to_stop(arena: Arena, model: str, rng: Random) -> str | None:
        if (found := holder(arena, model)) is None:
            return None
        name, process = found
        began = time.monotonic()
        process.send_signal(number)
        left = living([process])
        assert not left, f"{name} has not ended after {number.name}"
        seconds = time.monotonic() - began
        still = [run for run in held(arena, model) if run["worker"] == name and run["attempt"] > 1]
        assert not still, f"{name} was stopped, and its runs are charged: {still}"
        return f"{name} ended {seconds:.1f} s after {number.name}"

    return worker_asked_to_stop


def postgresql_restarted(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model) or arena.postgresql is None:
        return None
    arena.postgresql.restart()
    arena.onlooker.end()
    arena.onlooker = place.Onlooker(arena.variables)
    return "PostgreSQL stopped at once and started"


def connections_cut(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model) or arena.postgresql is None:
        return None
    arena.onlooker.end()
    arena.onlooker = place.Onlooker(arena.variables)
    cut = [arena.postgresql.cut_connections() for _ in range(rng.randint(1, 3))]
    return f"{sum(cut)} connections" if sum(cut) else None


def database_locked(arena: Arena, model: str, rng: Random) -> str | None:
    """Nobody can write into SQLite, for less and for more than a worker waits at once."""
    if not held(arena, model):
        return None
    seconds = rng.uniform(3, 30)
    database = sqlite3.connect(arena.home / "db.sqlite3", timeout=60, isolation_level=None)
    with closing(database):
        database.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
    return f"the database was locked for {seconds:.0f} s"


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
        arena.start_worker(WRONG, before=tuple(Clock(arena.folder, hours).before()))
        try:
            arena.wait_until(lambda: not unfinished(arena, model), model)
            name = arena.name_of(WRONG)
            took = any(run["worker"] == name for run in arena.runs(model))
        finally:
            arena.end_worker(WRONG)
        return f"the runs were evaluated {hours:+} hours from now" if took else None

    return clock_moved


def setting_the_clock(hours: int) -> Strike:
    def clock_set(arena: Arena, model: str, rng: Random) -> str | None:
        """That of the whole machine, while it computes; and right again at the end."""
        if not held(arena, model) or arena.clock is None:
            return None
        arena.clock.set(hours)
        try:
            arena.wait_until(lambda: not unfinished(arena, model), model)
            told = float(arena.ask("import time; print(time.time())"))
        finally:
            arena.clock.set(0)
        moved = (told - time.time()) / 3600
        assert abs(moved - hours) < 0.1, f"the clock was {moved} hours ahead"
        return f"the machine's clock was moved by {moved:+.1f} hours"

    return clock_set


def let_go(arena: Arena, told: list[str | None]) -> None:
    for worker in told:
        order(arena, "resume", worker)


def order(arena: Arena, given: str, worker: str | None = None) -> None:
    """As `manage.py pool` gives it; without a worker's name to all, also those to come."""
    whom = f", worker={worker!r}" if worker else ""
    call = f"call_command('pool', {given!r}{whom})"
    arena.ask(f"from django.core.management import call_command; {call}")


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
        order(arena, "resume")
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
