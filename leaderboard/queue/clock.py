"""The database's clock, which all hosts share: a host's own may be minutes away from it."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection

QUESTIONS = {
    "postgresql": "SELECT STATEMENT_TIMESTAMP()",
    "sqlite": "SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW')",
}
"""What Now() is there, also within a transaction that began long ago."""


def now() -> datetime:
    """To compare with moments that the database wrote."""
    with connection.cursor() as cursor:
        cursor.execute(QUESTIONS[connection.vendor])
        (told,) = cursor.fetchone()
    moment = told if isinstance(told, datetime) else datetime.fromisoformat(told)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
