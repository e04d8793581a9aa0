"""A program that speaks the engine's protocol and behaves as the model's name says.

Tests put it where the worker starts the engine, so that it is given the same command line. It
answers `standin/<behaviour>`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

GARBAGE = [b"\xff\xfe not text", b"[1, 2", b'{"event": "task", "task": 7}', b"[" * 100_000, b"null"]

RECORD = {
    "style": "cloze",
    "primary_metric": "acc",
    "chance": 0.25,
    "shot_rule": "none",
    "shot_seed": None,
    "limit": None,
    "config_digest": "c" * 64,
    "docs_digest": "d" * 64,
    "settings": {},
    "started": "2026-11-01T00:00:00+00:00",
    "seconds": 1.0,
}
ROW = {
    "subset": "",
    "metric": "acc",
    "filter": "none",
    "value": 0.5,
    "interval": "normal",
    "higher_is_better": True,
}
SAMPLE = {"doc_digest": "d" * 64, "scores": [{"metric": "acc", "filter": "none", "value": 0.5}]}


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def key_of(task: str, shots: int = 0) -> str:
    """The key of a run."""
    return hashlib.sha256(f"{task}/{shots}".encode()).hexdigest()


def pins() -> dict[str, str]:
    given = dict(pair.split("=", 1) for pair in option("--model_args").split(","))
    return {
        "repository": given["pretrained"], "commit": given["revision"], "dtype": given["dtype"],
    }  # fmt: skip


def results(task: str, **wrong: Any) -> None:
    """Write a record and a sample file as the engine does, and say so."""
    from evalcore.engine import VERSION
    from evalcore.record import ResultRow, RunRecord, write_samples

    folder = Path(option("--output_path"))
    folder.mkdir(parents=True, exist_ok=True)
    samples = folder / f"samples_{task}.parquet"
    file = write_samples(samples, ({**SAMPLE, "task": task, "doc_id": n} for n in range(20)))
    shots = int(option("--num_fewshot"))
    key = key_of(task, shots)
    compared = hashlib.sha256(key.encode()).hexdigest()
    row = ResultRow(
        **ROW, task=task, stderr=0.1, low=0.3, high=0.7, n=20, comparability_key=compared
    )
    fields = {
        "task": task, "version": "1.0", "benchmark": task, "shots": shots,
        "mode": option("--mode"), "run_key": key, "results": [row], "samples": file,
        "engine": {"version": VERSION}, "model": pins(), "datasets": {task: {"commit": "e" * 40}},
        "environment": {}, "requests": {}, "paths": {},
    }  # fmt: skip
    record = folder / f"record_{task}.json"
    RunRecord(**{**RECORD, **fields, **wrong}).write(record)
    say(event="task", task=task, record=str(record), samples=str(samples))


WRONG = {
    "text-for-a-number": lambda text: text.replace('"value": 0.5', '"value": "0.5"'),
    "code-of-numbers": lambda text: text.replace('"model": {', '"model": {"code": [1], '),
    "other-samples": lambda text: text.replace('"sha256": "', '"sha256": "f'),
}
"""What no engine writes into its record."""
WRONG_RECORDS = [
    ("text-for-a-number", "value: Input should be a valid number"),
    ("code-of-numbers", "expected str instance"),
    ("other-samples", "the sample file is not the one that its record describes"),
]
"""By the behaviour that writes it what the worker says of it."""


def wrong_results(task: str, name: str) -> None:
    said, sys.stdout = sys.stdout, io.StringIO()
    results(task)
    said, sys.stdout = sys.stdout, said
    record = Path(option("--output_path"), f"record_{task}.json")
    before = record.read_text()
    record.write_text(after := WRONG[name](before))
    assert after != before
    sys.stdout.write(said.getvalue())
    sys.stdout.flush()


def fail(error_class: str, status: int, message: str, **more: Any) -> None:
    say(event="error", **{"class": error_class}, message=message, **more)
    sys.exit(status)


def wait_for_ever() -> None:
    while True:
        time.sleep(0.1)


def dig(place: Path) -> None:
    """Deeper than Python calls itself, with names that no path has room for."""
    before = Path.cwd()
    os.chdir(place)
    for _ in range(1500):
        Path("x" * 100).mkdir()
        os.chdir("x" * 100)
    Path("treasure").write_text("nobody finds it")
    os.chdir(before)


def evaluate(behaviour: str, tasks: list[str]) -> None:
    say(event="phase", phase="load")
    if behaviour == "killer-as-it-loads" and "mmlu" in tasks:
        os.kill(os.getpid(), signal.SIGKILL)
    say(event="phase", phase="evaluate")
    match behaviour:
        case "slow":
            slowly(tasks)
            return
        case "polite":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
            wait_for_ever()
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            wait_for_ever()
        case "garbage":
            for line in GARBAGE:
                sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.write(b"x" * 300_000 + b"\n")
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hungry":
            held = bytearray(os.urandom(1024)) * (300 * 1024)
            wait_for_ever()
            del held
        case "talker":
            while True:
                sys.stdout.write("x" * 10_000 + "\n")
        case "complainer":
            while True:
                sys.stderr.write("x" * 10_000 + "\n")
                time.sleep(0.0005)  # else it fills a disk in memory before the worker looks
        case "hoarder":
            for number in range(10):
                Path(os.environ["TMPDIR"], str(number)).write_bytes(b"x" * 2**20)
            wait_for_ever()
        case "collector":
            for number in range(100):
                Path(os.environ["TMPDIR"], str(number)).mkdir()
            wait_for_ever()
        case "digger":
            dig(Path(os.environ["TMPDIR"]))
            wait_for_ever()
        case "digger-that-ends":
            dig(Path(os.environ["TMPDIR"]))
            dig(Path(option("--use_cache")))
            fail("ModelError", 10, "its weights are spoilt")
        case "chatty-failure":
            token = "hf_" + "a" * 20
            sys.stderr.write(f"Loading from {os.environ['HF_HOME']} with {token}\n\x1b[31mred\n")
            fail("ModelError", 10, f"no tokenizer in {os.environ['HF_HOME']}/x")
        case "guilty-task":
            if "mmlu" in tasks:
                fail("TaskError", 11, "the data set has no such column")
        case "weak-at-mmlu":
            if "mmlu" in tasks:
                fail("ModelError", 10, "its window is too short", task="mmlu")
        case "infra":
            fail("InfraError", 12, "the disk is full")
        case "disk-full":
            fail("InfraError", 13, "the journal cannot be written")
        case "says-that-it-was-stopped":
            sys.exit(75)
        case "mute":
            sys.exit(3)
        case "nameless-signal":
            os.kill(os.getpid(), 40)
        case name if name in WRONG:
            for task in tasks:
                wrong_results(task, name) if task == "arc" else results(task)
            return
        case "other-version":
            results(tasks[0], run_key="0" * 64)
            return
        case "foreign-file":
            results(tasks[0])
            say(event="task", task=tasks[1], record="/etc/passwd", samples="/etc/passwd")
            return
        case "silent-end":
            return
        case "killer":
            for task in tasks:
                say(event="progress", task=task, done=1, total=4)
                if task == "mmlu":
                    os.kill(os.getpid(), signal.SIGKILL)
                results(task)
            return
        case "dawdles-at-arc":
            while tasks[0] == "arc":
                say(event="progress", task="arc", done=1, total=4)
                time.sleep(0.1)
        case "prisoner":
            sys.path.insert(0, option("--use_cache"))
            from escapes import main  # tests/runners/escapes.py, put there by its test

            main(Path(option("--use_cache")))
        case "spy":
            spy()
    for task in tasks:
        results(task)


def slowly(tasks: list[str]) -> None:
    for task in tasks:
        say(event="phase", phase="evaluate")
        for done in range(1, 101):
            say(event="progress", task=task, done=done, total=100)
            time.sleep(0.03)
        results(task)


def spy() -> None:
    """Leave what can be seen of the environment and of the processes above where tests look."""
    pid, above = os.getpid(), {}
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        try:
            above[pid] = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError as refused:
            above[pid] = type(refused).__name__
    seen = {
        "environment": dict(os.environ),
        "above": above,
        "network": Path("/proc/self/net/dev").read_text(),
    }
    folder = Path(option("--use_cache"))
    (folder / "seen.json").write_text(json.dumps(seen))


def wait_for_an_order() -> bool:
    """Take another command line, as the engine does that is told to stay; False at the end."""
    if "--stay" not in sys.argv:
        return False
    say(event="waits")
    if not (order := sys.stdin.readline()):
        return False
    sys.argv[sys.argv.index("evalcore") + 1 :] = json.loads(order)
    return True


def stay(behaviour: str) -> None:
    """Answer one command after the other, and misbehave in the way of its name."""
    loads, said = 0, Path(option("--use_cache"), "processes")
    while True:
        loads += 1
        say(event="phase", phase="load")
        say(event="phase", phase="evaluate")
        print("a remark for the log", file=sys.stderr, flush=True)
        with said.open("a") as file:
            file.write(f"{os.getpid()} {loads}\n")
        if behaviour == "stays-and-breaks" and loads == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "stays-and-lies" and loads == 2:
            say(event="waits")
            wait_for_ever()
        for task in option("--tasks").split(","):
            results(task)
        say(event="done")
        if not wait_for_an_order():
            break


if __name__ == "__main__":
    behaviour = option("--model_args").split(",")[0].rpartition("/")[2]
    if sys.argv[sys.argv.index("evalcore") + 1] == "run":
        if behaviour.startswith("stays"):
            stay(behaviour)
            sys.exit()
        evaluate(behaviour, option("--tasks").split(","))
    elif behaviour == "captive":
        folder = Path(os.environ["HF_HOME"], "hub", "models--standin--captive")
        sys.path.insert(0, str(folder))
        from escapes import main  # put there by its test

        main(folder)
    elif behaviour == "unknown":
        fail("ModelError", 10, "the repository does not exist")
    say(event="done")
