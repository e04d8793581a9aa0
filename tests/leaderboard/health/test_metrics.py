"""What `/metrics` says of queue, workers and board, and what it asks the database for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from leaderboard.models import PoolOrder, Run, RunCost, Suite, Worker
from leaderboard.queue import orders
from leaderboard.snapshot import OWN, published
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import worker

TOKEN = "of this test"


@pytest.fixture(autouse=True)
def _token(settings: Any) -> None:
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
def test_runs_and_workers_are_counted_by_what_they_are_at(client: Client, suite: Suite) -> None:
    now = timezone.now()
    make.make_submission(make.make_variant("lab/waiting"), suite)
    make.evaluated("lab/done", suite, {"cloze": 0.5, "mmlu": 0.5})
    failed = make.make_submission(make.make_variant("lab/failed"), suite).runs.first()
    held = make.make_submission(make.make_variant("lab/running"), suite).runs.first()
    assert failed is not None
    assert held is not None
    make.fail(failed, "ModelError", "no tokenizer")
    make.start(held, 1, 2)
    Run.objects.filter(state="queued").update(created=now - timedelta(seconds=100))
    oldest = Run.objects.filter(state="queued").first()
    assert oldest is not None
    Run.objects.filter(pk=oldest.pk).update(created=now - timedelta(seconds=500))
    long_ago = Run.objects.filter(state="done").first()
    assert long_ago is not None
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
    assert 500 <= told["queue_oldest_run_age_seconds",] < 520
    states = ("busy", "idle", "resting", "unable", "lost")
    at = {state: told["workers", state] for state in states}
    assert at == {"busy": 1, "idle": 0, "resting": 1, "unable": 1, "lost": 1}
    assert told["worker_memory_bytes", "cpu"] == 64 * 10**9 + 1
    assert 0 <= told["worker_oldest_heartbeat_age_seconds",] < 60
    assert 0 <= told["snapshot_age_seconds",] < 60
    assert told["database_up",] == 1


@pytest.mark.django_db
def test_each_worker_tells_of_its_devices_and_its_tokens(client: Client, suite: Suite) -> None:
    make.evaluated("lab/done", suite, {"cloze": 0.5, "mmlu": 0.5})
    told = scraped(client)
    (by,) = set(Run.objects.filter(state="done").values_list("worker", flat=True))
    assert by is not None
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


@pytest.mark.django_db
def test_no_question_for_it_reads_the_runs_from_end_to_end(client: Client, suite: Suite) -> None:
    make.make_submission(make.make_variant("lab/waiting"), suite)
    with CaptureQueriesContext(connection) as asked:
        scraped(client)
    assert 0 < len(asked) < 15
    plans = []
    with connection.cursor() as cursor:
        for question in asked:
            cursor.execute(f"EXPLAIN QUERY PLAN {question['sql']}")
            plans += [line[-1] for line in cursor.fetchall()]
    of_runs = [line for line in plans if "leaderboard_run" in line or "USING" in line]
    assert of_runs
    assert not [line for line in of_runs if line.startswith("SCAN leaderboard_run")]


def test_where_no_token_is_set_there_are_no_metrics(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_METRICS_TOKEN = ""
    for sent in ({}, {"authorization": "Bearer "}):
        assert client.get("/metrics", headers=sent).status_code == 404
