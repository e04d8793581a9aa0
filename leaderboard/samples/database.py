"""A database over sample files for what is asked of them in SQL.

One connection per request: one thread, a memory limit, nothing but these files to be read, and a
configuration that no later statement can change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb


@contextmanager
def locked_database(files: dict[str, Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory with one view for each parquet file, able to read those files only."""
    database = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "256MB"})
    try:
        quoted = {view: "'" + str(path).replace("'", "''") + "'" for view, path in files.items()}
        database.execute(f"SET allowed_paths = [{', '.join(quoted.values())}]")
        database.execute("SET parquet_metadata_cache = true")
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        for view, path in quoted.items():
            database.execute(
                f"CREATE VIEW {view} AS FROM read_parquet({path}, file_row_number = true)"
            )
        yield database
    finally:
        database.close()
