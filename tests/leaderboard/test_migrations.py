"""Migrations that take something away, on a database that has rows; on PostgreSQL by its group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from leaderboard.models import Run, Worker
from tests.runners import rows

pytestmark = pytest.mark.django_db(transaction=True)


def migrate(name: str) -> Any:
    """Bring the database to this migration; its models as they are there."""
    executor = MigrationExecutor(connection)
    executor.migrate([("leaderboard", name)])
    return executor.loader.project_state([("leaderboard", name)]).apps


@pytest.fixture
def before_0040() -> Iterator[Any]:
    """The models of 0039, in the database too; the database is up to date again at the end."""
    yield migrate("0039_active_parameters")
    to_the_newest()


def to_the_newest() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_launches_go_and_the_workers_that_they_began_stay_with_their_runs(before_0040: Any) -> None:
    launch = before_0040.get_model("leaderboard", "Launch").objects.create(
        kind="a100", engine="slurm", gpus=1, hours=8, price=1.9, asked=timezone.now()
    )
    before_0040.get_model("leaderboard", "Worker").objects.create(
        name="ada", launch=launch, device="cpu", memory_bytes=10**10, dtypes=["float32"],
        started=timezone.now(), seen=timezone.now(),
    )  # fmt: skip
    migrate("0040_no_launches")
    assert "leaderboard_launch" not in connection.introspection.table_names()
    to_the_newest()
    worker = Worker.objects.get(name="ada")
    rows.queued("arc")
    claim = rows.claimed_by(worker)
    assert Run.objects.get(worker="ada").lease_token == claim.token
