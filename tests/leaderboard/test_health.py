"""What tells an operator how the site is: health checks, metrics, logs, and how a process begins.

Liveness asks nothing; readiness says in plain words what keeps the site from its work.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Sum
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from structlog.contextvars import bound_contextvars

from leaderboard import logs
from leaderboard.models import BoardSnapshot, PoolOrder, Run, RunCost, Suite, Worker
from leaderboard.queue import orders
from leaderboard.samples import path_of
from leaderboard.snapshot import OWN, published
from leaderboard.snapshot import file as snapshot_file
from tests import generated
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import worker
from tests.leaderboard.site_process import python

TOKEN = "token-of-a-test"


# Health checks


@pytest.fixture
def ready(artifacts_folder: Path, suite: Suite) -> BoardSnapshot:
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
    assert 0 <= told["board_age_seconds"] < 3600
    assert told["free_disk_bytes"] > 0


@pytest.mark.django_db
def test_a_lacking_migration_is_named(client: Client, ready: BoardSnapshot) -> None:
    applied = MigrationRecorder(connection).migration_qs.filter(app="leaderboard")
    newest = applied.get(name="0001_tables")
    newest.delete()
    (told,) = wrong(client)
    assert f"leaderboard.{newest.name}" in told
    assert "runners prepare" in told


@pytest.mark.django_db
def test_an_artifacts_folder_that_is_none_is_told(
    client: Client, ready: BoardSnapshot, artifacts_folder: Path
) -> None:
    artifacts_folder.rename(artifacts_folder.with_name("elsewhere"))
    artifacts_folder.write_text("no folder")
    assert any("artifacts folder cannot be written" in told for told in wrong(client))


@pytest.mark.django_db
@pytest.mark.parametrize("damage", [b"no board", None], ids=["other", "missing"])
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


# Metrics


@pytest.fixture
def token(settings: Any) -> None:
    settings.PLUMBLINE_METRICS_TOKEN = TOKEN


def scraped(client: Client) -> dict[tuple[str, ...], float]:
    """By name and labels, with any host and without HTTPS, as a watcher asks."""
    headers = {"authorization": f"Bearer {TOKEN}", "host": "10.1.2.3"}
    page = client.get("/metrics", headers=headers)
    assert page.status_code == 200
    return {
        (sample.name.removeprefix("plumbline_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.content.decode())
        for sample in family.samples
    }


@pytest.mark.django_db
@pytest.mark.usefixtures("token")
def test_runs_and_workers_are_counted_by_what_they_are_at(client: Client, suite: Suite) -> None:
    now = timezone.now()
    make.make_submission(make.make_variant("lab/waiting"), suite)
    make.evaluated("lab/done", suite, {"cloze": 0.5, "mmlu": 0.5})
    failed, held = (
        make.make_submission(make.make_variant(name), suite).runs.all()[0]
        for name in ("lab/failed", "lab/running")
    )
    make.fail(failed, "ModelError", "no tokenizer")
    make.start(held, 1, 2)
    Run.objects.filter(state="queued").update(created=now - timedelta(seconds=100))
    oldest = Run.objects.filter(state="queued")[0]
    Run.objects.filter(pk=oldest.pk).update(created=now - timedelta(seconds=500))
    long_ago = Run.objects.filter(state="done")[0]
    Run.objects.filter(pk=long_ago.pk).update(finished=now - timedelta(hours=3))
    resting, lost, forgotten = worker(1), worker(2), worker(3)
    orders.give(PoolOrder.Kind.PAUSE, resting.name, by="ada")
    for gone, silent in ((lost, timedelta(hours=1)), (forgotten, timedelta(days=30))):
        type(gone).objects.filter(pk=gone.pk).update(seen=now - silent)
    type(lost).objects.filter(pk=worker(0).pk).update(refusal="no driver")
    type(lost).objects.filter(pk=worker(4).pk).update(seen=now - timedelta(hours=1), ended=now)
    published.build(suite, OWN)

    told = scraped(client)
    queued = Run.objects.filter(state="queued").count()
    assert (told["runs", "queued"], told["runs", "running"]) == (queued, 1)
    ended = {state: told["runs_ended_last_hour", state] for state in ("done", "failed")}
    assert ended == {"done": Run.objects.filter(state="done").count() - 1, "failed": 1}
    assert told["requests_answered_per_second",] == 4 * 40 / 3600  # one run of 40 questions
    assert 500 <= told["queue_oldest_run_age_seconds",] < 3600
    states = ("busy", "idle", "resting", "unable", "lost")
    at = {state: told["workers", state] for state in states}
    assert at == {"busy": 1, "idle": 0, "resting": 1, "unable": 1, "lost": 1}
    assert told["worker_memory_bytes", "cpu"] == 64 * 10**9 + 1
    assert 0 <= told["worker_oldest_heartbeat_age_seconds",] < 3600
    assert 0 <= told["snapshot_age_seconds",] < 3600
    assert told["database_up",] == 1
    ready = client.get("/readyz").json()
    assert ready["runs_waiting"] == queued
    assert 500 <= ready["oldest_waiting_seconds"] < 3600
    assert 0 <= ready["newest_heartbeat_seconds"] < 3600


@pytest.mark.django_db
@pytest.mark.usefixtures("token")
def test_each_worker_tells_of_its_devices_and_its_tokens(client: Client, suite: Suite) -> None:
    make.evaluated("lab/done", suite, {"cloze": 0.5, "mmlu": 0.5})
    told = scraped(client)
    (by,) = set(Run.objects.filter(state="done").values_list("worker", flat=True))
    took = RunCost.objects.aggregate(tokens=Sum("tokens"))["tokens"]
    assert took > 0
    assert told["worker_tokens_total", by] == took

    Run.objects.filter(state="done").update(worker=None)
    two, silent = worker(1), worker(2)
    in_use = [["0", 5, 80], ["1", 7, 90]]
    Worker.objects.filter(pk=two.pk).update(memory_in_use=in_use)
    long_ago = timezone.now() - timedelta(hours=1)
    Worker.objects.filter(pk=silent.pk).update(memory_in_use=in_use, tokens=9, seen=long_ago)
    told = scraped(client)
    assert told["worker_tokens_total", by] == took, "a counter never falls"
    assert told["worker_tokens_total", silent.name] == 9
    devices = {key[1:]: value for key, value in told.items() if key[0].startswith("device_memory")}
    assert {key for key in devices if silent.name in key} == set()
    assert told["device_memory_used_bytes", "1", two.name] == 7
    assert told["device_memory_total_bytes", "0", two.name] == 80


def test_where_no_token_is_set_there_are_no_metrics(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_METRICS_TOKEN = ""
    for sent in ({}, {"authorization": "Bearer "}):
        assert client.get("/metrics", headers=sent).status_code == 404


# Logs

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SECRETS = st.from_regex(r"[A-Za-z0-9/+!-]{8,30}", fullmatch=True)


def log_record(
    message: str, *arguments: object, failed: Exception | None = None
) -> logging.LogRecord:
    trouble = None
    if failed:
        try:
            raise failed
        except type(failed):
            trouble = sys.exc_info()
    return logging.LogRecord("site", logging.WARNING, __file__, 1, message, arguments, trouble)


@given(secret=SECRETS, before=WORDS, after=WORDS)
def test_a_secret_is_in_no_line_wherever_it_was_said(secret: str, before: str, after: str) -> None:
    said = f"{before} {secret}\n{after}"
    for formatter in (logs.Lines([secret]), logs.Json([secret])):
        with bound_contextvars(about=said, several=[said], deep={"in": said}):
            line = formatter.format(log_record("%s", said, failed=ValueError(said)))
        assert f" {secret}" not in line


@given(said=WORDS, bound=WORDS)
def test_an_event_is_one_line_of_json_with_all_that_was_said(said: str, bound: str) -> None:
    with bound_contextvars(run=bound):
        line = logs.Json().format(log_record("%s", said))
    assert len(line.split("\n")) == 1
    told = json.loads(line)
    assert (told["event"], told["run"]) == (logs.withheld(said), logs.withheld(bound))
    assert (told["level"], told["logger"]) == ("warning", "site")


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("with hf_abcdefgh12345", "with hf_(hidden)"),
        ("postgresql://ada:hush@db:5432/x", "postgresql://db:5432/x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer (hidden)"),
        ("three of 40", "three of 40"),
    ],
)
def test_what_looks_like_a_secret_is_left_out(said: str, left: str) -> None:
    assert logs.withheld(said) == left


# How a process begins

BOARDS = ("/", "/?style=cloze", "/?style=mmlu", "/styles")
FIRST_REQUESTS = """
import gzip, json, sys
import leaderboard.wsgi
from django.conf import settings
from django.test import Client
from django.test.utils import setup_test_environment

