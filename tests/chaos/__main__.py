"""`python -m tests.chaos --rounds N`: play rounds and write what happened to a file.

A round whose fault struck nothing does not count and is played again with another model.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.chaos import arena, faults, rounds
from tests.runners import place


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds of faults that have this in their name")
    parser.add_argument("--output", type=Path, default=None)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    rng, missed = Random(given.seed), 0
    counted: list[rounds.Round] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        tasks = place.write_tasks(folder / "tasks")
        folder.chmod(0o755)
        with arena.opened(folder, 2 * given.rounds + 20, tasks) as here:
            kinds = {name: f for name, f in faults.kinds(here).items() if given.only in name}
            for name in faults.NEEDS.keys() - faults.kinds(here).keys():
                sys.stderr.write(f"NOT PLAYED: {name}: it takes {faults.NEEDS[name]}\n")
            expected, _ = rounds.undisturbed(here, 0)
            _, seconds = rounds.undisturbed(here, 1)  # with warm caches
            drawn, number = rounds.schedule(list(kinds), rng), 2
            while len(counted) < given.rounds:
                kind = next(drawn)
                for _ in range(3):
                    played = rounds.play(here, number, kind, kinds[kind], expected, rng, seconds)
                    number += 1
                    sys.stderr.write(f"{json.dumps(rounds.as_json(played))}\n")
                    if played.struck:
                        counted.append(played)
                        break
                    missed += 1
    told = {
        "rounds": len(counted),
        "missed": missed,
        "seed": given.seed,
        "seconds": round(time.monotonic() - began),
        "by_kind": dict(sorted(Counter(played.kind for played in counted).items())),
        "attempts": dict(sorted(Counter(played.attempts for played in counted).items())),
        "journalled": sum(played.journalled for played in counted),
    }
    text = json.dumps(told, indent=2)
    sys.stdout.write(f"{text}\n")
    if given.output:
        given.output.write_text(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
