"""The sample of one document: what was asked, what came back, what it is worth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from evalcore.model.base import Response
from evalcore.record import SCHEMA_VERSION
from evalcore.score.metrics import Answered
from evalcore.score.metrics import metric as metric_named
from evalcore.task.digest import json_ready
from evalcore.task.task import Item, Task


def sample_of(
    task: Task, item: Item, responses: Iterator[Response], part: str | None = None
) -> dict[str, Any]:
    """A row of SAMPLE_SCHEMA; takes the item's responses off the iterator.

    `part` is the subset of a task in a group that names none itself.
    """
    spec = task.spec
    taken = list(islice(responses, len(item.requests)))
    answered = Answered(
        choices=item.choices,
        loglikelihoods=[response.loglikelihood for response in taken],
        gold=item.gold,
    )
    scores = {
        entry.name: metric_named(entry.name, spec.name).score(answered)
        for entry in spec.metric_list
    }
    primary = spec.about.primary_metric or next(iter(scores))
    return {
        "schema_version": SCHEMA_VERSION,
        "task": spec.name,
        "split": item.split,
        "doc_id": item.doc_id,
        "doc_digest": item.doc_digest,
        "doc": json.dumps(json_ready(item.doc), ensure_ascii=False),
        "cluster": task.cluster_of(item),
        "subset": task.subset_of(item) or part,
        "shots": [{"split": split, "row": row} for split, row in item.shots],
        "prompt": item.prompt,
        "choices": list(item.choices),
        "gold": list(item.gold),
        "target": item.target,
        "pick": metric_named(primary, spec.name).pick(answered),
        "correct": scores[primary],
        "arguments": [
            {"context": request.context, "continuation": request.continuation}
            for request in item.requests
        ],
        "responses": [asdict(response) for response in taken],
        "scores": [
            {"metric": name, "filter": "none", "value": value} for name, value in scores.items()
        ],
        "why_null": None,
    }
