"""A home folder with everything that a process tree needs: tasks, a Hub, models, free ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests import awkward, databases
from tests.services import STARTS_WITHIN, free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
STILL = 120.0
"""Seconds without any move after which work is given up, however long it takes in all."""
MODEL = "awkward/tiny-llama"
NO_BROKER = "redis://127.0.0.1:9/0"
TASK = """\
task: {name}
dataset_path: small/counting
output_type: multiple_choice
training_split: train
test_split: test
fewshot_split: train
process_docs: !function documents.as_they_are
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0, benchmark: counting, style: {style}, chance: 0.25, primary_metric: acc}}
"""
DOCUMENTS = """\
def as_they_are(dataset):
    return dataset.map(lambda doc: {"question": doc["question"]})
"""
SUITE = """\
suite: small
version: 1.0
title: Small
description: One benchmark in two styles.
notice: null
benchmarks:
  - benchmark: counting
    title: Counting
    own: cloze
    shots: 1
    metric: acc
    styles: {cloze: counting, mmlu: counting_mmlu}
"""


STATES = "print(*sorted(Run.objects.values_list('state', flat=True)))"
ATTEMPTS = "print(*Run.objects.order_by('attempt').values_list('attempt', flat=True))"
ANSWERING = "print(Run.objects.filter(phase='evaluate', progress_done__gt=0).count())"
LET_LEASES_RUN_OUT = """
from datetime import timedelta
from django.db.models.functions import Now
Run.objects.filter(state="running").update(lease_until=Now() - timedelta(seconds=1))
"""


def submitting(model: str) -> str:
    """Code for an onlooker, which waits for the Hub where a request would ask again."""
    return (
        "from django.contrib.auth.models import AnonymousUser\n"
        "from leaderboard.submissions import submit\n"
        "from leaderboard.web import background\n"
        "background.PATIENCE_SECONDS = submit.HUB_SECONDS = 300.0\n"
        f"submit.submit({model!r}, user=AnonymousUser())\n"
    )


SUBMIT = submitting(MODEL)


def write_content(folder: Path, rows: int, words: int = 0) -> Path:
    """Models and a data set of `rows` questions, for a Hub to serve.

    Each question begins as no other does and has `words` more words, so that there is much to read.
    """
    awkward.build(folder)
    data = folder / "datasets" / "small" / "counting"
    data.mkdir(parents=True)
    for split, count in (("train", 5), ("test", rows)):
        lines = [
            json.dumps(
                {
                    "question": f"{number}, what comes after it{' and on' * words}?",
                    "choices": [str(number + step) for step in (1, 2, 3, 4)],
                    "answer": 0,
                }
            )
            for number in range(count)
        ]
        (data / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def write_tasks(folder: Path) -> Path:
    (folder / "suites").mkdir(parents=True)
    for name, style in (("counting", "cloze"), ("counting_mmlu", "mmlu")):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, style=style))
    # As most of our tasks do: `datasets` would keep what this makes in its cache.
    (folder / "documents.py").write_text(DOCUMENTS)
    (folder / "suites" / "small.yaml").write_text(SUITE)
    return folder


def environment(home: Path, tasks: Path, hub: str, **more: str) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PLUMBLINE_", "HF_", "DJANGO_"))
    }
    return {
        **kept,
        "OMP_NUM_THREADS": "1",
        "HF_ENDPOINT": hub,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PLUMBLINE_HOME": str(home),
        "PLUMBLINE_TASKS": str(tasks),
        "PLUMBLINE_SUITE": "small",
        "PLUMBLINE_OPEN_SUBMIT": "1",
        "PLUMBLINE_PORT": str(free_port()),
        **more,
    }


def environment_of_site(home: Path, database: str = "") -> dict[str, str]:
    """For a program with the site's settings, a home of its own and this database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_DEBUG": "1",
        "PLUMBLINE_HOME": str(home),
        "PLUMBLINE_DATABASE_URL": database or f"sqlite:///{home / 'db.sqlite3'}",
    }


