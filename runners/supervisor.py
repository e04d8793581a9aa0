"""Site, workers and beat as one process tree: starts together, logs together, ends together.

A part that dies is started again. However the tree ends, nothing survives: Ctrl-C and SIGTERM stop
every part within seconds, and where the supervisor itself is killed the kernel kills the parts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import Process as Runner
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from honcho import manager
from honcho.manager import Manager
from honcho.process import Popen, Process

from evalcore.sandbox.prctl import die_with_parent, hide_from_peers
from leaderboard import environment as env
from runners.devices import groups
from runners.respawn import PAUSE

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
STOP_SECONDS = 8
"""What does not stop is killed: after so long, which leaves a worker on a busy machine time to give
its runs back, and everything ends within ten seconds. honcho's own five were too few for that."""
LEAVING = 5.0
"""Seconds for the site of a supervisor that was killed to leave its port."""

KILLED_WITHIN, MOST_KILLS = 60.0, 5
"""A part that is killed more than so many times in so many seconds ends the tree."""

CELERY = (sys.executable, "-m", "celery", "--quiet", "--app")

Parts = dict[str, list[str]]
"""The commands of a tree, by the name that stands before their lines in the log."""


class CannotStart(Exception):
    """Something outside stands in the way; the message says what to do."""


@dataclass(frozen=True)
class Ended:
    """Which part ended first and with what status; no part where somebody stopped the tree."""

    part: str | None
    status: int


def main() -> int:
    """`python -m runners`: 0 when somebody stopped it, 1 when it could not start or go on."""
    try:
        home = home_folder(ROOT / "var")
        port, host = env.integer("PLUMBLINE_PORT", 8000), site_host()
        with only_one(home) as announce:
            check_port(port, "PLUMBLINE_PORT", host)
            announce(address(port, host))
            variables = settle(home, port)
            prepare(variables)
            ended = run(parts(), variables)
    except (CannotStart, ImproperlyConfigured) as problem:
        sys.stderr.write(f"plumbline: {problem}\n")
        return 1
    return _status(ended)


def evaluate() -> int:
    """`python -m runners evaluate`: the workers of this machine alone, as in a container."""
    own = workers()
    if len(own) == 1:
        (command,) = own.values()
        os.execv(command[0], command)  # noqa: S606
    return _status(run(_again(own), {**os.environ, "PYTHONUNBUFFERED": "1"}))


def _status(ended: Ended) -> int:
    if ended.part is not None:
        sys.stderr.write(
            f"plumbline: everything was stopped, because {ended.part!r} ended by itself "
            f"with status {ended.status}; its last lines are above\n"
        )
        return 1
    return 0


def address(port: int, host: str = HOST) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def site_host() -> str:
    """The address that the site listens on. Raises ImproperlyConfigured for what is none."""
    return env.address("PLUMBLINE_BIND", HOST)


def home_folder(default: Path) -> Path:
    """PLUMBLINE_HOME; made for this user alone where it is not there yet."""
    home = Path(env.text("PLUMBLINE_HOME", str(default))).resolve()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotStart(f"PLUMBLINE_HOME={home}: {problem.strerror}") from problem
    return home


@contextmanager
def only_one(home: Path) -> Iterator[Callable[[str], None]]:
    """Hold the lock of this home folder; what it yields writes our address for others to read.

    Raises CannotStart where another tree holds the lock.
    """
    with (home / "supervisor.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            where = lock.read().strip() or "an address that it has not told yet"
            raise CannotStart(
                f"already running at {where} with its files in {home}; "
                "stop it first, or set PLUMBLINE_HOME to another folder"
            ) from None
        lock.truncate(0)

        def announce(where: str) -> None:
            lock.write(where)
            lock.flush()

        yield announce


def is_free(port: int, host: str = HOST) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            if problem.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            if problem.errno == errno.EADDRNOTAVAIL:
                raise CannotStart(
                    f"PLUMBLINE_BIND={host}: this machine has no such address: set it to one that "
                    "it has, or to 0.0.0.0 for all of them"
                ) from None
            raise
    return True


def check_port(port: int, variable: str, host: str = HOST) -> None:
    """Raises CannotStart where somebody has the port, and keeps it.

    A site whose supervisor was killed notices it within seconds, and holds its port until then.
    """
    until = monotonic() + LEAVING
    while not (free := is_free(port, host)) and monotonic() < until:
        sleep(0.1)
    if not free:
        raise CannotStart(
            f"port {port} is taken: stop what listens there, or set {variable} to another port"
        )


def settle(home: Path, port: int) -> dict[str, str]:
    """The environment of the parts; makes the site's secret key where none was given."""
    variables = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_HOME": str(home),
        "PLUMBLINE_PORT": str(port),
        "PYTHONUNBUFFERED": "1",
    }
    variables.setdefault("HF_HOME", str(home / "hf"))
    if not {"PLUMBLINE_SECRET_KEY", "PLUMBLINE_SECRET_KEY_FILE"} & variables.keys():
        _keep_secret_key(home / "secret_key")
    return variables


