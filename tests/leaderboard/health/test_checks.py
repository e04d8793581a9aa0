"""Liveness asks nothing; readiness says in plain words what keeps the site from its work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone

from leaderboard.models import BoardSnapshot, Run, Suite
from leaderboard.samples import path_of
from leaderboard.snapshot import OWN, published
from leaderboard.snapshot import file as snapshot_file
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import worker

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def artifacts(tmp_path: Path, settings: Any) -> Path:
    folder = tmp_path / "artifacts"
    storage = {**settings.STORAGES["artifacts"], "OPTIONS": {"location": folder}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": storage}
    return folder


@pytest.fixture
def ready(artifacts: Path, suite: Suite) -> BoardSnapshot:
    """A site that can do its work; its newest board, which no process has read yet."""
    row = published.build(suite, OWN)
    snapshot_file._boards.clear()
    return row


def wrong(client: Client) -> list[str]:
    response = client.get("/readyz")
    told = response.json()
    assert response["Cache-Control"] == "no-store"
    assert response.status_code == (200 if told["ready"] else 503)
    assert told["ready"] is (not told["wrong"])
    return list(told["wrong"])


def test_health_is_plain_never_cached_and_asks_no_database(client: Client) -> None:
    # Without a database fixture every query of this test would fail it.
    response = client.get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")
    assert response["Cache-Control"] == "no-store"


@pytest.mark.django_db
def test_a_site_that_works_says_how_it_stands(client: Client, ready: BoardSnapshot) -> None:
    told = client.get("/readyz").json()
    assert (told["ready"], told["wrong"], told["runs_waiting"]) == (True, [], 0)
    assert told["oldest_waiting_seconds"] is told["newest_heartbeat_seconds"] is None
    assert 0 <= told["board_age_seconds"] < 60
    assert told["free_disk_bytes"] > 0


@pytest.mark.django_db
def test_waits_are_counted_from_the_oldest_run_and_heartbeats_from_the_newest_worker(
    client: Client, ready: BoardSnapshot, suite: Suite
) -> None:
    now = timezone.now()
    make.make_submission(make.make_variant("lab/waiting"), suite)
    first = Run.objects.order_by("pk").first()
    assert first is not None
    Run.objects.filter(pk=first.pk).update(created=now - timedelta(seconds=500))
    for memory, silent in ((1, 40), (2, 4000)):
        seen = worker(memory)
        seen.seen = now - timedelta(seconds=silent)
        seen.save()
    told = client.get("/readyz").json()
    assert told["runs_waiting"] == Run.objects.filter(state="queued").count() > 1
    assert 500 <= told["oldest_waiting_seconds"] < 520
    assert 40 <= told["newest_heartbeat_seconds"] < 60


@pytest.mark.django_db
def test_a_lacking_migration_is_named(client: Client, ready: BoardSnapshot) -> None:
    applied = MigrationRecorder(connection).migration_qs.filter(app="leaderboard")
    newest = applied.order_by("name").last()
    assert newest is not None
    newest.delete()
    (told,) = wrong(client)
    assert f"leaderboard.{newest.name}" in told
    assert "runners.prepare" in told


@pytest.mark.django_db
def test_an_artifacts_folder_that_is_none_is_told(
    client: Client, ready: BoardSnapshot, artifacts: Path
) -> None:
    artifacts.rename(artifacts.with_name("elsewhere"))
    artifacts.write_text("no folder")
    assert any("artifacts folder cannot be written" in told for told in wrong(client))


@pytest.mark.django_db
@pytest.mark.parametrize("damage", [b"", b"no board", None], ids=["empty", "other", "missing"])
def test_a_board_that_cannot_be_read_is_told(
    client: Client, ready: BoardSnapshot, damage: bytes | None
) -> None:
    snapshot_file._remove(snapshot_file.folder_of(ready.sha256))
    path_of(ready.sha256).unlink()
    if damage is not None:
        path_of(ready.sha256).write_bytes(damage)
    (told,) = wrong(client)
    assert "the board of small cannot be read" in told


@pytest.mark.django_db
def test_a_suite_without_a_board_and_no_suite_at_all_are_told(
    client: Client, ready: BoardSnapshot, settings: Any
) -> None:
    BoardSnapshot.objects.all().delete()
    assert [told[:31] for told in wrong(client)] == ["no board of small was built yet"]
    settings.PLUMBLINE_SUITE = "nosuch"
    (told,) = wrong(client)
    assert told.startswith("there is no suite nosuch: ")


ASK = """
import json, django
django.setup()
from django.test import Client
client = Client(headers={"host": "10.1.2.3"})
live, ready = client.get("/healthz"), client.get("/readyz")
metrics = client.get("/metrics", headers={"authorization": "Bearer token-of-a-test"})
told = ready.content.decode() + metrics.content.decode()
print(json.dumps([live.status_code, ready.status_code, metrics.status_code, told]))
"""


def test_without_its_database_the_process_lives_and_is_not_ready(tmp_path: Path) -> None:
    variables = {
        **{name: value for name, value in os.environ.items() if "PLUMBLINE" not in name},
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_HOME": str(tmp_path),
        "PLUMBLINE_SECRET_KEY": "of a test, and long enough for a key that signs sessions",
        "PLUMBLINE_METRICS_TOKEN": "token-of-a-test",
        "PLUMBLINE_DATABASE_URL": "postgresql://somebody:hush-hush@127.0.0.1:1/nothing",
    }
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=variables, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert time.monotonic() - began < 50
    said = done.stdout.splitlines()[-1]
    assert said.startswith("[200, 503, 200, ")
    assert "plumbline_database_up 0.0" in said
    assert "the database does not answer" in said
    assert "hush-hush" not in said + done.stderr
    assert "somebody" not in said