MOVES = """
print(*Worker.objects.order_by("pk").values_list("pk", "ended"))
runs = Run.objects.order_by("pk")
print(*runs.values_list("state", "phase", "progress_done", "progress_total", "attempt"))
"""
"""What changes while runs are under way, and ends changing: attempts are counted."""


def printed(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """What the command prints; it ends well."""
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def worker_command(*options: str) -> list[str]:
    """Of a worker that evaluates, as engines and operators start it."""
    celery = [sys.executable, "-m", "celery", "--quiet", "--app", "runners"]
    return [*celery, "worker", "--queues", "evaluate", *options]


def finished_worker(variables: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """A worker that has ended by itself."""
    return subprocess.run(
        worker_command(*options),
        cwd=ROOT, env={"PLUMBLINE_DEBUG": "1", **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@dataclass
class Site:
    """A home with a submission that waits; its workers are the test's to start."""

    variables: dict[str, str]
    onlooker: Onlooker
    home: Path

    def ask(self, code: str) -> str:
        return self.onlooker.ask(code)

    def wait_for(self, code: str, happened: Callable[[str], bool]) -> None:
        self.onlooker.wait_for(code, happened, self.log)

    def log(self) -> str:
        """What workers and their children said."""
        return "".join(log.read_text() for log in self.home.glob("**/*log"))

    def add_gpus(self, *cards: str) -> None:
        """Put a stand-in for nvidia-smi on the PATH that lists these cards."""
        folder = self.home.parent / "bin"
        folder.mkdir()
        lines = "".join(f"echo '{card}'\n" for card in cards)
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}")
        (folder / "nvidia-smi").chmod(0o755)
        self.variables["PATH"] = f"{folder}:{self.variables['PATH']}"

    def in_home(self, folder: Path) -> Site:
        """The same site as a machine sees it that has this home, and the same database."""
        key = self.home / "secret_key"
        own = {
            "PLUMBLINE_HOME": str(folder),
            "PLUMBLINE_DATABASE_URL": f"sqlite:///{self.home / 'db.sqlite3'}",
            "PLUMBLINE_SECRET_KEY_FILE": str(key),
        }
        return Site({**self.variables, **own}, self.onlooker, folder)

    def drained(self, devices: str) -> subprocess.CompletedProcess[str]:
        """A worker that ends when nothing waits any more."""
        ended = finished_worker(self.variables, "--drain", "--devices", devices)
        assert ended.returncode == 0, ended.stderr
        return ended

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker with these options, killed if the test does not end it."""
        with (self.home / "worker.log").open("ab") as output:
            process = subprocess.Popen(
                worker_command(*words),
                cwd=ROOT, env=self.variables, stdout=output, stderr=output,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@contextmanager
def site(folder: Path, hub: str, **more: str) -> Iterator[Site]:
    variables, onlooker = prepared(folder, hub, **more)
    try:
        onlooker.ask(SUBMIT)
        yield Site(variables, onlooker, folder / "home")
    finally:
        onlooker.end()


@dataclass
class Tree:
    """A running process tree."""

    process: subprocess.Popen[bytes]
    environment: dict[str, str]
    log: Path
    onlooker: Onlooker

    def part(self, *words: str) -> psutil.Process:
        """The one process below the supervisor whose command line has all these words."""
        found = [
            process
            for process in psutil.Process(self.process.pid).children(recursive=True)
            if set(words) <= set(process.cmdline())
        ]
        assert found, f"no process {words} in the tree:\n{self.log.read_text()[-3000:]}"
        return found[-1]

    def everything(self) -> list[psutil.Process]:
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def ask(self, code: str) -> str:
        """What this code prints in a process with the site's settings."""
        return self.onlooker.ask(code)

    def wait_for_site(self) -> None:
        def is_there() -> bool:
            assert self.process.poll() is None, f"the tree has ended: {self.told()}"
            return "the site is at" in self.log.read_text()

        wait_until(is_there, STARTS_WITHIN, self.told)

    def wait_for(self, code: str, answer: str) -> None:
        """Until this code prints this, for as long as runs move."""
        self.onlooker.wait_for(code, lambda said: said == answer, self.told)

    def wait_for_answers(self) -> None:
        """Until some requests are answered, and with them in the journal, and many are not."""
        self.onlooker.wait_for(ANSWERING, lambda said: said != "0", self.told)
        assert self.ask(STATES) == "running running"

    def ends(self, number: signal.Signals) -> None:
        """Send this signal to the supervisor, and wait until nothing of the tree is left."""
        everything = self.everything()
        self.process.send_signal(number)
        wait_until(lambda: are_gone(everything), STARTS_WITHIN, self.told)

    def told(self) -> str:
        """The end of what it has written."""
        return self.log.read_text()[-5000:]


LOOK = """
import contextlib, io, json, sys, traceback
import django; django.setup()
for line in sys.stdin:
    said, failed = io.StringIO(), ""
    names = {}
    exec("from leaderboard.models import *", names)
    try:
        with contextlib.redirect_stdout(said):
            exec(json.loads(line), names)
    except Exception:
        failed = traceback.format_exc()
    print(json.dumps([said.getvalue().strip(), failed]), flush=True)
"""


class Onlooker:
    """A process beside the tree, with the settings that `python -m runners` gives its own.

    It starts when it is asked first and stays: a process for each question would spend seconds of
    imports on it, while tests ask several times a second.
    """

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self._process: subprocess.Popen[str] | None = None

    def ask(self, code: str) -> str:
        """What the code prints; it knows the site's models and nothing of earlier questions."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(code) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, f"the onlooker ended with {process.wait(STARTS_WITHIN)}"
        said, failed = json.loads(answer)
        assert not failed, failed
        return str(said)

    def wait_for(self, code: str, happened: Callable[[str], bool], told: Callable[[], str]) -> None:
        """Until what the code prints shows that it has happened, for as long as runs move."""
        wait_until(
            lambda: happened(self.ask(code)),
            STILL,
            lambda: f"{self.ask(code)}\n{told()}",
            moving=lambda: self.ask(MOVES),
        )

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            key = Path(self._variables["PLUMBLINE_HOME"]) / "secret_key"
            self._process = subprocess.Popen(
                [sys.executable, "-c", LOOK],
                cwd=ROOT,
                env={
                    **self._variables,
                    "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
                    "PLUMBLINE_SECRET_KEY_FILE": str(key),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._process


def prepared(folder: Path, hub: str, **more: str) -> tuple[dict[str, str], Onlooker]:
    """A home with a database and no process on it, and no broker; tasks that are there stay."""
    tasks, home = folder / "tasks", folder / "home"
    if not tasks.exists():
        write_tasks(tasks)
    databases.begin_at(home)
    (home / "secret_key").write_text("of a test, and long enough for a key that signs sessions")
    variables = environment(home, tasks, hub, **{"PLUMBLINE_BROKER_URL": NO_BROKER, **more})
    variables |= {"PLUMBLINE_DEBUG": "1", "DJANGO_SETTINGS_MODULE": "leaderboard.settings"}
    prepare = [sys.executable, "-m", "runners", "prepare"]
    subprocess.run(prepare, cwd=ROOT, env=variables, check=True)
    return variables, Onlooker(variables)


@contextmanager
def tree(variables: dict[str, str], log: Path) -> Iterator[Tree]:
    """`python -m runners` with this environment; stopped at the end if it still runs."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "runners"],
            cwd=ROOT,
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    onlooker = Onlooker(variables)
    try:
        yield Tree(process, variables, log, onlooker)
    finally:
        onlooker.end()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(STARTS_WITHIN)


def are_gone(processes: list[psutil.Process]) -> bool:
    def is_alive(process: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return False

    return not any(map(is_alive, processes))
