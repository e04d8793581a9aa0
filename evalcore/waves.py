"""Which documents are asked first: random parts of a task, each inside the next.

Documents that share what their prompts begin with are computed together, so that those answered at
a given moment are a sorted part, from which nothing follows for the rest. Here the order is drawn:
an eighth of a task's documents, then a quarter with it, a half, all. What is answered after such a
wave is a random sample without replacement (`evalcore.looks`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from evalcore.preparation import Prepared
from evalcore.score.scoring import scores_by_code
from evalcore.task.asking.task import Task
from evalcore.task.config import AggregateSpec, GroupSpec, TaskSpec

SHARES = (8, 4, 2)
"""The documents up to a wave are the n-th part of all."""
FEWEST = 240
"""Documents of a task that is asked in waves: of fewer all are asked in the first. A wave computes
again what its prompts begin with alike, and of few documents a part says little."""

ZERO_OR_ONE = frozenset(
    ["acc", "acc_norm", "acc_bytes", "acc_tokens", "acc_mutual_info", "exact_match"]
)
"""Metrics by which a document is right or wrong, and whose mean is the score."""


def is_looked_at(spec: TaskSpec | GroupSpec) -> bool:
    """Whether there is a score to look at while the task or group is asked.

    None where foreign code scores: it may be slow, and is not run twice.
    """
    metric = spec.primary_metric
    scored = all(metric in leaf.metrics and not scores_by_code(leaf) for leaf in spec.leaves())
    averaged = isinstance(spec, TaskSpec) or average_of(spec) is not None
    return metric in ZERO_OR_ONE and scored and averaged


def average_of(spec: GroupSpec) -> AggregateSpec | None:
    """How the group's own score is made of its tasks'; None where that is not said once."""
    entries = [one for one in spec.aggregate_metric_list if one.metric == spec.primary_metric]
    return entries[0] if len(entries) == 1 and entries[0].aggregation == "mean" else None


def order_of(task: Task, documents: int) -> str:
    """The name of the order in which a task's documents are asked, from which it is drawn.

    It is that of the questions: styles of a benchmark have the same, so that what begins alike in
    several of them is computed once.
    """
    spec = task.spec
    return f"{spec.dataset_path}/{spec.dataset_name}/{task.split}/{documents}"


def waves_of_documents(task: Task, documents: int) -> list[int]:
    """The wave of each of the documents, in their order."""
    if documents < FEWEST:
        return [0] * documents
    places = list(range(documents))
    random.Random(order_of(task, documents)).shuffle(places)  # noqa: S311
    ends = [-(-documents // share) for share in SHARES]
    waves = [0] * documents
    for rank, place in enumerate(places):
        waves[place] = sum(rank >= end for end in ends)
    return waves


def waves_of(part: Prepared) -> list[list[int]]:
    """By task the wave of each document."""
    asked = [(task, len(items)) for task, items in zip(part.tasks, part.items, strict=True)]
    if not is_looked_at(part.spec):
        return [[0] * documents for _, documents in asked]
    return [waves_of_documents(task, documents) for task, documents in asked]


def waves_of_requests(part: Prepared, waves: Sequence[Sequence[int]]) -> list[int]:
    """The wave of each encoded request, from those of the documents."""
    return [
        wave
        for of_task, items in zip(waves, part.items, strict=True)
        for wave, item in zip(of_task, items, strict=True)
        for request in item.requests
        for _ in range(request.repeats)
    ]
