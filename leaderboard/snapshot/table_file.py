"""A table that a page shows, as a file: CSV, JSON or parquet with the same fields.

Made while it is sent, in batches of rows. What the file is of stands in each row of CSV (comment
lines would break most readers), in `about` of JSON, and in the metadata of parquet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils.cache import get_conditional_response
from django.utils.http import http_date
from django.views.decorators.http import require_safe
from numpy.typing import NDArray

from evalcore.lengths import NAMES
from leaderboard.snapshot.data import STANDINGS, Board, Column, Scores, run_urls
from leaderboard.snapshot.models import Models
from leaderboard.web import kept, throttle

_STANDINGS = [str(standing) for standing in STANDINGS]
_INJECTED = r"^[=+\-@\t\r]"
_OF_MODEL = {
    **{"model": "repo_id", "commit": "commit", "dtype": "dtype", "quantisation": "quantisation"},
    **{name: name for name in ("adapter_base", "chat", "backend", "chat_template")},
    "type": "kind",
    **{name: name for name in ("architecture", "model_type", "parameters", "licence")},
    **{name: name for name in ("base_model", "merged", "moe", "official", "flag_reason")},
    **{name: name for name in ("hub_state", "superseded_by", "apart", "added", "released")},
}
"""The fields of a model in every file, by what they are called there."""


@dataclass(frozen=True)
class TableFile:
    """What is to be written."""

    name: str
    """Of the file, without its ending; anything but letters, figures and .-_ becomes a dash."""
    built: datetime
    about: dict[str, Any]
    """What the table is of, by short names; all that changes the file is in it."""
    details: dict[str, Any]
    """What more there is to say of it, in JSON and parquet: a row of CSV has no room for it."""
    batches: Callable[[], Iterator[pa.RecordBatch]]
    """At least one, which may be empty, for its fields."""
    rows: str = "models"
    """How JSON calls the list of its rows."""


class Refused(Exception):
    """What was asked for cannot be read, and is not half applied."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__(*problems)


def addresses(page: str, make: Callable[[HttpRequest], TableFile]) -> list[URLPattern]:
    """Of a page's table in each form: `page.csv` and so on.

    400 with the problems where `make` raises Refused; 429 for who asks for too many files.
    """

    def view(ending: str) -> Callable[[HttpRequest], HttpResponseBase]:
        @require_safe
        def as_file(request: HttpRequest) -> HttpResponseBase:
            throttle.count_download(request)
            try:
                return _answer(request, make(request), ending)
            except Refused as refused:
                problems = "".join(f"{problem}\n" for problem in refused.args)
                plain = "text/plain; charset=utf-8"
                return HttpResponse(problems, status=400, content_type=plain)

        return as_file

    return [path(f"{page}.{form}", view(form), name=f"{page}-{form}") for form in _FORMS]


def _answer(request: HttpRequest, file: TableFile, ending: str) -> HttpResponseBase:
    """The file in the form of its ending (csv, json or parquet); 304 where the client has it."""
    content_type, write = _FORMS[ending]
    etag = kept.tag(request, [file.about, file.details, ending])
    # By the tag alone: another release writes other files of a board built before.
    if unchanged := get_conditional_response(request, etag):
        return unchanged
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name)
    return StreamingHttpResponse(
        write(file),
        content_type=content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}.{ending}"',
            "ETag": etag,
            "Last-Modified": http_date(file.built.timestamp()),
            "Cache-Control": "public, no-cache",
            "X-Robots-Tag": "noindex",
        },
    )


def of_column(column: Column, field: str) -> dict[str, Any]:
    """What the scores of a benchmark are that stand in this field."""
    return {
        "field": field,
        "title": column.title,
        "task": column.task,
        "task_version": column.task_version,
        "style": column.style,
        "shots": column.shots,
        "draws": column.draws,
        "metric": column.metric,
        "filter": column.filter,
        "chance": column.chance,
        "counts": column.counts,
        "comparability_key": column.comparability_key,
    }


