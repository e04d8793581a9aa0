"""What goes wrong with the broker, with messages, and with Celery's own ways to end a task."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from random import Random

import redis

from tests.chaos.arena import Arena
from tests.chaos.faults import held, holder, let_go, order, unfinished
from tests.chaos.servers import Redis
from tests.runners import place

TWIN = "twin"
"""The worker that has the name of another."""
DYING = "dying"
LAST_WORDS = "dies before it claims, at the message"
HINT = "evaluate"

RESTORE = """
from runners.celery import app
with app.connection_for_read() as connection:
    connection.default_channel.qos.restore_visible(interval=1)
"""
"""What every consumer's timer does, now."""
TERMINATE = """
from runners.celery import app
whom = [{name!r}]
with app.connection_for_write() as connection:
    told = app.control.inspect(whom, timeout=5, connection=connection).active() or {{}}
    tasks = [task["id"] for task in told.get({name!r}, [])]
    for task in tasks:
        app.control.terminate(task, destination=whom, connection=connection)
print(*tasks)
"""
GIVEN_BACK = """
print(RunEvent.objects.filter(
    run__variant__hub_model__repo_id={model!r}, state="queued", why__contains="stopped"
).count())
"""


def redis_of(arena: Arena) -> Redis:
    assert arena.redis is not None, "an arena without Redis"
    return arena.redis


def redis_flushed(arena: Arena, model: str, rng: Random) -> str | None:
    if not held(arena, model):
        return None
    redis_of(arena).restart(away=rng.uniform(0, 4))
    return "Redis killed and empty, while runs were computed"


def redis_restarted(arena: Arena, model: str, rng: Random) -> str | None:
    """As `redis_flushed`, with all messages there again, the unacknowledged ones as well."""
    if not held(arena, model):
        return None
    server = redis_of(arena)
    before = server.client().hlen("unacked")
    server.restart(away=rng.uniform(0, 4), keep=True)
    return f"Redis killed and back, {before} messages unacknowledged" if before else None


def redis_hangs(arena: Arena, model: str, rng: Random) -> str | None:
    if not held(arena, model):
        return None
    seconds = rng.uniform(3, 15)
    process = redis_of(arena).server.process
    process.suspend()
    try:
        time.sleep(seconds)
        with suppress(redis.exceptions.TimeoutError):
            redis_of(arena).client().ping()
            return None
    finally:
        process.resume()
    return f"Redis did not answer for {seconds:.0f} s"


def redis_with_a_wrong_clock(arena: Arena, model: str, rng: Random) -> str | None:
    """From the middle of a run to its end; what it held it still has, at another hour."""
    if not held(arena, model):
        return None
    server, hours = redis_of(arena), rng.choice((2, -2))
    server.restart(keep=True, hours=hours)
    try:
        seconds, _ = server.client().time()
        moved = (seconds - time.time()) / 3600
        assert abs(moved - hours) < 0.1, f"Redis's clock is {moved} hours ahead"
        arena.wait_until(lambda: not unfinished(arena, model), model)
    finally:
        server.restart(keep=True)
    return f"Redis's clock was moved by {moved:+.1f} hours"


def message_redelivered(arena: Arena, model: str, rng: Random) -> str | None:
    """As an hour after a worker took it: it is put back while that worker computes its run."""
    before = held(arena, model)
    client = redis_of(arena).client()
    tags = [tag for tag, text in client.hgetall("unacked").items() if _is_hint(text)]
    if not before or not tags:
        return None
    client.zadd("unacked_index", dict.fromkeys(tags, 1.0))
    arena.ask(RESTORE)
    # An idle worker may have it already, under the same tag and with a score of now.
    back = [tag for tag in tags if client.zscore("unacked_index", tag) != 1.0]
    if not back or not held(arena, model):
        return None
    return f"{len(back)} messages delivered again while {len(before)} runs were computed"


def _is_hint(unacknowledged: str) -> bool:
    message, *_ = json.loads(unacknowledged)
    return bool(message["headers"].get("task") == HINT)


def messages_deleted(arena: Arena, model: str, rng: Random) -> str | None:
    """From a broker of files, for some seconds."""
    if not unfinished(arena, model):
        return None
    gone, until = 0, time.monotonic() + rng.uniform(5, 12)
    while time.monotonic() < until:
        for message in (arena.home / "broker" / "messages").glob("*.msg"):
            with suppress(FileNotFoundError):
                message.unlink()
                gone += 1
        time.sleep(0.02)
    return f"{gone} messages deleted" if gone else None


