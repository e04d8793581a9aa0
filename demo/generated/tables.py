"""Many rows at once: COPY on PostgreSQL, one prepared INSERT on SQLite.

A row gives values for some fields of a table; the others have one value for all rows, or the
field's default. On PostgreSQL indexes and foreign keys of the large tables are dropped while they
are filled and made again behind it, all in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import StringIO
from itertools import islice
from typing import Any
from uuid import UUID

from django.core.management.color import no_style
from django.db import connection
from django.db.models import Field, JSONField, Max, Model

ROWS_AT_ONCE = 20_000


def insert(
    table: type[Model], names: Sequence[str], rows: Iterable[Sequence[Any]], **fixed: Any
) -> int:
    """Insert rows of values for the fields `names`, and `fixed` for others; how many."""
    fields = [field for field in table._meta.concrete_fields if field.attname not in names]
    same = {field: fixed.get(field.attname, field.get_default()) for field in fields}
    if unknown := fixed.keys() - {field.attname for field in fields}:
        raise ValueError(f"{table.__name__} has no fields {sorted(unknown)} besides {names}")
    same = {f: value for f, value in same.items() if not (f.primary_key and value is None)}
    given = [table._meta.get_field(name) for name in names]
    write = _copy if connection.vendor == "postgresql" else _insert
    return write(table._meta.db_table, [*given, *same], rows, list(same.values()))  # type: ignore[list-item]


def next_key(table: type[Model]) -> int:
    """The first free number of a table that counts its rows."""
    highest: int | None = table._base_manager.aggregate(highest=Max("pk"))["highest"]
    return (highest or 0) + 1


def reset_sequences(*tables: type[Model]) -> None:
    """Let the database count on from the rows that are there."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), list(tables)):
            cursor.execute(statement)


@contextmanager
def without_indexes(*tables: type[Model]) -> Iterator[None]:
    """While it lasts, PostgreSQL keeps no index and checks no key of these tables."""
    if connection.vendor != "postgresql":
        yield
        return
    names = [table._meta.db_table for table in tables]
    connection.check_constraints()  # a table whose keys are yet to be checked cannot be altered
    with connection.cursor() as cursor:
        cursor.execute(_CONSTRAINTS, [names, names])
        constraints = cursor.fetchall()
        for table, name, _ in constraints:
            cursor.execute(f'ALTER TABLE "{table}" DROP CONSTRAINT "{name}"')
        cursor.execute(_INDEXES, [names])
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        yield
        cursor.execute("SET LOCAL maintenance_work_mem = '512MB'")
        for _, definition in indexes:
            cursor.execute(definition)
        for table, name, definition in reversed(constraints):
            cursor.execute(f'ALTER TABLE "{table}" ADD CONSTRAINT "{name}" {definition}')


# Foreign keys first: they need the unique constraints that they point at.
_CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype IN ('p', 'u') AND conrelid::regclass::text = ANY(%s)
   OR contype = 'f' AND ARRAY[conrelid, confrelid]::regclass[]::text[] && %s::text[]
ORDER BY contype = 'f' DESC
"""
_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s)"


def _copy(
    table: str, fields: Sequence[Field[Any, Any]], rows: Iterable[Sequence[Any]], same: list[Any]
) -> int:
    tail = "".join(f"\t{_text(_prepared(f, v))}" for f, v in _with(fields, same))
    columns = ", ".join(f'"{field.column}"' for field in fields)
    statement = f'COPY "{table}" ({columns}) FROM STDIN'
    count = 0
    with connection.cursor() as cursor:
        for block in _blocks(rows):
            lines = ["\t".join(map(_text, row)) + tail for row in block]
            cursor.copy_expert(statement, StringIO("\n".join(lines) + "\n"))
            count += len(block)
    return count


def _insert(
    table: str, fields: Sequence[Field[Any, Any]], rows: Iterable[Sequence[Any]], same: list[Any]
) -> int:
    tail = [field.get_db_prep_save(v, connection) for field, v in _with(fields, same)]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    statement = f'INSERT INTO "{table}" ({columns}) VALUES ({marks})'  # noqa: S608
    count = 0
    with connection.cursor() as cursor:
        for block in _blocks(rows):
            prepared = [
                [f.get_db_prep_save(v, connection) for f, v in zip(fields, row, strict=False)]
                + tail
                for row in block
            ]
            cursor.executemany(statement, prepared)
            count += len(block)
    return count


def _with(
    fields: Sequence[Field[Any, Any]], same: list[Any]
) -> Iterable[tuple[Field[Any, Any], Any]]:
    """The last fields, each with the value that all rows have."""
    return zip(fields[len(fields) - len(same) :], same, strict=True)


def _blocks(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    remaining = iter(rows)
    while block := list(islice(remaining, ROWS_AT_ONCE)):
        yield block


def _prepared(field: Field[Any, Any], value: Any) -> Any:
    return json.dumps(value) if isinstance(field, JSONField) and value is not None else value


def _text(value: Any) -> str:
    """A value as COPY's text format has it."""
    return _TEXTS.get(type(value), _escaped)(value)


def _escaped(value: Any) -> str:
    text = str(value)
    if "\\" in text or "\t" in text or "\n" in text or "\r" in text:
        for mark, code in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
            text = text.replace(mark, code)
    return text


_TEXTS: Mapping[type, Callable[[Any], str]] = {
    type(None): lambda _: r"\N",
    bool: lambda value: "t" if value else "f",
    int: str,
    float: repr,
    bytes: lambda value: r"\\x" + value.hex(),
    UUID: str,
    datetime: datetime.isoformat,
}
