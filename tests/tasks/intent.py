"""Which of our tasks ask as lm-evaluation-harness's own tasks do, and where they differ and why.

`tests/tasks/intents/<folder>.yaml` lists, for each benchmark that both have, `ours`, `theirs`, the
`shots` and, where the requests differ on purpose, `differs` with the reason. Both task files are
rendered by evalcore, which asks as lm-evaluation-harness does.

`python -m tests.tasks.intent [--data real|own] [FOLDER ...]` prints what is not as listed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from tests import warm
from tests.hub import ROOT, client_environment, serve
from tests.tasks.data import merged

TIMEOUT = 560
LISTS = Path(__file__).parent / "intents"


@dataclass(frozen=True)
class Intent:
    """One pair of tasks with the same intent."""

    ours: str
    theirs: str
    shots: int = 0
    differs: str | None = None

    def __str__(self) -> str:
        return f"{self.ours} as lm-eval's {self.theirs}, {self.shots}-shot"


def listed(folders: Sequence[str] = ()) -> list[Intent]:
    """All pairs of these lists, by default of all."""
    files = sorted(LISTS.glob("*.yaml"))
    return [
        Intent(**entry)
        for file in files
        if not folders or file.stem in folders
        for entry in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


def problems(intents: Sequence[Intent], place: Path, *, real: bool) -> Iterator[str]:
    """Pairs that differ and should not, and that are the same though listed as different."""
    asked = json.dumps([[intent.ours, intent.theirs, intent.shots] for intent in intents])
    with serve([merged(place / "hub", real=real)]) as url:
        done = warm.run(
            ["-m", "tests.parity.command", "tests.tasks.rendered"],
            cwd=ROOT,
            env=client_environment(url, place / "home", PYTHONPATH=str(ROOT)),
            input=asked,
            timeout=TIMEOUT,
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    for intent, (ours, theirs) in zip(intents, json.loads(done.stdout), strict=True):
        if reason := _problem(intent, ours, theirs):
            yield f"{intent}: {reason}"


def _problem(intent: Intent, ours: Any, theirs: Any) -> str | None:
    for side, said in (("ours", ours), ("theirs", theirs)):
        if isinstance(said, str) and (side == "ours" or not intent.differs):
            return f"{side} fails: {said}"
    if intent.differs:
        return "listed as different, but the requests are the same" if ours == theirs else None
    for number, (one, other) in enumerate(zip_longest(ours, theirs)):
        if one != other:
            return f"document {number}:\n  ours   {one!r:.1500}\n  theirs {other!r:.1500}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--data", choices=["real", "own"], default="real")
    options = parser.parse_args()
    intents = listed(options.folders)
    with tempfile.TemporaryDirectory() as place:
        found = list(problems(intents, Path(place), real=options.data == "real"))
    for problem in found:
        sys.stdout.write(f"{problem}\n")
    sys.stdout.write(f"{len(intents) - len(found)} of {len(intents)} are as listed\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
