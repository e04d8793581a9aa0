"""The pool: who is alive, what each worker runs now, and who was lost."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from leaderboard.models import Suite, Worker
from leaderboard.queue import live_workers
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    return make.make_suite(benchmarks=("facts",))


def text(client: Client) -> str:
    html = client.get("/pool").content.decode().partition('id="live"')[2]
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def silent_for(name: str, silence: timedelta) -> None:
    make.make_worker(name)
    Worker.objects.filter(name=name).update(seen=timezone.now() - silence)


def test_a_worker_shows_its_run_with_link_and_progress(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    run = make.start(submission.runs.order_by("task__name")[0], 30, 160)
    html = client.get("/pool").content.decode()
    assert f'href="/runs/{run.pk}"' in html
    assert f'<progress id="bar-{run.pk}" max="160" value="30">' in html
    assert "Alive 1 Busy 1 Memory for models 64 GB Waiting runs 2" in text(client)
    assert "30 of 160 requests answered answering" in text(client)


def test_an_idle_worker_waits_and_a_silent_one_is_lost(client: Client) -> None:
    make.make_worker("idle-one", memory_bytes=80 * 10**9)
    silent_for("lost-one", timedelta(minutes=3))
    silent_for("long-gone", timedelta(days=8))
    alive, lost = text(client).split("Not seen lately")
    assert "idle-one cpu 80 GB float32, bfloat16, float16 Waits for a run that fits." in alive
    assert "… ago" not in alive
    assert "Lost seen" in lost
    assert "lost-one" in lost
    assert "long-gone" not in lost


def test_a_worker_whose_machine_is_full_is_told_so(client: Client) -> None:
    worker = make.make_worker("full-one")
    Worker.objects.update(full_until=timezone.now() + timedelta(minutes=5))
    found = text(client)
    assert f"{worker.name} cpu 64 GB float32, bfloat16, float16 Takes no runs. " in found
    assert "Full Its machine had no room: takes nothing until" in found


def test_a_worker_whose_gpu_cannot_be_used_is_there_and_can_hold_nothing(
    client: Client, admin_client: Client, suite: Suite
) -> None:
    worker = make.make_worker("broken-one", memory_bytes=0)
    Worker.objects.update(refusal="cuInit ends with 304")
    make.make_submission(make.make_variant("lab/one"), suite)
    found = text(client)
    assert f"{worker.name} cpu float32, bfloat16, float16 Takes no runs. Cannot work" in found
    assert "Its GPU cannot be used: it tries again every minute" in found
    assert "cuInit" not in found
    assert "cuInit ends with 304" in text(admin_client)
    assert "no worker" in client.get("/queue").content.decode().lower()
    assert not live_workers()


def test_without_workers_it_says_what_becomes_of_submissions(client: Client) -> None:
    found = text(client)
    assert "Alive 0 Busy 0 Memory for models none" in found
    assert "Submissions are kept and wait" in found
    assert "Not seen lately" not in found


def test_its_queries_do_not_grow_with_workers_and_runs(
    client: Client, suite: Suite, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(5):
        client.get("/pool")
    for number in range(5):
        submission = make.make_submission(make.make_variant(f"lab/m-{number}"), suite)
        make.start(submission.runs.order_by("task__name")[0], 3, 160)
        make.make_worker(f"worker-{number}")
    with django_assert_num_queries(5):
        client.get("/pool")
