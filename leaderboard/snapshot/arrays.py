"""From cells to a board's arrays over models and columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from leaderboard.models import Variant
from leaderboard.snapshot.cells import PLACE, Cell, ColumnCells, from_chance
from leaderboard.snapshot.data import Column, Scores, Standing
from leaderboard.snapshot.models import Model

MANY = 5_000
"""Primary keys in one query."""


def models(variants: Iterable[int]) -> list[Model]:
    """What the board says of each variant, by name."""
    wanted = sorted(variants)
    rows = [
        variant
        for start in range(0, len(wanted), MANY)
        for variant in Variant.objects.filter(pk__in=wanted[start : start + MANY]).select_related(
            "hub_model"
        )
    ]
    rows.sort(key=lambda variant: (variant.hub_model.repo_id.lower(), variant.pk))
    return [_model(variant) for variant in rows]


def _model(variant: Variant) -> Model:
    hub_model = variant.hub_model
    return Model(
        variant=variant.pk,
        repo_id=hub_model.repo_id,
        commit=variant.commit,
        dtype=variant.dtype,
        quantisation=variant.quantisation,
        adapter=variant.adapter,
        architecture=variant.architecture,
        model_type=variant.model_type,
        parameters=variant.parameters,
        licence=variant.licence,
        kind=variant.kind,
        base_model=variant.base_model,
        merged=variant.merged,
        moe=variant.moe,
        official=hub_model.official,
        flag_reason=hub_model.flag_reason,
        chat_template=bool(variant.chat_template_digest),
        hub_state=hub_model.hub_state,
        superseded_by="",
        added=variant.created,
    )


def column(cells: ColumnCells) -> Column:
    entry = cells.entry
    drawn = max((cell.score.draws for cell in cells.cells.values() if cell.score), default=1)
    return Column(
        benchmark=entry.benchmark,
        title=entry.title,
        style=entry.style,
        own=entry.own,
        counts=entry.counts,
        task=entry.task.name,
        task_version=entry.task.version,
        metric=entry.metric,
        filter=entry.filter,
        shots=entry.shots,
        draws=drawn,
        chance=entry.task.chance,
        people=entry.people,
        people_source=entry.people_source,
        run_key=entry.run_key,
        comparability_key=entry.comparability_key,
        n=cells.n,
    )


def scores(columns: Sequence[ColumnCells], models: Sequence[Model]) -> Scores:
    """The numbers as measured, NaN where there is none."""
    found = Scores.none(len(models), len(columns))
    for row, place, cell in _scored(columns, models):
        if cell.score is not None:
            found.put(row, place, cell.score.interval)
    return found


def normalised(columns: Sequence[ColumnCells], models: Sequence[Model]) -> Scores:
    """The numbers from chance: 0 is guessing, 1 all right."""
    found = Scores.none(len(models), len(columns))
    for row, place, cell in _scored(columns, models):
        if interval := from_chance(cell, columns[place].entry):
            found.put(row, place, interval)
    return found


def cells(columns: Sequence[ColumnCells], models: Sequence[Model]) -> dict[str, Any]:
    """The fields of a Board that say more of each cell than its number."""
    shape = (len(models), len(columns))
    n = np.zeros(shape, np.int32)
    standing = np.full(shape, PLACE[Standing.NOT_MEASURED], np.int8)
    sd_of_draws = np.zeros(shape)
    run = np.zeros((*shape, 16), np.uint8)
    why, other_draws = {}, {}
    for row, place, cell in _scored(columns, models):
        standing[row, place] = PLACE[cell.standing]
        if cell.run:
            run[row, place] = np.frombuffer(cell.run.bytes, np.uint8)
        if cell.score:
            n[row, place] = cell.score.n
            sd_of_draws[row, place] = cell.score.sd_of_draws
        if cell.why:
            why[row, place] = cell.why
        if cell.other_draws:
            other_draws[row, place] = cell.other_draws
    return {
        "n": n,
        "standing": standing,
        "sd_of_draws": sd_of_draws,
        "run": np.frombuffer(run.tobytes(), "V16").reshape(shape),
        "why": why,
        "other_draws": other_draws,
    }


def _scored(
    columns: Sequence[ColumnCells], models: Sequence[Model]
) -> Iterator[tuple[int, int, Cell]]:
    """Every cell that there is, with its row and column."""
    variants = [model.variant for model in models]
    for place, cells in enumerate(columns):
        for row, variant in enumerate(variants):
            if cell := cells.cells.get(variant):
                yield row, place, cell