def broker_folder_gone(arena: Arena, model: str, rng: Random) -> str | None:
    if not held(arena, model):
        return None
    folder = arena.home / "broker"
    hidden = folder.rename(folder.with_name("hidden"))
    folder.touch()  # so that nobody makes it anew
    seconds = rng.uniform(2, 12)
    try:
        time.sleep(seconds)
    finally:
        folder.unlink()
        hidden.rename(folder)
    return f"the broker's folder was gone for {seconds:.0f} s"


def dies_before_it_claims(arena: Arena, model: str, rng: Random) -> str | None:
    """Nobody else may take the runs until that worker has its hint, and is dead."""
    if not unfinished(arena, model):
        return None
    others, before = arena.names(), len(arena.log.read_text(errors="replace"))
    arena.start_worker(DYING, app="tests.chaos.dying", again=False)
    status = arena.workers.pop(DYING).wait(place.STARTS_WITHIN)
    assert status == -signal.SIGKILL, f"it ended with {status}\n{arena.told()}"
    log = arena.log.read_text(errors="replace")[before:]
    words = [line for line in log.splitlines() if line.startswith(LAST_WORDS)]
    assert words, f"it had no message\n{arena.told()}"
    states = {(run["state"], run["attempt"]) for run in arena.runs(model)}
    assert states == {("queued", 0)}, f"runs of a worker that never claimed: {states}"
    let_go(arena, [*others])
    return words[-1]


def two_of_one_name(arena: Arena, model: str, rng: Random) -> str | None:
    """As of two containers that were given one host name: the second has a home of its own, and
    finds the site's artifacts and its broker there."""
    if not unfinished(arena, model):
        return None
    home = arena.folder / TWIN
    home.mkdir(exist_ok=True)
    for shared in ("artifacts", "broker"):
        (arena.home / shared).mkdir(exist_ok=True)
        with suppress(FileExistsError):
            (home / shared).symlink_to(arena.home / shared)
    database = arena.variables.get(
        "PLUMBLINE_DATABASE_URL", f"sqlite:///{arena.home / 'db.sqlite3'}"
    )
    arena.start_worker(
        TWIN, PLUMBLINE_HOME=str(home), PLUMBLINE_DATABASE_URL=database, HF_HOME=str(home / "hf")
    )
    try:
        place.wait_until(lambda: bool(arena.name_of(TWIN)), place.STARTS_WITHIN, arena.told)
        name = str(arena.name_of(TWIN))
        count = len(arena.processes_of(name))
        order(arena, "resume")
        arena.wait_until(lambda: not unfinished(arena, model), model)
    finally:
        arena.end_worker(TWIN)
    took = sum(run["worker"] == name for run in arena.runs(model))
    return f"{count} workers called {name}, of {took} runs" if count == 2 and took else None


def task_terminated(arena: Arena, model: str, rng: Random) -> str | None:
    """By `celery -A runners control terminate`, which gives its runs back; the worker lives on."""
    if (found := holder(arena, model)) is None:
        return None
    name, process = found
    try:
        tasks = arena.ask(TERMINATE.format(name=name))
    except AssertionError as problem:
        if "OperationalError" not in str(problem):
            raise
        return None  # a connection of the onlooker's to a Redis that was restarted since
    asked = GIVEN_BACK.format(model=model)
    until = time.monotonic() + place.STARTS_WITHIN
    while tasks and unfinished(arena, model) and time.monotonic() < until:
        if arena.ask(asked) != "0":
            assert process.is_running(), f"{name} ended with its task"
            charged = [run for run in arena.runs(model) if run["attempt"] > 1]
            assert not charged, f"a task was ended, and its runs are charged: {charged}"
            return f"task {tasks} of {name}"
        time.sleep(0.2)
    return None


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


def two_beats(arena: Arena, model: str, rng: Random) -> str | None:
    if not unfinished(arena, model):
        return None
    command = [sys.executable, "-m", "celery", "--quiet", "--app", "runners", "beat"]
    command += ["--scheduler", "runners.celery:ChoreScheduler", "--loglevel", "WARNING"]
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
