"""Site, workers and beat as one process tree: starts together, logs together, ends together.

A part that dies is started again. However the tree ends, nothing survives: Ctrl-C and SIGTERM stop
every part within seconds, and where the supervisor itself is killed the kernel kills the parts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep

from django.core.exceptions import ImproperlyConfigured

from evalcore.sandbox.prctl import die_with_parent, hide_from_peers
from leaderboard import environment as env
from runners.devices import groups

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
STOP_SECONDS = 8
"""What does not stop is killed: after so long, which leaves a worker on a busy machine time to give
its runs back, and everything ends within ten seconds."""
LEAVING = 5.0
"""Seconds for the site of a supervisor that was killed to leave its port."""

QUICK, QUICK_ENDS = 10.0, 5
"""A part that ends so many times in a row within so many seconds of its start is given up."""
PAUSE = 1.0
"""Seconds from the end of a part to its next start."""
LOOK_EVERY = 0.2
"""Seconds from one look at which parts live to the next."""
LAST_WORDS = 1.0
"""Seconds after the end for what was still printed to be shown."""
LONGEST_LINE = 64 * 1024

CELERY = (sys.executable, "-m", "celery", "--quiet", "--app")

Parts = dict[str, list[str]]
"""The commands of a tree, by the name that stands before their lines in the log."""


class CannotStart(Exception):
    """Something outside stands in the way; the message says what to do."""


@dataclass(frozen=True)
class Ended:
    """Which part the tree ended with, and its status; no part where somebody stopped the tree."""

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
    return exit_status(ended)


def evaluate() -> int:
    """`python -m runners evaluate`: the workers of this machine alone, as in a container."""
    own = workers()
    if len(own) == 1:
        (command,) = own.values()
        os.execv(command[0], command)  # noqa: S606
    return exit_status(run(own, {**os.environ, "PYTHONUNBUFFERED": "1"}))


def exit_status(ended: Ended) -> int:
    """Of the program; where a part is the reason, a sentence says so."""
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
    command = [sys.executable, "-m", "runners", "prepare"]
    if subprocess.run(command, env=dict(variables), cwd=ROOT, check=False).returncode:
        raise CannotStart("the database or the files could not be prepared; the reason is above")


def parts() -> Parts:
    """What the tree runs."""
    return {**commands(), **workers()}


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


def run(commands: Parts, variables: Mapping[str, str], *, until: str = "") -> Ended:
    """Run all commands until somebody stops us, and then end them.

    One that ends is started again, but for `until`, with which the tree ends.
    """
    hide_from_peers()
    return Tree(commands, variables).run(until)


@dataclass
class Part:
    name: str
    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    """None before its first start, and between its end and its next start."""
    started: float = 0.0
    due: float = 0.0
    """When it is to start."""
    quick_ends: int = 0
    """In a row."""


@dataclass
class Output:
    """Of one process of a part."""

    name: str
    rest: bytes = b""
    """Of a line that is not ended yet."""


class Tree:
    """The parts, each in a session of its own, and what they print, behind their names."""

    def __init__(self, commands: Parts, variables: Mapping[str, str]) -> None:
        self._parts = [Part(name, command) for name, command in commands.items()]
        self._variables = dict(variables)
        self._outputs = selectors.DefaultSelector()
        self._width = max(map(len, commands))
        self._colours = {name: 31 + number % 6 for number, name in enumerate(commands)}

    def run(self, until: str) -> Ended:
        signals: list[int] = []  # no Event: two signals at once could lock each other out
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: signals.append(number))
        ended = Ended(None, 0)
        while not signals and ended.part is None:
            for part in self._parts:
                status = self._attend(part)
                if status is not None and (part.name == until or part.quick_ends == QUICK_ENDS):
                    ended = Ended(part.name, status)
                    break
            self._show(LOOK_EVERY)
        self._stop()
        return ended

    def _attend(self, part: Part) -> int | None:
        """Start a part that is due; the status of one that has just ended, else None."""
        now = monotonic()
        if part.process is None:
            if now >= part.due:
                self._start(part)
            return None
        status = part.process.poll()
        if status is not None:
            self._print(part.name, f"ended with status {status}")
            part.process, part.due = None, now + PAUSE
            part.quick_ends = part.quick_ends + 1 if now - part.started < QUICK else 0
        return status

    def _start(self, part: Part) -> None:
        part.started = monotonic()
        read, write = os.pipe()
        # The tree has one thread, so that code may run between the fork and the command.
        part.process = subprocess.Popen(
            part.command, env=self._variables, cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=write, stderr=write, start_new_session=True, preexec_fn=die_with_parent,
        )  # fmt: skip
        os.close(write)
        self._outputs.register(read, selectors.EVENT_READ, Output(part.name))
        self._print(part.name, f"started (pid={part.process.pid})")

    def _stop(self) -> None:
        """Have all parts end, and kill those that do not."""
        self._signal(signal.SIGTERM)
        until = monotonic() + STOP_SECONDS
        while self._living() and monotonic() < until:
            self._show(LOOK_EVERY)
        self._signal(signal.SIGKILL)
        until = monotonic() + LAST_WORDS
        while self._outputs.get_map() and monotonic() < until:
            self._show(LOOK_EVERY)

    def _living(self) -> list[subprocess.Popen[bytes]]:
        processes = [part.process for part in self._parts if part.process]
        return [process for process in processes if process.poll() is None]

    def _signal(self, number: signal.Signals) -> None:
        for process in self._living():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)

    def _show(self, seconds: float) -> None:
        """Print the lines that came, after waiting so long for the first."""
        for key, _ in self._outputs.select(seconds):
            output: Output = key.data
            chunk = os.read(key.fd, LONGEST_LINE)
            *lines, output.rest = (output.rest + chunk).split(b"\n")
            if output.rest and (not chunk or len(output.rest) > LONGEST_LINE):
                lines.append(output.rest)
                output.rest = b""
            for line in lines:
                self._print(output.name, line.decode(errors="replace"))
            if not chunk:
                self._outputs.unregister(key.fd)
                os.close(key.fd)

    def _print(self, name: str, line: str) -> None:
        start = f"{datetime.now():%H:%M:%S} {name:<{self._width}} | "  # for people
        if sys.stdout.isatty():
            start = f"\033[{self._colours[name]}m{start}\033[0m"
        sys.stdout.write(f"{start}{line.rstrip()}\n")
        sys.stdout.flush()