def _keep_secret_key(file: Path) -> None:
    """Make the key where there is none; every program that is told the same home finds it there."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as key:
        key.write(secrets.token_urlsafe(64))


def prepare(variables: Mapping[str, str]) -> None:
    """Bring the database, the task tables and the static files up to date."""
    command = [sys.executable, "-m", "runners.prepare"]
    if subprocess.run(command, env=dict(variables), cwd=ROOT, check=False).returncode:
        raise CannotStart("the database or the files could not be prepared; the reason is above")


def parts() -> Parts:
    """What the tree runs: each part begins again when it dies."""
    return _again({**commands(), **workers()})


def _again(commands: Parts) -> Parts:
    again = [sys.executable, "-m", "runners.respawn"]
    return {name: [*again, *command] for name, command in commands.items()}


def workers() -> Parts:
    """Those of this machine that evaluate, one for each of its devices."""
    worker = [*CELERY, "runners", "worker", "--queues", "evaluate", "--loglevel", "WARNING"]
    worker += ["--without-gossip", "--without-mingle", "--devices"]
    devices = groups()
    if len(devices) == 1:
        return {"evaluate": [*worker, *devices]}
    return {f"evaluate-{device}": [*worker, device] for device in devices}


def commands() -> Parts:
    """Of all parts that do not evaluate."""
    celery = [*CELERY, "runners"]
    worker = [*celery, "worker", "--pool", "solo", "--loglevel", "WARNING"]
    worker += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    beat = [*celery, "beat", "--loglevel", "WARNING"]
    beat += ["--scheduler", "runners.celery:ChoreScheduler"]
    return {
        "site": [
            sys.executable,
            "-m",
            "gunicorn",
            "--config",
            "python:leaderboard.gunicorn_config",
        ],
        "chores": [*worker, "--queues", "chores", "--hostname", "chores@%h"],
        # The board of thousands of models takes minutes: nothing else may wait behind it.
        "boards": [*worker, "--queues", "boards", "--hostname", "boards@%h"],
        "beat": beat,
    }


def run(commands: Parts, variables: Mapping[str, str]) -> Ended:
    """Run all commands until one ends or somebody stops us, and then end the others."""
    hide_from_peers()
    manager.KILL_WAIT = STOP_SECONDS
    tree = Tree()
    for name, command in commands.items():
        tree.add_process(name, f"exec {shlex.join(command)}", env=dict(variables), cwd=str(ROOT))
    tree.loop()
    return Ended(tree.ended_first, int(tree.returncode or 0))


class TiedProcess(Process):  # type: ignore[misc]
    """A part that the kernel kills when the supervisor is gone, as it does honcho's own process."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._child_ctor = partial(Popen, preexec_fn=die_with_parent)

    def run(self, *arguments: Any) -> None:
        die_with_parent()
        super().run(*arguments)


class Tree(Manager):  # type: ignore[misc]
    """honcho's manager, which here also stops well while it starts and kills what does not stop.

    And a part that was killed begins again; one that ends by itself ends the tree.

    Its own `terminate` fails before all processes have started, and it counts the seconds until
    it kills from the first process that has ended, so that it waits for ever if none does.
    """

    returncode: int | None

    def __init__(self) -> None:
        super().__init__()
        self._process_ctor = TiedProcess
        self._stopping = False
        self._killed: dict[str, list[float]] = {}
        self.ended_first: str | None = None

    def terminate(self) -> None:
        self._stopping = True
        if self._all_started():
            super().terminate()

    def _all_stopped(self) -> bool:
        """Not where a part that was killed is about to begin again, though it is the only one."""
        ends = map(_end_of, self._processes.values())
        return self._stopping and all(status is not None for status in ends)

    def _any_stopped(self) -> bool:
        for name, process in self._processes.items():
            if self._stopping:
                break
            status = _end_of(process)
            if status is not None and status < 0 and self._may_begin_again(name):
                self._begin_again(name, process, status)
            elif status is not None:
                self.ended_first = name
                self._stopping = True
        return self._stopping

    def _may_begin_again(self, name: str) -> bool:
        """Unless it was killed again and again just after its start."""
        now = monotonic()
        recent = [at for at in self._killed.get(name, []) if now - at < KILLED_WITHIN]
        self._killed[name] = [*recent, now]
        return len(recent) < MOST_KILLS

    def _begin_again(self, name: str, process: dict[str, Any], status: int) -> None:
        """A part that somebody killed with what starts it again: kill -9, or out of memory."""
        self._system_print(f"{name} was killed (rc={status}); starting it again\n")
        if self.returncode == status:
            self.returncode = None
        sleep(PAUSE)
        if self._stopping:
            return
        for known in ("pid", "returncode"):
            process.pop(known, None)
        process["process"] = Runner(name=name, target=process["obj"].run, args=(self.events, True))
        process["process"].start()


def _end_of(process: dict[str, Any]) -> int | None:
    """How a part ended, negative where it was killed; None while it runs.

    honcho's own process tells it, unless that one was killed.
    """
    if (told := process.get("returncode")) is not None:
        return int(told)
    status: int | None = process["process"].exitcode
    return status if status is not None and status < 0 else None
