"""A round: a model is submitted, something strikes at a random moment, and nothing is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.chaos.arena import REST_IS_OVER, Arena, model_of
from tests.chaos.faults import Strike, let_go
from tests.chaos.kinds import AT_THE_BEGINNING, WHILE_IT_ANSWERS, hold_back
from tests.chaos.messages import TWIN
from tests.runners.place import wait_until

STILL = 300.0
"""Seconds within which a round's runs must move: how long they take is a matter of the machine."""

FOUND = """
import json
from leaderboard.samples import store
NUMBERS = ("metric", "filter", "subset", "value", "stderr", "low", "high", "n")
def requests(run):
    record = run.artifacts.filter(kind="record").first()
    return json.load(store.open(record.sha256))["requests"] if record else {{}}
runs = Run.objects.filter(variant__hub_model__repo_id={model!r}).order_by("task__name")
print(json.dumps([
    {{
        "task": run.task.name,
        "state": run.state,
        "attempt": run.attempt,
        "message": run.error_message,
        "holds": bool(run.lease_token),
        "begun": run.events.filter(state="running").count(),
        "done": run.events.filter(state="done").count(),
        "numbers": [*run.results.order_by("metric", "filter", "subset").values_list(*NUMBERS)],
        "artifacts": sorted(run.artifacts.values_list("kind", "rows")),
        "requests": requests(run),
    }}
    for run in runs
]))
"""
STORE = """
from leaderboard.samples import checking
print(*[f"{fault.file.name}: {fault.wrong}" for fault in checking.faults()])
"""

VARIANT = "print(Variant.objects.get(hub_model__repo_id={model!r}).pk)"
"""After which its journal is named."""
SWEEP = "from runners.celery import app; app.send_task('sweep', expires=30)"


@dataclass(frozen=True)
class Round:
    """What happened; `struck` is empty where the fault found nothing to strike."""

    number: int
    kind: str
    model: str
    struck: str
    after: float
    seconds: float
    attempts: int
    journalled: int


def undisturbed(arena: Arena, number: int) -> tuple[list[Any], float]:
    """Every number of a model that nothing happens to, and the seconds that it takes."""
    model, began = model_of(number), time.monotonic()
    arena.submit(model)
    arena.wait_until(lambda: _have_ended(arena, model), model, STILL)
    found = _found(arena, model)
    assert [run["state"] for run in found] == ["done"] * len(found), found
    return [run["numbers"] for run in found], time.monotonic() - began


def play(
    arena: Arena,
    number: int,
    kind: str,
    strike: Strike,
    expected: list[Any],
    rng: Random,
    of: float,
) -> Round:
    """The round of one model; raises AssertionError where a promise is broken.

    `of`: seconds within which the moment is drawn.
    """
    model, began = model_of(number), time.monotonic()
    early = kind.startswith(AT_THE_BEGINNING) or kind == WHILE_IT_ANSWERS
    moment = rng.uniform(0, of * (0.1 if early else 0.8))
    told = hold_back(arena, kind)
    arena.submit(model)
    struck: str | None = None
    journalled = 0
    try:
        seen, moved = arena.runs(model), began
        while not (ended := _have_ended(arena, model)) and time.monotonic() - moved < STILL:
            if (runs := arena.runs(model)) != seen:
                seen, moved = runs, time.monotonic()
            if struck is None and time.monotonic() - began >= moment:
                before = _journalled(arena, model)
                if before or kind != WHILE_IT_ANSWERS:
                    struck = strike(arena, model, rng)
                    journalled = before if struck else 0
                    # A strike may wait for much itself.
                    moved = time.monotonic() if struck else moved
            # What rests after a failure of ours does so for minutes, in which nothing happens.
            arena.ask(REST_IS_OVER)
            time.sleep(0.2)
    finally:
        let_go(arena, told)
    assert ended, f"{kind}: {model} has not ended: {_found(arena, model)}\n{arena.told()}"
    _check(arena, model, expected, f"{kind} ({struck})", journalled)
    return Round(
        number=number, kind=kind, model=model, struck=struck or "", after=round(moment, 1),
        seconds=round(time.monotonic() - began, 1),
        attempts=max(run["attempt"] for run in arena.runs(model)), journalled=journalled,
    )  # fmt: skip


def _check(arena: Arena, model: str, expected: list[Any], why: str, journalled: int) -> None:
    found = _found(arena, model)
    why = f"{why}: {model}: {json.dumps(found)[:3000]}\n{arena.told()}"
    assert [run["state"] for run in found] == ["done"] * len(found), why
    assert [run["numbers"] for run in found] == expected, f"other numbers: {why}"
    assert all(run["done"] == 1 and not run["holds"] for run in found), why
    kinds = [[kind for kind, _ in run["artifacts"]] for run in found]
    assert kinds == [["record", "samples"]] * len(found), why
    again = sum(run["requests"].get("journalled", 0) for run in found)
    if all(run["begun"] == 1 for run in found):
        journalled = 0  # the process that answered them went on
    assert again >= journalled, f"answered twice ({again} of {journalled} kept): {why}"
    wrong = arena.ask(STORE)
    assert not wrong, f"the store: {wrong}: {why}"
    arena.ask(SWEEP)  # as every minute
    wait_until(lambda: not _left(arena), 120, lambda: f"left over: {_left(arena)}: {why}")


def _journalled(arena: Arena, model: str) -> int:
    """Answers that are safe in a journal, of runs that are all to come."""
    if any(run["state"] == "done" for run in arena.runs(model)):
        return 0  # whose answers lie there as well, and are not asked for again
    lines = 0
    for file in (arena.home / "journal" / arena.ask(VARIANT.format(model=model))).rglob("*.jsonl"):
        with suppress(FileNotFoundError):
            lines += file.read_bytes().count(b"\n")
    return lines


def _left(arena: Arena) -> list[str]:
    """Processes, folders and mounts that nobody needs any more."""
    left = [str(folder) for folder in arena.folder.glob("*/work/*")]
    for process in psutil.process_iter(["cmdline", "environ"]):
        words, home = process.info["cmdline"] or [], (process.info["environ"] or {}).get("HOME", "")
        if "evalcore" in words and home.startswith(str(arena.folder)):
            left.append(f"process {process.pid}: {' '.join(words)[:200]}")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    below = f" {arena.home}/", f" {arena.folder / TWIN}/"
    return left + [mount for mount in mounts if any(one in mount for one in below)]


def _have_ended(arena: Arena, model: str) -> bool:
    states = {run["state"] for run in arena.runs(model)}
    return bool(states) and not states & {"queued", "running"}


def _found(arena: Arena, model: str) -> list[dict[str, Any]]:
    return list(json.loads(arena.ask(FOUND.format(model=model))))


def schedule(kinds: list[str], rng: Random) -> Iterator[str]:
    """Each kind once, in an order of chance, and so on."""
    while True:
        yield from rng.sample(kinds, len(kinds))
