"""Where the rounds are played: a Hub of equal models and a site's tree, in one of two settings.

With services: PostgreSQL, Redis and a second worker far away, whose network can be cut where this
machine allows it (it takes root). Embedded: the tree alone, on SQLite and a broker of files. The
files lie in a small file system of their own, which can be filled. Time is moved rather than waited
for: a lease is let run out by its row.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.chaos.clock import Clock, can_be_wrong
from tests.chaos.servers import PostgreSQL, Redis
from tests.runners import place
from tests.runners.place import STARTS_WITHIN
from tests.services import Server

ROWS, WORDS = 700, 20
"""Enough work for a fault to strike in the middle of it, for seconds."""
DISK_BYTES = 1300 << 20
"""More than the gigabyte that a download leaves free."""
LINES = "10.213.{}.{}"
"""Addresses of the lines to workers far away: one number a line, and one an end."""
HERE = "127.0.0.1"
FAR_WORKER = "far"
ALONE = """
import os, sys
from runners import supervisor
supervisor.run({"worker": sys.argv[1:]}, os.environ)
"""
"""Starts a command again whenever it ends, as the tree does."""

STATE = """
import json
of = Run.objects.filter(variant__hub_model__repo_id={model!r}).order_by("task__name")
fields = ("task__name", "state", "phase", "attempt", "progress_done", "worker", "error_message")
print(json.dumps([*of.values(*fields)]))
"""
LET_LEASES_RUN_OUT = """
from datetime import timedelta
from django.db.models.functions import Now
held = Run.objects.filter(state="running", worker_id={worker!r})
print(held.update(lease_until=Now() - timedelta(seconds=1)))
"""
REST_IS_OVER = """
Run.objects.exclude(not_before=None).update(not_before=None)
Worker.objects.exclude(full_until=None).update(full_until=None)
"""


@dataclass
class Arena:
    folder: Path
    home: Path
    postgresql: PostgreSQL | None
    redis: Redis | None
    hub: Server
    variables: dict[str, str]
    namespace: str | None
    has_own_disk: bool
    clock: Clock | None
    """That of everything here, where the arena can set it."""
    onlooker: place.Onlooker
    log: Path
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """Beside those of the tree, by what we call them."""
    tree: subprocess.Popen[bytes] | None = None

    @property
    def faults_of_hub(self) -> str:
        """Where the Hub is told to fail."""
        return f"http://{HERE}:{self.hub.port}"

    @property
    def settings(self) -> dict[str, str]:
        """The environment of a program that has the site's settings."""
        key = str(self.home / "secret_key")
        own = {"DJANGO_SETTINGS_MODULE": "leaderboard.settings", "PLUMBLINE_SECRET_KEY_FILE": key}
        return {**self.variables, **own}

    def ask(self, code: str) -> str:
        return self.onlooker.ask(code)

    def submit(self, model: str) -> None:
        self.ask(place.submitting(model))

    def runs(self, model: str) -> list[dict[str, Any]]:
        return list(json.loads(self.ask(STATE.format(model=model))))

    def wait_until(self, happened: Callable[[], bool], model: str, still: float = 240) -> None:
        """Until it has happened, for as long as something about the model's runs moves."""
        place.wait_until(happened, still, self.told, moving=lambda: self.runs(model))

    def let_leases_run_out(self, worker: str) -> int:
        """As when a minute had passed since this worker renewed them; how many."""
        return int(self.ask(LET_LEASES_RUN_OUT.format(worker=worker)))

    def start_tree(self) -> None:
        with self.log.open("ab") as output:
            self.tree = subprocess.Popen(
                [sys.executable, "-m", "runners"],
                cwd=place.ROOT, env=self.variables, stdout=output, stderr=output,
            )  # fmt: skip

    def start_worker(
        self,
        called: str,
        *,
        far: bool = False,
        before: tuple[str, ...] = (),
        app: str = "runners",
        again: bool = True,
        **more: str,
    ) -> None:
        """One more for the queue; `far`: in a network of its own, `before`: ahead of its command.

        It comes back `again` when it dies, as in the tree.
        """
        enter = ["ip", "netns", "exec", self.namespace] if far and self.namespace else []
        alone = [sys.executable, "-c", ALONE] if again else []
        worker = place.worker_command("--devices", "cpu")
        worker[worker.index("runners")] = app
        command = [*enter, *before, *alone, *worker]
        variables = {**self.settings, "HF_HOME": str(self.home / "hf"), **more}
        with self.log.open("ab") as output:
            self.workers[called] = subprocess.Popen(
                command, cwd=place.ROOT, env=variables,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def end_worker(self, called: str) -> None:
        process = self.workers.pop(called)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)

    def names(self) -> list[str]:
        """Of all workers that ever were, as their rows have them."""
        return self.ask("print(*Worker.objects.values_list('name', flat=True))").split()

    def name_of(self, called: str) -> str | None:
        """Under which name a worker of ours is in the table; None before it is."""
        own = _workers_below(self.workers[called].pid) if called in self.workers else []
        return next((name for name in self.names() if any(_is_named(p, name) for p in own)), None)

    def processes_of(self, name: str) -> list[psutil.Process]:
        """The processes of workers of this name, wherever we started them."""
        roots = [process.pid for process in self.workers.values()]
        roots += [self.tree.pid] if self.tree else []
        found = [worker for root in roots for worker in _workers_below(root)]
        return [worker for worker in found if _is_named(worker, name)]

    def process_of(self, name: str) -> psutil.Process | None:
        return next(iter(self.processes_of(name)), None)

    def living(self) -> list[str]:
        """The names of the workers that live, those with the lowest numbers first."""
        return sorted(filter(self.process_of, self.names()), key=lambda name: (len(name), name))

    def told(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]


