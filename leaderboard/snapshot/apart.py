"""Rows that stand on a board without a rank: taken out by their author, or computed by what was not
shown to agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from leaderboard.models import Run
from leaderboard.models.agreement import shown_to_agree
from leaderboard.models.variant import NAMES, TRANSFORMERS
from leaderboard.snapshot.columns import ColumnCells
from leaderboard.snapshot.models import Model

DEPARTED = "Its author took it out of the ranking"
"""What such a row says."""


def with_apart(models: Sequence[Model], columns: Sequence[ColumnCells]) -> list[Model]:
    """The models; those of another backend say on which columns of the average it was not shown to
    agree."""
    others = {
        model.variant: model
        for model in models
        if model.backend != TRANSFORMERS and not model.apart
    }
    if not others:
        return list(models)
    counted = [column for column in columns if column.entry.counts]
    titles = {column.entry.task_id: column.entry.title for column in counted}
    variants = np.array(list(others), np.int64)
    runs = {}
    for column in counted:
        for variant, place in zip(others, column.places(variants).tolist(), strict=True):
            if place >= 0 and not np.isnan(column.scores.value[place]):
                run = UUID(bytes=column.run[place].tobytes())
                runs[run] = variant, column.entry.task_id
    computed_by = dict(Run.objects.filter(pk__in=runs).values_list("pk", "computed_by"))
    agree = shown_to_agree(titles)
    lacking: dict[int, list[str]] = {}
    for run, (variant, task) in runs.items():
        if (computed_by[run], others[variant].dtype, task) not in agree:
            lacking.setdefault(variant, []).append(titles[task])
    return [
        replace(model, apart=_why(model, lacking[model.variant]))
        if model.variant in lacking
        else model
        for model in models
    ]


def _why(model: Model, titles: Sequence[str]) -> str:
    first, *others = dict.fromkeys(titles)
    more = f" and {len(others)} more" if others else ""
    return (
        f"{NAMES.get(model.backend, model.backend)} was not yet shown to give the answers of "
        f"{NAMES[TRANSFORMERS]} on {first}{more}, so it has no rank"
    )
