"""The models of a board, one by one and by field, as its file holds them and filters read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Self, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_IDENTITY = (
    *("repo_id", "dtype", "quantisation", "adapter_base", "chat", "chat_template", "backend"),
)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A variant as the board lists it."""

    variant: int
    repo_id: str
    commit: str
    dtype: str
    quantisation: str
    adapter_base: str
    """What an adapter is put on; empty for a whole model."""
    chat: bool
    """Whether it is asked in its chat template."""
    backend: str
    architecture: str
    model_type: str
    parameters: int
    licence: str
    kind: str
    base_model: str
    merged: bool
    moe: bool
    official: bool
    flag_reason: str
    chat_template: bool
    """Whether it has one."""
    hub_state: str
    superseded_by: str
    """The newer commit that is ranked in its place; empty for none."""
    apart: str
    """Why it is ranked with no others; empty where it is."""
    added: datetime
    released: datetime | None
    """When its repository was made on the Hub, where the Hub knows it."""
    weights: str
    """The same for models of equal weights that are asked alike; empty where that is unknown."""

    @property
    def flagged(self) -> bool:
        return bool(self.flag_reason)

    @property
    def identity(self) -> tuple[str, ...]:
        """What two commits of one model share."""
        return tuple(str(getattr(self, name)) for name in _IDENTITY)


LACKING = ("flag_reason", "superseded_by", "apart")
"""Each of these, where it is not empty, keeps a model from every rank."""
_TYPES = {
    "int": pa.int64(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "datetime": pa.timestamp("us", tz="UTC"),
}
_TYPES["datetime | None"] = _TYPES["datetime"]
SCHEMA = pa.schema([(field.name, _TYPES[str(field.type)]) for field in fields(Model)])
_MOMENTS = ("added", "released")
_BEFORE: dict[str, Any] = {
    "adapter_base": "",
    "chat": False,
    "backend": "hf",
    "apart": "",
    "weights": "",
    "released": None,
}
"""What boards were of when their files did not have these fields."""


class Models(Sequence[Model]):
    """An Arrow table of SCHEMA, of which a row becomes a `Model` when somebody asks for it.

    Ten thousand objects take longer to make than a page may take; a page shows fifty.
    """

    def __init__(self, table: pa.Table) -> None:
        for name in _BEFORE.keys() - set(table.column_names):
            stated = pa.repeat(pa.scalar(_BEFORE[name], SCHEMA.field(name).type), len(table))
            table = table.append_column(name, stated)
        self.table = table
        self._columns = {name: table[name] for name in SCHEMA.names}

    @classmethod
    def of(cls, models: Iterable[Model]) -> Self:
        """Of models in any form; those that are by field already stay as they are."""
        if isinstance(models, cls):
            return models
        listed = list(models)
        arrays = {name: [getattr(model, name) for model in listed] for name in SCHEMA.names}
        return cls(pa.table(arrays, schema=SCHEMA))

    def values(self, name: str) -> list[Any]:
        """The field `name` of each model."""
        found: list[Any] = self._columns[name].to_pylist()
        return [_in_utc(value) for value in found] if name in _MOMENTS else found

    def value(self, row: int, name: str) -> Any:
        """One field of one model, which as a whole has two dozen."""
        return self._columns[name][row].as_py()

    def array(self, name: str) -> pa.ChunkedArray:
        """The field `name` of each model, for arithmetic on all of them."""
        return self._columns[name]

    def without(self, *reasons: str) -> NDArray[np.bool_]:
        """Which of them have none of these texts, each of which keeps a model from a rank."""
        free = np.ones(len(self), np.bool_)
        for reason in reasons:
            free &= np.asarray(pc.equal(self.array(reason), ""), np.bool_)
        return free

    @property
    def identities(self) -> list[tuple[str, ...]]:
        """`Model.identity` of each."""
        columns = (map(str, self.values(name)) for name in _IDENTITY)
        return list(zip(*columns, strict=True))

    def take(self, rows: Sequence[int] | NDArray[Any]) -> Models:
        """Those in these rows, in their order."""
        return Models(self.table.take(np.asarray(rows, np.int64)))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, row: int) -> Model: ...
    @overload
    def __getitem__(self, row: slice) -> Models: ...
    def __getitem__(self, row: int | slice) -> Model | Models:
        if isinstance(row, slice):
            return self.take(range(len(self))[row])
        place = range(len(self))[row]
        values = {name: column[place].as_py() for name, column in self._columns.items()}
        return Model(**values | {name: _in_utc(values[name]) for name in _MOMENTS})

    def __iter__(self) -> Iterator[Model]:
        columns = [self.values(name) for name in SCHEMA.names]
        for values in zip(*columns, strict=True):
            yield Model(**dict(zip(SCHEMA.names, values, strict=True)))


def _in_utc(moment: datetime | None) -> datetime | None:
    """Arrow has a time zone of its own making."""
    return moment and moment.replace(tzinfo=UTC)