def _workers_below(pid: int) -> list[psutil.Process]:
    """Those that evaluate, without what starts them again."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    found = []
    for process in below:
        with suppress(psutil.Error):
            words = process.cmdline()
            if words[1:3] == ["-m", "celery"] and "evaluate" in words:
                found.append(process)
    return found


def _is_named(worker: psutil.Process, name: str) -> bool:
    """Whether it holds the lock of this name, which no two have."""
    lock = re.sub(r"[^\w.+@-]", "_", name) + ".lock"
    try:
        return any(Path(file.path).name == lock for file in worker.open_files())
    except psutil.Error:
        return False


def hub_server(content: Path, host: str) -> Server:
    fixed = (sys.executable, "-m", "demo.hub", str(content))
    # Faults are told to it from 127.0.0.1 alone.
    everywhere = ("--host", "0.0.0.0")
    return Server(lambda port: [*fixed, *everywhere, "--port", str(port)], host, cwd=place.ROOT)


def model_of(number: int) -> str:
    return f"chaos/m{number:04}"


def write_content(folder: Path, models: int) -> Path:
    """One tiny model under many names, and the questions that it is asked."""
    place.write_content(folder, rows=ROWS, words=WORDS)
    one = folder / "models" / place.MODEL
    for number in range(models):
        other = folder / "models" / model_of(number)
        shutil.copytree(
            one, other, copy_function=os.link, ignore=shutil.ignore_patterns(".revisions")
        )
    return folder


@contextmanager
def opened(folder: Path, models: int, tasks: Path, *, embedded: bool = False) -> Iterator[Arena]:
    """Everything started, with room for this many models in turn."""
    with ExitStack() as stack:
        namespace, host = (None, HERE) if embedded else stack.enter_context(_far_network())
        home = folder / "home"
        has_own_disk = stack.enter_context(_own_disk(home))
        postgresql = None if embedded else stack.enter_context(PostgreSQL(host))
        redis = None if embedded else Redis(folder, host)
        clock = Clock(folder / "clock") if embedded and can_be_wrong() else None
        services = clock.variables if clock else {}
        if postgresql and redis:
            stack.enter_context(redis.server)
            services["PLUMBLINE_DATABASE_URL"] = postgresql.url
            services["PLUMBLINE_BROKER_URL"] = redis.url
        content = write_content(folder / "content", models)
        hub = stack.enter_context(hub_server(content, host))
        variables = place.environment(
            home, tasks, f"http://{host}:{hub.port}",
            PLUMBLINE_KEEP_MODEL="3",  # long enough to be struck, and gone when a round is over
            **services,
        )  # fmt: skip
        arena = Arena(
            folder=folder, home=home, postgresql=postgresql, redis=redis, hub=hub,
            variables=variables, namespace=namespace, has_own_disk=has_own_disk, clock=clock,
            onlooker=place.Onlooker(variables), log=folder / "log",
        )  # fmt: skip
        stack.callback(_end, arena)
        arena.start_tree()
        place.wait_until(lambda: "the site is at" in arena.told(), STARTS_WITHIN, arena.told)
        if not embedded:
            arena.start_worker(FAR_WORKER, far=True)
        yield arena


def _end(arena: Arena) -> None:
    for called in list(arena.workers):
        arena.end_worker(called)
    arena.onlooker.end()
    if arena.tree is not None and arena.tree.poll() is None:
        arena.tree.send_signal(signal.SIGTERM)
        arena.tree.wait(60)


@contextmanager
def _far_network() -> Iterator[tuple[str | None, str]]:
    """A network namespace that sees ours over one line, and our end's address.

    Where there can be none: None, and the address of this machine alone. Another's line, and what a
    killed one left, stays as it is.
    """
    name = f"chaos{os.getpid()}"
    with Path(tempfile.gettempdir(), "plumbline-chaos-lines").open("a") as one_at_a_time:
        # Two arenas that begin together would choose the same line, and then lose it to each other.
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        taken = _printed("ip -o addr") if shutil.which("ip") else ""
        line = next(n for n in range(256) if LINES.format(n, "") not in taken)
        near, far = LINES.format(line, 1), LINES.format(line, 2)
        steps = (
            f"ip netns add {name}",
            f"ip link add {name} type veth peer name far netns {name}",
            f"ip addr add {near}/30 dev {name}",
            f"ip link set {name} up",
            f"ip -n {name} addr add {far}/30 dev far",
            f"ip -n {name} link set far up",
            f"ip -n {name} link set lo up",
        )
        can = os.getuid() == 0 and shutil.which("ip") and all(map(_succeeds, steps))
    try:
        yield (name, near) if can else (None, HERE)
    finally:
        if shutil.which("ip"):
            _succeeds(f"ip link del {name}")
            _succeeds(f"ip netns del {name}")


@contextmanager
def _own_disk(home: Path) -> Iterator[bool]:
    home.mkdir()
    size = f"size={DISK_BYTES},mode=0700"
    mounted = os.getuid() == 0 and _succeeds(f"mount -t tmpfs -o {size} chaos {home}")
    try:
        yield mounted
    finally:
        if mounted:
            _succeeds(f"umount -l {home}")


def _succeeds(command: str) -> bool:
    return subprocess.run(command.split(), capture_output=True, check=False).returncode == 0


def _printed(command: str) -> str:
    return subprocess.run(command.split(), capture_output=True, text=True, check=False).stdout
