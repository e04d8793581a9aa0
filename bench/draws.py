"""How much does a score hang on the draw of examples: drawn for each document, or once for all?

`python -m bench.draws --output docs/benchmarks/draws.json [--seeds N] [--shots K]` asks the demo's
models with K examples under N seeds of either draw, the same questions every time, and writes each
score and the seconds that it took. It needs a Hub in HF_ENDPOINT with the models and the data: the
demo's (`python -m demo.hub demo/content FOLDER`), and for ARC the test data's folder as well.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from evalcore.library import evaluate
from evalcore.task.yaml_file import OWN_TASKS

MODELS = ("scholar-llama", "traveller-mistral", "examinee-neox")
TASKS = (
    *("demo_facts", "demo_facts_mmlu", "demo_sums", "demo_sums_mmlu"),
    *("arc_easy", "arc_easy_mmlu"),
)
FIRST_SEED = 1234
DRAWS = ("per-document", "fixed")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--shots", type=int, default=3)
    options = parser.parse_args()
    rows = [
        row
        for name in MODELS
        for row in measured(name, TASKS, shots=options.shots, seeds=options.seeds)
    ]
    options.output.write_text(json.dumps({"shots": options.shots, "rows": rows}, indent=1) + "\n")
    sys.stdout.write(table(rows))


def measured(name: str, tasks: tuple[str, ...], *, shots: int, seeds: int) -> list[dict[str, Any]]:
    """For each task and draw: the scores by seed, their sampling error, and seconds in all."""
    from evalcore.library import lm_of

    model = lm_of("hf", {"pretrained": f"plumbline-demo/{name}", "dtype": "float32"}, mode="strict")
    rows = []
    for task in tasks:
        for draw in DRAWS:
            scores, errors, seconds, truncated = [], [], 0.0, 0
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                (done,) = evaluate(
                    model,
                    [task],
                    include_path=OWN_TASKS,
                    mode="strict",
                    num_fewshot=shots,
                    fewshot_seed=seed,
                    fewshot_draw=draw,
                )
                (row,) = (result for result in done.record.own_results() if result.metric == "acc")
                scores.append(row.value)
                errors.append(row.stderr or 0.0)
                seconds += done.record.timing["answers"]
                truncated += done.record.requests["truncated"]
            rows.append(
                {
                    "model": name,
                    "task": task,
                    "draw": draw,
                    "n": row.n,
                    "scores": scores,
                    "stderr": statistics.mean(errors),
                    "seconds": round(seconds, 2),
                    "truncated": truncated,
                }
            )
            sys.stderr.write(f"{time.strftime('%X')} {name} {task} {draw}\n")
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Both draws side by side, in points."""
    lines = [
        "| model | task | n | sampling error | per-document: mean, sd over seeds, s | "
        "fixed: mean, sd over seeds, s |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for own, fixed in zip(rows[::2], rows[1::2], strict=True):
        cells = [
            f"{100 * statistics.mean(one['scores']):.1f}, "
            f"{100 * statistics.stdev(one['scores']):.2f}, {one['seconds']:.1f}"
            for one in (own, fixed)
        ]
        cut = " (cut)" if own["truncated"] else ""
        lines.append(
            f"| {own['model']} | {own['task']}{cut} | {own['n']} | {100 * own['stderr']:.2f} | "
            f"{cells[0]} | {cells[1]} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
