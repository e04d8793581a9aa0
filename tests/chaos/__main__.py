"""`python -m tests.chaos --rounds N`: play rounds and add what happened to a file.

A round whose fault struck nothing does not count and is played again with another model. The file
has a line for each time that rounds were played, also for one that ended with a broken promise.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos import arena, kinds, rounds
from tests.runners import place

TRIES = 3
"""Rounds of a kind until it has found something to strike."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--embedded", action="store_true", help="on SQLite and a broker of files, by the tree alone"
    )
    parser.add_argument("--only", default="", help="words in the names of kinds, by commas")
    parser.add_argument("--output", type=Path, default=None)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    played: list[rounds.Round] = []
    began, failed = time.monotonic(), ""
    try:
        play(given, played)
    except Exception as problem:
        # The first of a chain: what ends the arena may fail for the same reason.
        first = problem
        while first.__context__ is not None:
            first = first.__context__
        failed = f"{type(first).__name__}: {first}"
        traceback.print_exc()
    finally:
        where = "embedded" if given.embedded else "services"
        told = {"arena": where, "seed": given.seed, "failed": failed[:2000], **summed(played)}
        told |= {"seconds": round(time.monotonic() - began)}
        sys.stdout.write(f"{json.dumps(told, indent=2)}\n")
        if given.output:
            add(told, given.output)
    return int(bool(failed))


def play(given: argparse.Namespace, played: list[rounds.Round]) -> None:
    """Raises AssertionError where a promise is broken; `played` has the rounds before."""
    rng = Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        tasks = place.write_tasks(folder / "tasks")
        folder.chmod(0o755)
        models = 2 * given.rounds + 20
        with arena.opened(folder, models, tasks, embedded=given.embedded) as here:
            strikes = kinds.of(embedded=given.embedded)
            for name in [name for name in strikes if not kinds.can_play(here, name)]:
                sys.stderr.write(f"NOT PLAYED: {name}: it takes {kinds.NEEDS[name]}\n")
                del strikes[name]
            expected, _ = rounds.undisturbed(here, 0)
            _, seconds = rounds.undisturbed(here, 1)  # with warm caches
            words = given.only.split(",")
            wanted = [name for name in strikes if any(word in name for word in words)]
            drawn = rounds.schedule(wanted, rng)
            while sum(bool(each.struck) for each in played) < given.rounds:
                kind = next(drawn)
                for _ in range(TRIES):
                    number = len(played) + 2
                    each = rounds.play(here, number, kind, strikes[kind], expected, rng, seconds)
                    played.append(each)
                    sys.stderr.write(f"{json.dumps(asdict(each))}\n")
                    if each.struck:
                        break


def summed(played: Sequence[rounds.Round]) -> dict[str, Any]:
    counted = [each for each in played if each.struck]
    return {
        "rounds": len(counted),
        "missed": len(played) - len(counted),
        "by_kind": dict(sorted(Counter(each.kind for each in counted).items())),
        "attempts": dict(sorted(Counter(str(each.attempts) for each in counted).items())),
        "journalled": sum(each.journalled for each in counted),
    }


def add(told: dict[str, Any], file: Path) -> None:
    """Behind what the file has already."""
    before = json.loads(file.read_text()) if file.exists() else []
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    now = {"date": datetime.now(UTC).date().isoformat(), "commit": commit.stdout.strip()}
    lines = ",\n".join(json.dumps(each) for each in [*before, {**now, **told}])
    file.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    sys.exit(main())