def of_models(models: Models) -> dict[str, pa.Array]:
    """Who the models are, in the fields that every file has."""
    return {name: models.array(field).combine_chunks() for name, field in _OF_MODEL.items()}


def bounds(name: str, prefix: str, scores: Scores) -> dict[str, pa.Array]:
    """A value with both bounds, empty where there is none."""
    sides = {name: scores.value, f"{prefix}low": scores.low, f"{prefix}high": scores.high}
    return {side: numbers(values) for side, values in sides.items()}


def of_cells(
    board: Board, place: int, rows: NDArray[Any], scores: Scores, name: str, site: str
) -> dict[str, pa.Array]:
    """A column's cells: value, bounds, questions, standing in words, and the run's address."""
    n, start = board.n[rows, place], site.rstrip("/")
    return {
        **bounds(name, f"{name}.", scores.column(place).rows(rows)),
        f"{name}.n": pa.array(n, mask=n == 0),
        **_lengths(board, place, rows, name),
        f"{name}.standing": pa.array(
            [_STANDINGS[number] for number in board.standing[rows, place].tolist()], pa.string()
        ),
        f"{name}.run": pa.array(
            [f"{start}{url}" if url else None for url in run_urls(board.run[rows, place])],
            pa.string(),
        ),
    }


def _lengths(board: Board, place: int, rows: NDArray[Any], name: str) -> dict[str, pa.Array]:
    """How many prompts and answers there are and were cut short; empty where nobody counted."""
    counts = board.lengths[rows, place]
    uncounted = counts[:, 0] == 0
    return {
        f"{name}.{what}": pa.array(counts[:, number], mask=uncounted)
        for number, what in enumerate(NAMES)
    }


def numbers(values: NDArray[Any]) -> pa.Array:
    """Numbers, empty where there is none."""
    return pa.array(values, mask=~np.isfinite(values))


def _csv(file: TableFile) -> Iterator[bytes]:
    header = True
    for batch in file.batches():
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= {name: pa.repeat(value, batch.num_rows) for name, value in file.about.items()}
        columns = {name: _harmless(column) for name, column in columns.items()}
        sink = BytesIO()
        options = pyarrow.csv.WriteOptions(include_header=header)
        pyarrow.csv.write_csv(pa.table(columns), sink, options)
        yield sink.getvalue()
        header = False


def _harmless(column: pa.Array) -> pa.Array:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front.

    Licences, base models and architectures are what strangers wrote into their models' cards.
    """
    if not pa.types.is_string(column.type):
        return column
    quoted = pc.binary_join_element_wise("'", column, "")
    return pc.if_else(pc.match_substring_regex(column, _INJECTED), quoted, column)


def _json(file: TableFile) -> Iterator[bytes]:
    told = json.dumps({**file.about, **file.details}, ensure_ascii=False)
    yield f'{{"about": {told},\n"{file.rows}": ['.encode()
    between = "\n"
    for batch in file.batches():
        for row in batch.to_pylist():
            text = json.dumps(row, ensure_ascii=False, default=datetime.isoformat)
            yield f"{between}{text}".encode()
            between = ",\n"
    yield b"\n]}\n"


def _parquet(file: TableFile) -> Iterator[bytes]:
    details = {name: json.dumps(about, ensure_ascii=False) for name, about in file.details.items()}
    told = {**file.about, **details}
    table = pa.Table.from_batches(file.batches())
    sink = BytesIO()
    pyarrow.parquet.write_table(table.replace_schema_metadata(told), sink, compression="zstd")
    yield sink.getvalue()


_FORMS: dict[str, tuple[str, Callable[[TableFile], Iterator[bytes]]]] = {
    "csv": ("text/csv; charset=utf-8", _csv),
    "json": ("application/json", _json),
    "parquet": ("application/vnd.apache.parquet", _parquet),
}
