"""Rows of Arrow files that `datasets` prepared, read without it: its import takes longer than most
tasks take to be read.

Only where a row is what pyarrow makes of it. Images, sounds and whatever else `datasets` decodes or
casts are left to it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Doc = dict[str, Any]

AS_STORED = frozenset(("Value", "ClassLabel", "List", "LargeList", "Sequence", "Translation"))
"""What `datasets` gives back as it is stored; there are others, and each decodes in its own way."""


class Rows(Sequence[Doc]):
    """The documents of some Arrow files, one after another; each access makes a new one."""

    def __init__(self, batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._batches = [batch for batch in batches if batch.num_rows]
        self._ends = list(accumulate(batch.num_rows for batch in self._batches))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Doc]:
        for batch in self._batches:
            yield from batch.to_pylist()

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[row] for row in range(*place.indices(len(self)))]
        row = range(len(self))[place]
        number = bisect_right(self._ends, row)
        batch = self._batches[number]
        start = self._ends[number] - batch.num_rows
        doc: Doc = batch.slice(row - start, 1).to_pylist()[0]
        return doc


def rows_of(files: Iterable[str]) -> Rows | None:
    """The rows of Arrow files; None where they are not for us to read.

    Raises what pyarrow raises for files that are none of its.
    """
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    schema: pa.Schema | None = None
    for file in files:
        with pa.memory_map(file) as mapped, pa.ipc.open_stream(mapped) as stream:
            if schema is None:
                schema = stream.schema
            # Of files that differ `datasets` makes one table by rules of its own.
            if not _is_plain(stream.schema) or not stream.schema.equals(schema):
                return None
            batches += stream
    return None if schema is None else Rows(batches, schema.names)


def _is_plain(schema: pa.Schema) -> bool:
    stated = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = (stated.get("info") or {}).get("features")
    return _as_stored(features or {}) and all(_is_json(field.type) for field in schema)


def _as_stored(feature: Any) -> bool:
    """Whether a feature, as `datasets` writes it into a file, and all in it are so."""
    if isinstance(feature, list):
        return all(map(_as_stored, feature))
    if not isinstance(feature, Mapping):
        return True  # a property of one
    kind = feature.get("_type")
    return (not isinstance(kind, str) or kind in AS_STORED) and all(
        map(_as_stored, feature.values())
    )


def _is_json(kind: pa.DataType) -> bool:
    """Whether its values are what JSON has: nothing is cast, and nobody's own type."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return _is_json(kind.value_type)
    if types.is_struct(kind):
        return all(_is_json(kind.field(place).type) for place in range(kind.num_fields))
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )
