"""The backends' part of the page of results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.workloads import WORKLOADS

FILE = "backends.json"
NOTES = "backends-notes.md"
"""Where the curves bend, and why: written by hand."""

INTRODUCTION = """\
## vLLM and servers

`make bench-backends` asks evalcore's `vllm` and `hf` and lm-evaluation-harness's `vllm` and `hf`
the same requests, in vLLM's environment for processors (`constraints-vllm.txt`), and then, with a
server of vLLM started for each, evalcore's and lm-evaluation-harness's `local-completions`. It
writes `docs/benchmarks/backends.json`, of which this part is made.

- Seconds are CPU time of all threads, each backend alone in a process of its own: the median of
  three such processes by turns; what is behind a server was measured once. Tokenising is in them;
  loading and a first few requests are “start”.
- Texts under vLLM take as many steps and products in both engines, and nearly all of the time is
  in vLLM's own kernels.
- The ratio is lm-evaluation-harness's time over evalcore's on the same engine. Below 1 evalcore
  is the slower one.
- lm-evaluation-harness's backends are at their own defaults, but for eager execution under vLLM,
  8 requests at a time to the server, as evalcore's, and on transformers the rows of a batch (1
  for ARC and GSM8K, 4 for the others).
- |ΔLL| is the largest difference in loglikelihood (nats), “other” counts the answers beyond 0.001
  + 1e-05·|LL| or with another greedy flag or text.
"""

SERVERS = """\
### Servers

CPU seconds are those of client and server together, “client” is the client's share of them. Time by
the clock has its own ratio. For each: lm-evaluation-harness / evalcore."""


GROWTH = """\
### How time grows

The same four engines, one run each, in processes of their own, CPU seconds; the rows of
lm-evaluation-harness's batches on transformers are 4 for documents and texts, 1 else. What would
have taken more than 400 s was not run: “about” is in proportion to the text of the point before.
Rows of the data sets are asked about again under another number where there are too few. “other”
are evalcore's answers that are not lm-evaluation-harness's on the same engine, as above, of those
that were compared."""
HEADS = {
    "documents": "**Documents**",
    "texts": "**Texts to write**",
    "shots": "**Shots**",
    "model": "**Size of the model**, made-up weights",
}


def section(folder: Path) -> str:
    """Empty where the backends were never measured."""
    file = folder / FILE
    if not file.is_file():
        return ""
    return "\n\n".join(_section(json.loads(file.read_text()), folder))


def _section(found: Mapping[str, Any], folder: Path) -> Iterator[str]:
    start, rows = found["start"], found["workloads"]
    yield INTRODUCTION.strip()
    yield (
        f"Model: {found['model']}. Start: evalcore's `vllm` {start['vllm']:.1f} s, its `hf` "
        f"{start['hf']:.1f} s, lm-evaluation-harness's `vllm` {start['lm_eval']:.1f} s, its `hf` "
        f"{start['lm_eval_hf']:.1f} s."
    )
    yield "### vLLM\n\n" + _table(
        [
            *("workload", "documents", "requests", "lm-eval `vllm`", "evalcore `vllm` (path)"),
            *("ratio", "|ΔLL|", "other", "lm-eval `hf`", "evalcore `hf`", "ratio"),
            *("|ΔLL| of evalcore's two", "other"),
        ],
        [_of_vllm(name, row) for name, row in rows.items()],
    )
    yield f"{SERVERS}\n\n" + _table(
        ["workload", "CPU", "ratio", "client", "by the clock", "ratio", "|ΔLL|", "other"],
        [_of_servers(name, row["servers"]) for name, row in rows.items()],
    )
    if found.get("growth"):
        yield GROWTH.strip()
        for of, scale in found["growth"].items():
            yield f"{HEADS[of]}: {scale['title']}.\n\n" + _grown(of, scale)
        notes = folder / NOTES
        if notes.is_file():
            yield notes.read_text().strip()


def _grown(of: str, scale: Mapping[str, Any]) -> str:
    header = [of, "lm-eval `hf`", "evalcore `hf`", "ratio", "lm-eval `vllm`", "evalcore `vllm`"]
    return _table([*header, "ratio", "other"], [_of_point(point) for point in scale["points"]])


def _of_point(point: Mapping[str, Any]) -> list[str]:
    """What was not run is told as about; `other` of as many answers as were compared."""
    seconds, estimated = point["seconds"], point["estimated"]

    def took(engine: str) -> str:
        return f"{'about ' if engine in estimated else ''}{seconds[engine]:,.2f} s"

    cells = []
    for theirs, ours in (("lm_eval_hf", "hf"), ("lm_eval", "vllm")):
        ratio = f"{seconds[theirs] / seconds[ours]:.1f}"
        known = not {theirs, ours} & set(estimated)
        cells += [took(theirs), took(ours), f"**{ratio}**" if known else f"about {ratio}"]
    value = point["value"]
    named = f"{value:,}" if isinstance(value, int) else value
    return [named, *cells, f"{point['other']} of {point['compared']:,}"]


def _of_vllm(name: str, row: Mapping[str, Any]) -> list[str]:
    seconds = row["seconds"]
    paths = ", ".join(f"{path} {count}" for path, count in sorted(row["paths"].items()))
    return [
        *(WORKLOADS[name].title, str(row["documents"]), str(row["requests"])),
        *(f"{seconds['lm_eval']:.2f} s", f"{seconds['vllm']:.2f} s ({paths})"),
        f"**{row['times_as_fast_as_lm_eval']:.1f}**",
        *_apart(row["from_lm_eval"]),
        *(f"{seconds['lm_eval_hf']:.2f} s", f"{seconds['hf']:.2f} s"),
        f"**{seconds['lm_eval_hf'] / seconds['hf']:.1f}**",
        *_apart(row["from_hf"]),
    ]


def _of_servers(name: str, row: Mapping[str, Any]) -> list[str]:
    clock = row["by_the_clock"]
    return [
        WORKLOADS[name].title,
        _both(row["seconds"]),
        f"**{row['times_as_fast_as_lm_eval']:.2f}**",
        _both(row["of_the_client"]),
        _both(clock),
        f"{clock['lm_eval_server'] / clock['server']:.2f}",
        *_apart(row["from_lm_eval"]),
    ]


def _both(seconds: Mapping[str, float]) -> str:
    return f"{seconds['lm_eval_server']:.2f} / {seconds['server']:.2f} s"


def _apart(far: Mapping[str, Any]) -> tuple[str, str]:
    return f"{far['nats']:.1e}", str(far["beyond_bound"] + far["different"])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells
    )
