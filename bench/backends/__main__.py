"""Runs the backends on the same requests: `python -m bench.backends`, in vLLM's environment.

Each backend works alone in its process. Prints a table, and writes the figures as JSON.
With its output in `docs/benchmarks/` it writes `docs/benchmarks.md` again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.backends import growth, servers
from bench.backends.asking import Order, apart, asks_of, run
from bench.engines import Ask
from bench.page import write_page
from bench.workloads import WORKLOADS

BACKENDS = ("vllm", "hf", "lm_eval", "lm_eval_hf")
"""evalcore's two, and lm-evaluation-harness's of vLLM and of transformers."""

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"

DOCUMENTS = {"arc_25_shot": 12, "mmlu_5_shot": 38, "hellaswag_0_shot": 20, "gsm8k_stops": 24}
ROWS = {"arc_25_shot": 1, "mmlu_5_shot": 4, "hellaswag_0_shot": 4, "gsm8k_stops": 1}
"""Of lm-evaluation-harness's batches on transformers: the fastest of 1, 4, 16 in `make bench`."""
MODEL = growth.SMALLEST
ROUNDS = 3
"""Processes of each backend, by turns, of which the median counts: a single short workload was seen
to take a fifth more or less where the machine had other work."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.backends", description=__doc__)
    parser.add_argument("--output", type=Path, help="file for the figures")
    parser.add_argument("--documents", type=int, help="of every workload")
    parser.add_argument("--only", choices=DOCUMENTS, action="append", help="a workload")
    parser.add_argument(
        "--growth",
        nargs="*",
        metavar="WHAT",
        default=None,
        help="how time grows alone, with documents, texts, shots or model; without: with all",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        report = measured(options, Path(place))
    if options.output:
        if options.output.is_file():  # the figures of what was not measured stay
            report = together(json.loads(options.output.read_text()), report)
        options.output.write_text(json.dumps(report, indent=1) + "\n")
        if options.output.resolve().parent == FOLDER:
            write_page(FOLDER, PAGE)
    print("\n".join([*lines_of(report), *growth.lines_of(report["growth"])]))


def measured(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """All, or the workloads that were named alone, or the growth alone."""
    report: dict[str, Any] = {"model": MODEL.name, "workloads": {}, "growth": {}}
    if options.growth is None:
        names = options.only or list(DOCUMENTS)
        report |= beside_each_other(names, options.documents, work)
    if not options.only:
        wanted = options.growth or [scale.of for scale in growth.scales()]
        for scale in growth.scales():
            if scale.of in wanted:
                report["growth"][scale.of] = growth.grown(scale, work)
    return report


def beside_each_other(names: Sequence[str], documents: int | None, work: Path) -> dict[str, Any]:
    """The workloads by every backend, and by the clients of a server."""
    folder = growth.saved(MODEL, work)
    asks = {
        name: asks_of(WORKLOADS[name].with_documents(documents or DOCUMENTS[name]), work / name)
        for name in names
    }
    order = Order(asks, {name: ROWS[name] for name in names})
    rounds = [
        {backend: run(backend, folder, order, work) for backend in BACKENDS} for _ in range(ROUNDS)
    ]
    found = {backend: median([each[backend] for each in rounds]) for backend in BACKENDS}
    for client in servers.CLIENTS:  # each with a server that has seen nothing
        with servers.started(folder, work / "server.log") as server:
            found[client] = run(client, folder, order, work, server)
    return compared(found, asks)


def together(before: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured now over what was measured before, in the order of the page."""
    workloads = {**before["workloads"], **report["workloads"]}
    grown = {**before.get("growth", {}), **report["growth"]}
    return {
        **before,
        **report,
        "workloads": {name: workloads[name] for name in DOCUMENTS if name in workloads},
        "growth": {scale.of: grown[scale.of] for scale in growth.scales() if scale.of in grown},
    }


def median(runs: Sequence[Any]) -> Any:
    """Of several runs of one backend for each workload that with the median of seconds."""

    def middle(some: Iterable[Any], seconds: Callable[[Any], float]) -> Any:
        return sorted(some, key=seconds)[len(runs) // 2]

    return {
        "start": middle((run["start"] for run in runs), float),
        "workloads": {
            name: middle((run["workloads"][name] for run in runs), lambda one: one["seconds"])
            for name in runs[0]["workloads"]
        },
    }


def compared(found: Mapping[str, Any], asks: Mapping[str, Sequence[Ask]]) -> dict[str, Any]:
    """Seconds, ratios and how far the answers are apart, by workload."""
    rows = {}
    for name in asks:
        ours, theirs = (found[backend]["workloads"][name] for backend in ("vllm", "lm_eval"))
        packed = found["hf"]["workloads"][name]
        rows[name] = {
            "documents": len({ask.document for ask in asks[name]}),
            "requests": len(asks[name]),
            "seconds": {
                backend: found[backend]["workloads"][name]["seconds"] for backend in BACKENDS
            },
            "times_as_fast_as_lm_eval": theirs["seconds"] / ours["seconds"],
            "from_lm_eval": apart(ours["answers"], theirs["answers"]),
            "from_hf": apart(ours["answers"], packed["answers"]),
            "paths": ours["paths"],
            "servers": {
                **servers.compared(found, name),
                "from_lm_eval": apart(
                    *(found[client]["workloads"][name]["answers"] for client in servers.CLIENTS)
                ),
            },
        }
    start = {backend: found[backend]["start"] for backend in BACKENDS}
    return {"start": start, "workloads": rows}


def lines_of(report: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    head = ["workload", "documents", *(f"{name} s" for name in BACKENDS), "× lm_eval", "nats", "≠"]
    head += ["server s", "lm_eval's s", "× lm_eval", "nats", "≠"]
    rows = [head]
    for name, row in report["workloads"].items():
        seconds = [f"{row['seconds'][backend]:.1f}" for backend in BACKENDS]
        of_server = [f"{took:.1f}" for took in row["servers"]["seconds"].values()]
        compared = [cell for of in (row, row["servers"]) for cell in _beside_theirs(of)]
        beside = [*compared[:3], *of_server, *compared[3:]]
        rows.append([name, str(row["documents"]), *seconds, *beside])
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _beside_theirs(row: Mapping[str, Any]) -> list[str]:
    """How many times as fast as lm-evaluation-harness, and how far from its answers."""
    far = row["from_lm_eval"]
    different = str(far["different"] + far["beyond_bound"])
    return [f"{row['times_as_fast_as_lm_eval']:.1f}", f"{far['nats']:.0e}", different]


if __name__ == "__main__":
    main(sys.argv[1:])
