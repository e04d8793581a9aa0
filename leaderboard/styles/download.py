"""The table of styles as a file: its benchmarks, rows and order, on all pages, in full precision.

A cell without a number is empty, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from django.http import Http404, HttpRequest
from django.urls import reverse
from numpy.typing import NDArray

from leaderboard.board import chosen_board
from leaderboard.catalogue import suite_asked_for
from leaderboard.snapshot import Refused, TableFile, in_styles, table_file
from leaderboard.styles.view import Group, View, address_of, view, wanted

BATCH = 500
"""Rows that are made at a time."""
Rows = NDArray[np.intp]


def file(request: HttpRequest) -> TableFile:
    address = address_of(request)
    suite = suite_asked_for(address["suite"])
    board = chosen_board(suite, wanted(address)) if suite else None
    if board is None or not in_styles(board):
        raise Http404("there is nothing to put side by side yet")
    seen = view(board, address, every_row=True)
    if seen.problems:
        raise Refused(seen.problems)
    site = request.build_absolute_uri("/").rstrip("/")
    page = address.url(
        suite=f"{board.suite}@{board.version}",
        at=board.built.date().isoformat(),
        page=1,
        model="",
    )
    return TableFile(
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
        details={"columns": [column for group in seen.groups for column in _columns(seen, group)]},
        batches=lambda: _batches(seen, site),
    )


def _columns(seen: View, group: Group) -> list[dict[str, Any]]:
    """What the scores of a benchmark are, in the order of their fields."""
    columns = [seen.board.columns[place] for place in group.places]
    return [table_file.of_column(column, group.key(column.style)) for column in columns]


def _batches(seen: View, site: str) -> Iterator[pa.RecordBatch]:
    for start in range(0, max(len(seen.rows), 1), BATCH):
        rows = seen.rows[start : start + BATCH]
        fields = table_file.of_models(seen.board.models.take(rows))
        for group in seen.groups:
            fields |= _of_benchmark(seen, group, rows, site)
        yield pa.RecordBatch.from_pydict(fields)


def _of_benchmark(seen: View, group: Group, rows: Rows, site: str) -> dict[str, pa.Array]:
    board = seen.board
    fields: dict[str, pa.Array] = {}
    for place in group.places:
        name = group.key(board.columns[place].style)
        fields |= table_file.of_cells(board, place, rows, board.scores, name, site)
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
