"""The one migration makes the tables that many made before it, and takes over their databases.

On PostgreSQL by its group, as every test of this folder.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from runners import __main__ as parts
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = import_module("leaderboard.migrations.0001_tables").Migration
REPLACED = [name for _, name in TABLES.replaces]
SCHEMAS = Path(__file__).with_name("schemas")
"""What the replaced migrations made, sorted by line, in a file for each kind of database."""


def applied_migrations_of_site() -> set[str]:
    return {
        name
        for app, name in MigrationRecorder(connection).applied_migrations()
        if app == "leaderboard"
    }


def record(names: list[str]) -> None:
    """Let the database say that these migrations of the site, and no others, were applied."""
    recorder = MigrationRecorder(connection)
    for name in applied_migrations_of_site():
        recorder.record_unapplied("leaderboard", name)
    for name in names:
        recorder.record_applied("leaderboard", name)


def schema() -> list[str]:
    """Columns, constraints and indexes of the site's tables, each a line of SQL."""
    read = sqlite_schema if connection.vendor == "sqlite" else postgresql_schema
    return sorted(read())


def sqlite_schema() -> list[str]:
    found = []
    with connection.cursor() as cursor:
        cursor.execute(
            "select name, sql from sqlite_master"
            " where sql is not null and tbl_name like 'leaderboard\\_%' escape '\\'"
        )
        for name, sql in cursor.fetchall():
            line = re.sub(r"\s+", " ", sql)
            if line.startswith("CREATE TABLE"):
                body = line[line.index("(") + 1 : line.rindex(")")]
                found += [f"{name}: {part}" for part in clauses(body)]
            else:
                found.append(line)
    return found


def clauses(body: str) -> list[str]:
    """The parts of a table between the commas that stand in no bracket and no quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for at, char in enumerate(body):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "," and depth == 0:
            parts.append(body[start:at].strip())
            start = at + 1
    return [*parts, body[start:].strip()]


def postgresql_schema() -> list[str]:
    found = []
    with connection.cursor() as cursor:
        for query in (
            "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
            " pg_get_expr(d.adbin, d.adrelid), a.attidentity, o.collname from pg_class c"
            " join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
            " left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum"
            " left join pg_collation o on o.oid = a.attcollation"
            " where c.relkind = 'r' and c.relname like 'leaderboard\\_%'",
            "select conrelid::regclass::text, conname, pg_get_constraintdef(oid)"
            " from pg_constraint where conrelid::regclass::text like 'leaderboard\\_%'",
            "select indexdef from pg_indexes where tablename like 'leaderboard\\_%'",
        ):
            cursor.execute(query)
            found += [": ".join(map(str, row)) for row in cursor.fetchall()]
    # A primary key is numbered where its name was taken as tables changed their names.
    return [re.sub(r"_pkey\d+\b", "_pkey", line) for line in found]


def test_the_tables_are_those_that_the_replaced_migrations_made() -> None:
    expected = (SCHEMAS / f"{connection.vendor}.txt").read_text().splitlines()
    assert schema() == expected


def test_a_database_of_the_replaced_migrations_is_taken_over_with_its_rows() -> None:
    suite = make.make_suite()
    record(REPLACED)
    call_command("migrate", verbosity=0)
    assert applied_migrations_of_site() == {*REPLACED, "0001_tables"}
    suite.refresh_from_db()


def test_a_database_that_lacks_some_of_them_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parts, "start_django", lambda: None)
    everything = applied_migrations_of_site()
    record(REPLACED[:40])
    try:
        assert parts.prepare() == 1
    finally:
        record(sorted(everything))
    said = capsys.readouterr().err
    assert REPLACED[40] in said
    assert "git checkout" in said
