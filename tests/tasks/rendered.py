"""The requests of pairs of tasks, ours and lm-evaluation-harness's; run against a local Hub.

`python -m tests.tasks.rendered FILE` reads there `[[ours, theirs, shots], …]` and writes for each
pair both sides' first documents: the kind, context and continuation of every request, and the right
answer; or, in their place, why the task cannot be built.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from evalcore.building import task_of
from evalcore.errors import EvalError
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests.parity.our_side import lm_evals_tasks

DOCUMENTS = 4


def rendered(library: TaskLibrary, name: str, shots: int) -> Any:
    """By document: the requests and the right answers; or why not."""
    try:
        random.seed(0)
        np.random.seed(1234)
        leaves = [leaf for spec in library.select([name]) for leaf in spec.leaves()]
        return [
            [
                [
                    [request.kind, request.context, request.continuation]
                    for request in item.requests
                ],
                str(item.target),
                item.gold,
            ]
            for leaf in leaves[:2]
            for item in task_of(leaf, mode="compat", num_fewshot=shots, limit=DOCUMENTS).items()
        ]
    except EvalError as error:
        return str(error)


def main() -> None:
    logging.disable(logging.WARNING)
    ours, theirs = TaskLibrary([OWN_TASKS]), TaskLibrary([lm_evals_tasks()])
    pairs = [
        [rendered(ours, our_name, shots), rendered(theirs, their_name, shots)]
        for our_name, their_name, shots in json.loads(Path(sys.argv[1]).read_text())
    ]
    json.dump(pairs, sys.stdout)


if __name__ == "__main__":
    main()
