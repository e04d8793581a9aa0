"""A board made from the database: read `build` first. Background work, never within a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from evalcore.digest import digest_of
from evalcore.lengths import NAMES
from leaderboard.models import Run, Suite, SuiteEntry, Variant
from leaderboard.models.agreement import shown_to_agree
from leaderboard.models.variant import NAMES as BACKENDS
from leaderboard.models.variant import TRANSFORMERS
from leaderboard.snapshot import style_facts
from leaderboard.snapshot.cells import PLACE
from leaderboard.snapshot.columns import ColumnCells, columns_of
from leaderboard.snapshot.data import EVERY, OWN, Board, Column, Costs, Ranks, Scores, Standing
from leaderboard.snapshot.models import Model, Models
from leaderboard.snapshot.ranking import ranked

DEPARTED = "Its author took it out of the ranking"
"""What such a row says."""


def build(suite: Suite, style: str, built: datetime, earlier: Board | None = None) -> Board:
    """The board of a suite in one style as it stands; `earlier` spares what did not change.

    A model of which every run here failed has no row; its own page shows why. A model with a column
    missing has no average and no rank. A flagged one, a commit with a newer one of the same model
    beside it, and one computed by a backend that was not shown to agree with transformers keep
    their average and have no rank.
    """
    entries = list(suite.entries.select_related("task").order_by("position"))
    columns = columns_of(suite, [entry for entry in entries if _asked(entry, style)])
    models, scores, normalised, average = _in_order(columns, suite, style)
    cells = cells_of(columns, models)
    asked = {column.entry.benchmark for column in columns}
    board = Board(
        suite=suite.name,
        version=suite.version,
        title=suite.title,
        normalisation=suite.normalisation,
        style=style,
        built=built,
        data_version="",
        columns=tuple(column_of(column) for column in columns),
        models=models,
        scores=scores,
        normalised=normalised,
        average=average,
        ranks=Ranks.none(len(models)),
        styles=tuple(dict.fromkeys(entry.style for entry in entries)),
        without_style=tuple(dict.fromkeys(e.title for e in entries if e.benchmark not in asked)),
        **cells,
    )
    board = replace(board, data_version=_digest(board))
    if earlier is not None and earlier.data_version == board.data_version:
        return replace(earlier, built=built)
    if style == EVERY:
        board = style_facts.with_facts(board, columns, earlier)
        return replace(board, crossing=style_facts.clearest(board))
    return ranked(board, columns, earlier)


def _asked(entry: SuiteEntry, style: str) -> bool:
    return style == EVERY or (entry.own if style == OWN else entry.style == style)


def _worth_a_row(columns: Sequence[ColumnCells]) -> list[int]:
    """The variants of which not every run failed."""
    failed = {v for column in columns for v in column.having(Standing.FAILED).tolist()}
    every = {v for column in columns for v in column.variants.tolist()}
    tried = {
        v
        for column in columns
        for standing in Standing
        if standing not in (Standing.FAILED, Standing.NOT_MEASURED)
        for v in column.having(standing).tolist()
    }
    return sorted(every - (failed - tried))


def _in_order(
    columns: Sequence[ColumnCells], suite: Suite, style: str
) -> tuple[Models, Scores, Scores, Scores]:
    """The models in board order with their scores, raw and from chance, and their average."""
    models = _with_apart(models_of(_worth_a_row(columns)), columns)
    scores, normalised = scores_of(columns, models)
    average = Scores.none(len(models))
    counted = [place for place, column in enumerate(columns) if column.entry.counts]
    if style != EVERY and counted:
        chosen = normalised if suite.normalisation == "chance" else scores
        complete = np.logical_not(np.isnan(scores.value).any(axis=1))
        average = chosen.mean(counted).where(complete)
    models = _superseded(models, average)
    # By average, the best first, equal ones by name; numpy sorts NaN to the end.
    names = np.array([model.repo_id.lower() for model in models], dtype=str)
    order = np.lexsort((names, -average.value))
    return (
        Models.of(models[row] for row in order),
        scores.rows(order),
        normalised.rows(order),
        average.rows(order),
    )


def _with_apart(models: Sequence[Model], columns: Sequence[ColumnCells]) -> list[Model]:
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
        replace(model, apart=_why_apart(model, lacking[model.variant]))
        if model.variant in lacking
        else model
        for model in models
    ]


def _why_apart(model: Model, titles: Sequence[str]) -> str:
    first, *others = dict.fromkeys(titles)
    more = f" and {len(others)} more" if others else ""
    return (
        f"{BACKENDS.get(model.backend, model.backend)} was not yet shown to give the answers of "
        f"{BACKENDS[TRANSFORMERS]} on {first}{more}, so it has no rank"
    )


def _superseded(models: Sequence[Model], average: Scores) -> list[Model]:
    """Each commit that has a newer one of the same model with an average says which."""
    newest: dict[tuple[str, ...], Model] = {}
    for model, value in zip(models, average.value, strict=True):
        if np.isnan(value):
            continue
        last = newest.setdefault(model.identity, model)
        if (model.added, model.variant) > (last.added, last.variant):
            newest[model.identity] = model
    return [
        replace(model, superseded_by=newer.commit)
        if (newer := newest.get(model.identity))
        and (newer.added, newer.variant) > (model.added, model.variant)
        else model
        for model in models
    ]


def _digest(board: Board) -> str:
    """Of everything that a reader sees, but for when it was built."""
    arrays = (board.scores.value, board.scores.low, board.scores.high, board.average.value)
    # Boards of before costs were kept are what they were.
    costs = [board.costs.as_json] if board.costs and board.costs.known else []
    return digest_of(
        [
            [board.suite, board.version, board.title, board.normalisation, board.style],
            [str(column) for column in board.columns],
            [str(model) for model in board.models],
            [array.tobytes().hex() for array in (*arrays, board.standing, board.run)],
            sorted((*cell, text) for cell, text in board.why.items()),
            *costs,
        ]
    )


MANY = 5_000
"""Primary keys in one query."""


def models_of(variants: Iterable[int]) -> list[Model]:
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


_OF_VARIANT = (
    *("commit", "dtype", "quantisation", "adapter_base", "chat", "backend"),
    *("architecture", "model_type", "parameters", "licence", "kind", "base_model", "merged", "moe"),
)
_OF_ENTRY = (
    *("benchmark", "title", "style", "own", "counts", "metric", "filter", "shots", "people"),
    *("people_source", "run_key", "comparability_key"),
)
"""Fields that a board takes over as they are called in the tables."""


def _model(variant: Variant) -> Model:
    hub_model = variant.hub_model
    return Model(
        variant=variant.pk,
        repo_id=hub_model.repo_id,
        **{name: getattr(variant, name) for name in _OF_VARIANT},
        official=hub_model.official,
        flag_reason=hub_model.flag_reason,
        chat_template=bool(variant.chat_template_digest),
        hub_state=hub_model.hub_state,
        superseded_by="",
        apart=DEPARTED if hub_model.departed else "",
        added=variant.created,
        released=hub_model.released,
        weights=_weights_of(variant),
    )


def _weights_of(variant: Variant) -> str:
    """Of its files and of how they are asked; a name and a commit are no part of it."""
    if not variant.weights_digest:
        return ""
    names = ("weights_digest", "adapter_base", "adapter_base_commit", "dtype", "quantisation")
    way = (variant.chat_template_digest if variant.chat else "", variant.backend)
    return digest_of([*(getattr(variant, name) for name in names), *way])[:16]


def column_of(cells: ColumnCells) -> Column:
    entry = cells.entry
    return Column(
        **{name: getattr(entry, name) for name in _OF_ENTRY},
        task=entry.task.name,
        task_version=entry.task.version,
        draws=cells.draws,
        chance=entry.task.chance,
        n=cells.questions,
    )


def scores_of(columns: Sequence[ColumnCells], models: Sequence[Model]) -> tuple[Scores, Scores]:
    """Of each cell the number, and its share of the way from chance; NaN where there is none."""
    shape = (len(models), len(columns))
    scores, normalised = Scores.none(*shape), Scores.none(*shape)
    for column, rows, places, cells in _by_column(columns, models):
        for all_of_them, own in ((scores, cells.scores), (normalised, cells.from_chance)):
            all_of_them.put((rows, column), *own.rows(places).sides)
    return scores, normalised


def cells_of(columns: Sequence[ColumnCells], models: Sequence[Model]) -> dict[str, Any]:
    """The fields of a Board that say more of each cell than its number."""
    shape = (len(models), len(columns))
    n = np.zeros(shape, np.int32)
    standing = np.full(shape, PLACE[Standing.NOT_MEASURED], np.int8)
    sd_of_draws = np.zeros(shape)
    lengths = np.zeros((*shape, len(NAMES)), np.int32)
    run = np.zeros(shape, "V16")
    costs = Costs.none(*shape)
    why: dict[tuple[int, int], str] = {}
    other_draws: dict[tuple[int, int], tuple[UUID, ...]] = {}
    row_of = {model.variant: row for row, model in enumerate(models)}
    for column, rows, places, cells in _by_column(columns, models):
        n[rows, column] = cells.n[places]
        standing[rows, column] = cells.standing[places]
        sd_of_draws[rows, column] = cells.sd_of_draws[places]
        lengths[rows, column] = cells.lengths[places]
        run[rows, column] = cells.run[places]
        costs.put_column(column, rows, cells.costs, places)
        why |= {(row_of[v], column): said for v, said in cells.why.items() if v in row_of}
        other_draws |= {
            (row_of[v], column): runs for v, runs in cells.other_draws.items() if v in row_of
        }
    return {
        "n": n,
        "standing": standing,
        "sd_of_draws": sd_of_draws,
        "lengths": lengths,
        "run": run,
        "costs": costs,
        "why": why,
        "other_draws": other_draws,
    }


Places = NDArray[np.intp]


def _by_column(
    columns: Sequence[ColumnCells], models: Sequence[Model]
) -> Iterator[tuple[int, Places, Places, ColumnCells]]:
    """Each column's number, the rows that have a cell there, and where the column has those."""
    variants = np.array([model.variant for model in models], np.int64)
    for column, cells in enumerate(columns):
        places = cells.places(variants)
        rows = np.flatnonzero(places >= 0)
        yield column, rows, places[rows], cells
