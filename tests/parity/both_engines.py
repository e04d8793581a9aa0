"""Builds the requests of a task in both engines; run in a process of its own, against a local Hub.

Reads {"folders", "names", "shots", "limit"} as JSON on standard input; prints one JSON line per
leaf task and number of shots: {"task", "shots", "requests", "difference"}.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import yaml
from lm_eval.tasks import TaskManager

from evalcore.task.config import TaskSpec
from evalcore.task.load import TaskLibrary
from evalcore.task.task import Task

FEWSHOT_SEED = 1234

# `datasets` reads a data set's README again for each configuration: minutes for MMLU's 57 subjects
# in the parser that is written in Python. The one written in C reads the same language.
yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc, assignment]


def main() -> None:
    logging.disable(logging.WARNING)
    order = json.load(sys.stdin)
    manager = TaskManager(include_path=order["folders"], include_defaults=False)
    library = TaskLibrary([Path(folder) for folder in order["folders"]])
    for name in order["names"]:
        leaves = {leaf.name: leaf for spec in library.select([name]) for leaf in spec.leaves()}
        theirs = manager.load([name])["tasks"]
        if set(theirs) != set(leaves):
            raise SystemExit(f"{name} means different tasks: {set(theirs) ^ set(leaves)}")
        for shots in order["shots"]:
            for leaf, spec in leaves.items():
                # As lm-eval's simple_evaluate: a 0 that the task states is never overridden.
                theirs_at = 0 if spec.num_fewshot == 0 else shots
                expected = lm_eval_requests(theirs[leaf], theirs_at, order["limit"])
                found = our_requests(spec, shots, order["limit"])
                report = {
                    "task": leaf,
                    "shots": shots,
                    "requests": len(expected),
                    "difference": difference(found, expected),
                }
                sys.stdout.write(f"{json.dumps(report)}\n")


def lm_eval_requests(task: Any, shots: int, limit: int) -> list[list[str]]:
    task.set_config(key="num_fewshot", value=shots)
    task.set_fewshot_seed(FEWSHOT_SEED)
    task.build_all_requests(limit=limit)
    return [list(instance.args) for instance in task.instances]


def our_requests(spec: TaskSpec, shots: int, limit: int) -> list[list[str]]:
    task = Task(spec, mode="compat", num_fewshot=shots, fewshot_seed=FEWSHOT_SEED, limit=limit)
    return [
        [request.context, request.continuation]
        for item in task.items()
        for request in item.requests
    ]


def difference(found: list[list[str]], expected: list[list[str]]) -> str | None:
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=False)):
        if ours != theirs:
            return f"request {number}: ours {ours!r}, theirs {theirs!r}"
    if len(found) != len(expected):
        return f"{len(found)} requests, theirs are {len(expected)}"
    return None


if __name__ == "__main__":
    main()
