"""The table of styles as a file: its benchmarks, rows and order, on all pages, in full precision.

A cell without a number is empty, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe
from numpy.typing import NDArray

from leaderboard import snapshots
from leaderboard.board_data import EVERY
from leaderboard.pages import table_file
from leaderboard.pages.styles import suite_of
from leaderboard.pages.styles_view import Group, View, address_of, view
from leaderboard.style_facts import in_styles

BATCH = 500
"""Rows that are made at a time."""
Rows = NDArray[np.intp]


@require_safe
def as_csv(request: HttpRequest) -> HttpResponseBase:
    return _file(request, "csv")


@require_safe
def as_json(request: HttpRequest) -> HttpResponseBase:
    return _file(request, "json")


@require_safe
def as_parquet(request: HttpRequest) -> HttpResponseBase:
    return _file(request, "parquet")


def _file(request: HttpRequest, ending: str) -> HttpResponseBase:
    address = address_of(request)
    suite = suite_of(address)
    board = snapshots.newest(suite, EVERY) if suite else None
    if board is None or not in_styles(board):
        raise Http404("there is nothing to put side by side yet")
    seen = view(board, address, every_row=True)
    if seen.problems:
        return table_file.refusal(seen.problems)
    site = request.build_absolute_uri("/").rstrip("/")
    page = address.url(suite=f"{board.suite}@{board.version}", page=1, model="")
    file = table_file.TableFile(
        name=f"plumbline-{board.suite}-{board.version}-styles-{board.built:%Y-%m-%d}",
        built=board.built,
        about={
            "suite": board.suite,
            "suite_version": board.version,
            "first_style": seen.first,
            "second_style": seen.second,
            "built": board.built.isoformat(),
            "data_version": board.data_version,
            "address": f"{site}{page.replace(request.path, reverse('styles'), 1)}",
            "note": "best is derived: the largest of a benchmark's styles, never to be ranked by",
        },
        columns=[column for group in seen.groups for column in _columns(seen, group)],
        batches=lambda: _batches(seen, site),
    )
    return table_file.answer(request, file, ending)


def _columns(seen: View, group: Group) -> list[dict[str, Any]]:
    """What the scores of a benchmark are, in the order of their fields."""
    return [
        {
            "field": group.key(column.style),
            "title": column.title,
            "task": column.task,
            "task_version": column.task_version,
            "style": column.style,
            "shots": column.shots,
            "draws": column.draws,
            "metric": column.metric,
            "filter": column.filter,
            "chance": column.chance,
            "comparability_key": column.comparability_key,
        }
        for column in (seen.board.columns[place] for place in group.places)
    ]


def _batches(seen: View, site: str) -> Iterator[pa.RecordBatch]:
    for start in range(0, max(len(seen.rows), 1), BATCH):
        rows = seen.rows[start : start + BATCH]
        fields = table_file.of_models(seen.board.models[row] for row in rows)
        for group in seen.groups:
            fields |= _of_benchmark(seen, group, rows, site)
        yield pa.RecordBatch.from_pydict(fields)


def _of_benchmark(seen: View, group: Group, rows: Rows, site: str) -> dict[str, pa.Array]:
    board = seen.board
    fields: dict[str, pa.Array] = {}
    for place in group.places:
        name = group.key(board.columns[place].style)
        fields |= table_file.bounds(name, f"{name}.", board.scores.column(place).rows(rows))
        n = board.n[rows, place]
        fields[f"{name}.n"] = pa.array(n, mask=n == 0)
        fields[f"{name}.standing"] = table_file.standings(board.standing[rows, place])
        fields[f"{name}.run"] = table_file.run_addresses(board.run[rows, place], site)
    if group.change is not None:
        name, difference = group.key("change"), group.change.difference.rows(rows)
        fields |= table_file.bounds(name, f"{name}.", difference)
        none = np.isnan(difference.value)
        fields[f"{name}.paired"] = pa.array(group.change.paired[rows], mask=none)
    for side in ("lowest", "median", "highest", "spread"):
        fields[group.key(side)] = table_file.numbers(getattr(group.spreads, side)[rows])
    name = group.key("best")
    fields |= table_file.bounds(name, f"{name}.", group.best.score.rows(rows))
    won = [board.columns[place].style if place >= 0 else None for place in group.best.column[rows]]
    fields[f"{name}.style"] = pa.array(won, pa.string())
    return fields
