"""What readers and programs are told where nothing can be stored any more."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from datetime import timedelta

import psycopg2.errors
import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from leaderboard.models import ApiToken, Submission, Suite, User
from leaderboard.web import service
from tests.leaderboard.conftest import TINY


@pytest.fixture
def full_disk(transactional_db: None) -> Iterator[None]:
    """SQLite has no room left: each new submission and session takes a page more than it may."""
    if connection.vendor != "sqlite":
        pytest.skip("a PostgreSQL server of its own would have to be filled")
    tables = (Submission._meta.db_table, "django_session")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE filling (bytes)")
        for table in tables:
            cursor.execute(
                f"CREATE TRIGGER fill_{table} BEFORE INSERT ON {table} "
                "BEGIN INSERT INTO filling VALUES (zeroblob(1000000)); END"
            )
        cursor.execute("PRAGMA page_count")
        cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0] + 100}")
    yield
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA max_page_count = 1073741823")
        for table in tables:
            cursor.execute(f"DROP TRIGGER fill_{table}")
        cursor.execute("DROP TABLE filling")


def test_a_full_disk_is_told_with_what_to_do(
    opened: Suite, full_disk: None, ada: User, caplog: pytest.LogCaptureFixture
) -> None:
    token = ApiToken.make(ada, "job", timezone.now() + timedelta(days=1))[1]
    User.objects.create_user("bo", password="a long pass phrase")
    visitor = Client(raise_request_exception=False)
    account = {"login": "bo", "password": "a long pass phrase"}
    for address, sent in (("/submit", {"model": TINY}), ("/accounts/login", account)):
        answer = visitor.post(address, sent)
        assert answer.status_code == 503, address
        assert (answer["Retry-After"], answer["Cache-Control"]) == ("60", "no-store")
        assert "The disk of this site is full" in answer.content.decode()
    program = Client(headers={"Authorization": f"Bearer {token}"}, raise_request_exception=False)
    answer = program.post("/api/submissions", {"model": TINY}, content_type="application/json")
    assert answer.status_code == 503
    (problem,) = answer.json()["problems"]
    assert problem["code"] == "disk_full"
    assert "database or disk is full" in caplog.text
    assert visitor.get("/submit").status_code == 200
    assert not Submission.objects.exists()


def test_a_full_disk_is_known_by_its_cause_on_every_database_and_in_files() -> None:
    cause = psycopg2.errors.DiskFull("could not extend file")
    cause.__setstate__({"pgcode": "53100"})
    error = OperationalError("could not extend file")
    error.__cause__ = cause
    assert service.is_disk_full(error)
    assert service.is_disk_full(OSError(errno.ENOSPC, "No space left on device"))
    assert not service.is_disk_full(OperationalError("database is locked"))
    assert not service.is_disk_full(OSError(errno.EACCES, "Permission denied"))
