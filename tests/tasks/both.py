"""Our task files through lm-evaluation-harness and through evalcore: what differs.

`python -m tests.tasks.both [--data real|own] [--limit N] [--shots K ...] NAME ...` prints one line
for each name and setting, and every difference.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hub import ROOT, serve
from tests.parity.both import AT_ONCE, Pair, run_both
from tests.parity.orders import Order, Setting
from tests.tasks.data import merged
from tests.tasks.exported import export_to

TASKS = str(ROOT / "tasks")


def pairs_of(
    names: list[str],
    place: Path,
    exported: Path,
    index: Path,
    *,
    real: bool,
    shots: list[int],
    limit: int,
) -> list[Pair]:
    """What both engines say of each name, at each number of shots, told the same responses.

    `exported` has our tasks as lm-evaluation-harness loads them, `index` keeps what it knows of
    them.
    """
    settings = tuple(Setting(name=f"{k}-shot", num_fewshot=k, limit=limit) for k in shots)
    orders = [
        Order(
            names=tuple(names[shard::AT_ONCE]),
            settings=settings,
            folders=(TASKS,),
            exported=(str(exported),),
            lm_evals_own=False,
        )
        for shard in range(min(AT_ONCE, len(names)))
    ]
    with serve([merged(place / "hub", real=real)]) as url:
        return run_both(url, place / "home", place / "work", {"tasks": orders}, index)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+")
    parser.add_argument("--data", choices=["real", "own"], default="real")
    parser.add_argument("--limit", type=int, default=6)
    parser.add_argument("--shots", type=int, nargs="+", default=[0, 2])
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        found = pairs_of(
            options.names,
            Path(place),
            export_to(Path(place) / "exported"),
            Path(place) / "index",
            real=options.data == "real",
            shots=options.shots,
            limit=options.limit,
        )
        for pair in found:
            wrong += _tell(pair)
    return 1 if wrong else 0


def _tell(pair: Pair) -> bool:
    compared = pair.compared
    if compared is None:
        sys.stdout.write(
            f"FAILED  {pair}\n  ours:   {pair.ours.get('failed', 'ran')}\n"
            f"  theirs: {pair.theirs.get('failed', 'ran')}\n"
        )
        return True
    verdict = "DIFFERS" if compared.differences else "equal  "
    sys.stdout.write(
        f"{verdict} {pair}: {compared.documents} documents, {compared.requests} requests, "
        f"{compared.numbers} numbers\n"
    )
    for difference in compared.differences[:6]:
        sys.stdout.write(f"  {difference}\n")
    for failure in pair.ours["failures"]:
        sys.stdout.write(f"  not scored: {failure}\n")
    return bool(compared.differences or pair.ours["failures"])


if __name__ == "__main__":
    sys.exit(main())
