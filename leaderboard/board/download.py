"""The board as a file: exactly the rows, columns, order and scale of the page with that address.

All pages of it, pinned models first, in full precision. A cell without a number is empty, never 0.
CSV, JSON and parquet have the same fields, which `_batches` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from django.http import Http404, HttpRequest
from numpy.typing import NDArray

from leaderboard.board.query import BoardQuery, chosen_board
from leaderboard.board.table import seconds_of
from leaderboard.board.view import View, view_of
from leaderboard.catalogue import newest_suite
from leaderboard.snapshot import Refused, TableFile, adjusted, table_file

BATCH = 500
"""Rows that are made at a time."""
_ONE_PAGE_ONLY = {"page": "1", "rows": "normal", "m": "", "at_model": ""}
"""What changes the page, but not the file."""


def file(request: HttpRequest) -> TableFile:
    query = BoardQuery.of(request)
    suite = newest_suite(query.suite)
    if suite is None:
        raise Http404(f"no suite {query.suite}")
    board = chosen_board(suite, query)
    if board is None:
        raise Http404("this board has no data yet")
    seen = view_of(board, query.but(**_ONE_PAGE_ONLY))
    if seen.problems:
        raise Refused(seen.problems)
    site = request.build_absolute_uri("/")
    disputed = seconds_of(seen, [])
    return TableFile(
        name=f"plumbline-{board.suite}-{board.version}-{board.style}-{board.built:%Y-%m-%d}",
        built=board.built,
        about=describe(seen, site),
        details={"columns": _columns(seen), **_disputed(disputed)},
        batches=lambda: _batches(seen, site, disputed=bool(disputed)),
    )


def describe(seen: View, site: str) -> dict[str, Any]:
    """What the file is of; its address leads to this very data, on whatever day."""
    board = seen.board
    address = seen.query.url(
        suite=f"{board.suite}@{board.version}", at=board.built.date().isoformat()
    )
    return {
        "suite": board.suite,
        "suite_version": board.version,
        "style": board.style,
        "scale": seen.scale,
        "built": board.built.isoformat(),
        "data_version": board.data_version,
        "address": f"{site.rstrip('/')}{address}",
        "note": seen.why_unranked,
    }


def _columns(seen: View) -> list[dict[str, Any]]:
    """What the shown benchmarks are, in the order of their fields."""
    columns = seen.board.columns
    return [table_file.of_column(columns[place], _name(seen, place)) for place in seen.columns]


def _name(seen: View, place: int) -> str:
    column = seen.board.columns[place]
    return f"{column.benchmark}.{column.style}"


def _batches(seen: View, site: str, *, disputed: bool) -> Iterator[pa.RecordBatch]:
    """The rows, pinned ones first; one empty batch where there is none, for its fields."""
    board, rows = seen.board, np.concatenate([np.array(seen.pins, np.intp), seen.rows])
    seconds = seconds_of(seen, rows.tolist()) if disputed else {}
    for start in range(0, max(len(rows), 1), BATCH):
        chosen = rows[start : start + BATCH]
        fields = {
            **_ranks(seen, chosen),
            "pinned": pa.array(np.isin(chosen, seen.pins)),
            **table_file.of_models(board.models.take(chosen)),
            **table_file.bounds("average", "average_", seen.average.rows(chosen)),
        }
        for place in seen.columns:
            name = _name(seen, place)
            fields |= table_file.of_cells(board, place, chosen, seen.scores, name, site)
        fields |= _second_figures(seen, seconds, chosen.tolist())
        yield pa.RecordBatch.from_pydict(fields)


def _ranks(seen: View, rows: NDArray[np.intp]) -> dict[str, pa.Array]:
    """Ranks with their ranges; empty for models without one, and for an own choice of columns."""
    ranks = seen.board.ranks
    none = ranks.rank[rows] == 0 if not seen.own_choice else np.ones(len(rows), np.bool_)
    arrays = {
        "rank": ranks.rank,
        "rank_low": ranks.low,
        "rank_high": ranks.high,
        "rank_low_is_cut": ranks.cut_low,
        "rank_high_is_cut": ranks.cut_high,
    }
    return {name: pa.array(array[rows], mask=none) for name, array in arrays.items()}


def _disputed(seconds: Mapping[int, adjusted.AdjustedScores]) -> dict[str, Any]:
    """How many questions are disputed, and what moves on with every second figure."""
    if not seconds:
        return {}
    return {
        "disputed_questions": {seconds[at].task: seconds[at].removed for at in sorted(seconds)},
        "second_figures": sorted(seconds[at].known for at in seconds),
    }


def _second_figures(
    seen: View, seconds: Mapping[int, adjusted.AdjustedScores], rows: Sequence[int]
) -> dict[str, pa.Array]:
    """Value, bounds and questions of scores without the disputed ones; empty where there is none.

    `seconds` is of the whole file, so that all its batches have the same fields.
    """
    figures = {}
    for place in sorted(seconds):
        cells = seconds[place].of_rows
        scores = [cells[row].score if row in cells else None for row in rows]
        for side in ("value", "low", "high", "n"):
            ending = "" if side == "value" else f".{side}"
            values = [None if score is None else getattr(score, side) for score in scores]
            kind = pa.int64() if side == "n" else pa.float64()
            figures[f"{_name(seen, place)}.without_disputed{ending}"] = pa.array(values, kind)
    return figures