host = settings.ALLOWED_HOSTS[0]
setup_test_environment()  # notes which templates are rendered
headers = {"host": host, "accept-encoding": "gzip", "authorization": "Bearer token-of-a-test"}
client = Client(raise_request_exception=False, headers=headers)
found = []
for address in sys.argv[1:]:
    answer = client.get(address)
    rendered = [template.name for template in answer.templates]
    content = answer.content
    if answer.get("Content-Encoding") == "gzip":
        content = gzip.decompress(content)
    text = content.decode(errors="replace")
    found.append({"status": answer.status_code, "rendered": rendered, "text": text})
print(json.dumps(found))
"""


SITE = {
    "PLUMBLINE_SUITE": "generated",
    "PLUMBLINE_SECRET_KEY": "of a test, and long enough for a key that signs sessions",
    "PLUMBLINE_METRICS_TOKEN": TOKEN,
}


def started(home: Path, *addresses: str, **variables: str) -> list[dict[str, Any]]:
    """What a process that has just begun answers to requests for these addresses."""
    python(home, "manage.py", "collectstatic", "--noinput", **SITE, **variables)
    done = python(home, "-c", FIRST_REQUESTS, *addresses, **SITE, **variables)
    assert "hush-hush" not in done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_boards_are_rendered_before_the_first_reader_comes(tmp_path: Path) -> None:
    generated.copy_to(tmp_path)
    *boards, other = started(tmp_path, *BOARDS, "/?q=llama")
    assert [(board["status"], board["rendered"]) for board in boards] == [(200, [])] * len(BOARDS)
    assert "board/page.html" in other["rendered"]


def test_without_its_database_a_process_begins_lives_and_is_not_ready(tmp_path: Path) -> None:
    away = "postgresql://somebody:hush-hush@127.0.0.1:1/nothing"
    addresses = ("/", "/healthz", "/readyz", "/metrics")
    page, live, ready, metrics = started(tmp_path, *addresses, PLUMBLINE_DATABASE_URL=away)
    assert page["status"] == 500
    assert "Our fault" in page["text"]
    assert "Traceback" not in page["text"]
    assert (live["status"], ready["status"], metrics["status"]) == (200, 503, 200)
    assert "the database does not answer" in ready["text"]
    assert "plumbline_database_up 0.0" in metrics["text"]
    for answer in (page, ready, metrics):
        assert "hush-hush" not in answer["text"]
        assert "somebody" not in answer["text"]
