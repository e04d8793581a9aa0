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
from functools import cache
from pathlib import Path
from typing import Any

GARBAGE = [b"\xff\xfe not text", b"[1, 2", b'{"event": "task", "task": 7}', b"[" * 100_000, b"null"]

TASKS = Path(__file__).with_name("tasks")
"""The files of the tasks that it answers."""
QUESTIONS = 20

RECORD = {
    "style": "cloze",
    "primary_metric": "acc",
    "chance": 0.5,
    "limit": None,
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


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


@cache
def key_of(task: str, shots: int = 0) -> str:
    """The key of a run; of a task that is asked nowhere anyone."""
    from evalcore.keys import run_key_of

    if not (TASKS / f"{task}.yaml").is_file():
        return hashlib.sha256(f"{task}/{shots}".encode()).hexdigest()
    return run_key_of(record_of(task, shots))


def spec_of(task: str) -> Any:
    from evalcore.task.library.load import TaskLibrary

    return TaskLibrary([TASKS]).one(task)


def record_of(task: str, shots: int, **fields: Any) -> Any:
    """A record with all that a key is made of."""
    from evalcore.engine import VERSION
    from evalcore.model.base import SCORING_VERSION
    from evalcore.record import RunRecord, SampleFile
    from evalcore.task.identity.digest import config_digest, docs_digest, resolved_config

    spec = spec_of(task)
    given = {
        "task": task,
        "version": "1.0",
        "benchmark": task,
        "shots": shots,
        "shot_rule": "per-document" if shots else "none",
        "shot_seed": 1234 if shots else None,
        "mode": "strict",
        "config_digest": config_digest(spec),
        "docs_digest": docs_digest(sample(task, n)["doc_digest"] for n in range(QUESTIONS)),
        "run_key": "",
        "results": [],
        "samples": SampleFile(file="", sha256="", rows=QUESTIONS),
        "engine": {"name": "evalcore", "version": VERSION, "scoring_version": SCORING_VERSION},
        "model": {},
        "datasets": {
            task: {
                **{"path": "standin/questions", "name": None, "split": "test"},
                **{"commit": "e" * 40, "documents": QUESTIONS},
            }
        },
        "environment": {},
        "requests": {"total": 2 * QUESTIONS, "journalled": 0, "truncated": 0},
        "paths": {},
        "configs": {task: resolved_config(spec)},
    }
    return RunRecord(**{**RECORD, **given, **fields})


def sample(task: str, number: int) -> dict[str, Any]:
    """A question with two choices, of which every second is answered rightly."""
    from evalcore.task.identity.digest import doc_digest

    doc = {"question": f"{number}?", "choices": ["yes", "no"], "answer": number % 2}
    response = {
        "key": f"{number}",
        "kind": "loglikelihood",
        "is_greedy": False,
        "token_ids": [1],
        "n_context_tokens": 3,
        "n_truncated": 0,
        "path": "plain",
    }
    arguments = [
        {"context": doc["question"], "continuation": f" {choice}", "kind": "loglikelihood"}
        for choice in ("yes", "no")
    ]
    score = {"metric": "acc", "filter": "none", "value": float(number % 2 == 0), "item": None}
    return {
        "schema_version": 1,
        "task": task,
        "split": "test",
        **dict.fromkeys(("cluster", "subset", "contaminated")),
        "doc_id": number,
        "doc_digest": doc_digest(doc),
        "doc": json.dumps(doc),
        "shots": [],
        "prompt": doc["question"],
        "choices": doc["choices"],
        "gold": [doc["answer"]],
        "target": f" {doc['choices'][doc['answer']]}",
        "answer": json.dumps(doc["answer"]),
        "choices_are_contexts": False,
        "several_answers": False,
        "pick": 0,
        "correct": score["value"],
        "arguments": arguments,
        "repeats": 1,
        "responses": [
            {**response, "loglikelihood": value, "token_logprobs": [value]}
            for value in (-0.25, -2.0)
        ],
        "filtered": [{"filter": "none", "values": "[[-0.25, false], [-2.0, false]]"}],
        "scores": [score],
    }


def pins() -> dict[str, str]:
    given = dict(pair.split("=", 1) for pair in option("--model_args").split(","))
    return {
        "repository": given["pretrained"], "commit": given["revision"], "dtype": given["dtype"],
    }  # fmt: skip


def results(task: str, number: int = QUESTIONS, **wrong: Any) -> None:
    """Write a record and a sample file as the engine does, and say so."""
    from dataclasses import replace

    from evalcore.building import task_of
    from evalcore.record import write_samples
    from evalcore.score.numbers.aggregate import aggregate
    from evalcore.score.scoring import of_samples
    from evalcore.task.identity.digest import docs_digest

    folder = Path(option("--output_path"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}.parquet"
    shots, mode = int(option("--num_fewshot")), option("--mode")
    asked = [sample(task, place) for place in range(number)]
    spec, key = spec_of(task), key_of(task, shots)
    scored = of_samples(task_of(spec, mode=mode), asked, [], predict_only=False)
    rows, _ = aggregate(spec, [scored], {task: key}, mode=mode, bootstrap_iters=0, seed=1234)
    documents = docs_digest(one["doc_digest"] for one in asked)
    record = record_of(
        task, shots, mode=mode, run_key=key, results=rows, model=pins(), docs_digest=documents
    )
    written = write_samples(path, asked)
    file = folder / f"record_{task}.json"
    replace(record, samples=written, **wrong).write(file)
    say(event="task", task=task, record=str(file), samples=str(path))


WRONG = {
    "text-for-a-number": lambda text: text.replace('"value": 0.5', '"value": "0.5"'),
    "code-of-numbers": lambda text: text.replace('"model": {', '"model": {"code": [1], '),
    "other-samples": lambda text: text.replace('"sha256": "', '"sha256": "f'),
}
"""What no engine writes into its record."""
WRONG_RECORDS = [
    ("text-for-a-number", "value: Input should be a valid number"),
    ("code-of-numbers", "expected str instance"),
    ("other-samples", "SHA-256 of the answers"),
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
    if behaviour == "mute":
        sys.exit(3)
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
        case "nameless-signal":
            os.kill(os.getpid(), 40)
        case name if name in WRONG:
            for task in tasks:
                wrong_results(task, name) if task == "arc" else results(task)
            return
        case "other-version":
            results(tasks[0], run_key="0" * 64)
            return
        case "fewer-questions":
            for task in tasks:
                results(task, QUESTIONS // 2)
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
    elif "--documents" in sys.argv and behaviour != "unknown":
        for task in option("--documents").split(","):
            record = record_of(task, 0)
            say(event="documents", task=task, docs_digest=record.docs_digest, n=QUESTIONS)
    elif behaviour == "unknown":
        fail("ModelError", 10, "the repository does not exist")
    say(event="done")
