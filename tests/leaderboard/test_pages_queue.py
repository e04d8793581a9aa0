"""The queue and the model page: every state, failures first-class."""

from __future__ import annotations

import html as html_module
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from leaderboard import queue
from leaderboard.models import Run, Suite, Worker
from tests.leaderboard import factories as make


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",))


def get(client: Client, address: str = "/queue") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def section(html: str, name: str) -> str:
    start = html.index(f'aria-labelledby="{name}"')
    return html_module.unescape(html[start : html.index("</section>", start)])


def test_an_empty_queue_says_so_in_every_part(client: Client, suite: Suite) -> None:
    html = get(client)
    assert "Nothing is running" in section(html, "running")
    assert "Nothing is waiting" in section(html, "waiting")
    assert "No run has failed" in section(html, "failed")
    assert "No run is done yet" in section(html, "done")
    assert "No worker has reported" in section(html, "workers")


def test_each_run_stands_under_its_state(client: Client, suite: Suite) -> None:
    for name in ("runs", "waits", "failed", "done", "gone"):
        make.queued_run(make.make_variant(f"lab/{name}"), suite.entries.all()[0])
    by_name = {run.variant.hub_model.name: run for run in Run.objects.all()}
    make.start(by_name["runs"], 30, 120)
    make.fail(by_name["failed"], "ModelError", "no vector for token 9", "log line")
    make.finish(by_name["done"])
    queue.cancel(by_name["gone"], by="ada")
    html = get(client)
    assert 'lab/</span><wbr><span class="nm">runs' in section(html, "running")
    assert 'max="120" value="30"' in section(html, "running")
    for name, part in (
        ("waits", "waiting"),
        ("failed", "failed"),
        ("done", "done"),
        ("gone", "cancelled"),
    ):
        assert f'<span class="nm">{name}</span>' in section(html, part), name
    assert "no vector for token 9" in section(html, "failed")
    assert "log line" in section(html, "failed")


def test_waiting_runs_are_numbered_in_the_order_of_their_claims(
    client: Client, suite: Suite
) -> None:
    entry = suite.entries.all()[0]
    for number, priority in enumerate((0, 5, 0)):
        make.queued_run(make.make_variant(f"lab/model-{number}"), entry, priority=priority)
    waiting = section(get(client), "waiting")
    assert re.findall(r'"nm">(model-\d)', waiting) == ["model-1", "model-0", "model-2"]
    claim = queue.claim_next(make.make_worker())
    assert claim is not None
    assert claim.runs[0].variant.hub_model.name == "model-1"


def test_a_queue_without_workers_says_that_nothing_starts(client: Client, suite: Suite) -> None:
    make.queued_run(make.make_variant(), suite.entries.all()[0])
    assert "No worker is alive, so nothing starts." in get(client)
    make.make_worker("bench-2")
    html = get(client)
    assert "No worker is alive" not in html
    assert "bench-2" in section(html, "workers")


def test_a_worker_that_stopped_reporting_is_not_alive(client: Client, suite: Suite) -> None:
    worker = make.make_worker("asleep")
    Worker.objects.filter(pk=worker.pk).update(seen=timezone.now() - timedelta(hours=1))
    assert "asleep" not in get(client)


def test_a_run_too_large_for_every_worker_says_what_it_waits_for(
    client: Client, suite: Suite
) -> None:
    make.make_worker(memory_bytes=8 * 10**9)
    make.queued_run(make.make_variant(parameters=70 * 10**9), suite.entries.all()[0])
    assert "Waits for a larger worker: the largest alive has 8 GB." in get(client)


def test_a_run_that_failed_by_our_fault_waits_with_its_reason(client: Client, suite: Suite) -> None:
    run = make.queued_run(make.make_variant(), suite.entries.all()[0])
    make.fail(run, "InfraError", "the disk is full")
    waiting = section(get(client), "waiting")
    assert "Tried 1 time, failed by our fault" in waiting
    assert "the disk is full" in waiting


def test_hostile_reasons_and_logs_are_text(client: Client, suite: Suite) -> None:
    run = make.queued_run(make.make_variant(), suite.entries.all()[0])
    make.fail(run, "ModelError", "<script>alert(1)</script>", "</pre><script>alert(2)</script>")
    assert "<script>alert" not in get(client)


# The model page


def test_a_model_page_shows_rank_numbers_and_failures(client: Client, suite: Suite) -> None:
    variant = make.make_variant("lab/one")
    submission = make.make_submission(variant, suite)
    done, failed = submission.runs.get(task__name="facts"), submission.runs.get(task__style="mmlu")
    make.finish(done)
    make.fail(failed, "TaskError", "column answer is missing")
    html = get(client, "/models/lab/one")
    result = done.results.get(metric="acc", subset="")
    assert "Rank <b>1</b> of 1" in html
    assert f">{100 * result.value:.1f}</a>" in html
    assert "column answer is missing" in html
    assert f'href="/submissions/{submission.pk}"' in html
    assert variant.commit in html


def test_each_commit_and_precision_of_a_model_has_its_own_section(
    client: Client, suite: Suite
) -> None:
    make.make_variant("lab/one")
    make.make_variant("lab/one", dtype="bfloat16")
    html = get(client, "/models/lab/one")
    assert html.count('<aside class="stack">') == 2


def test_an_unknown_model_is_not_found_and_names_those_close_by(
    client: Client, suite: Suite
) -> None:
    make.make_variant("lab/heron-7b")
    response = client.get("/models/lab/heron-70b")
    html = response.content.decode()
    assert response.status_code == 404
    assert 'href="/models/lab/heron-7b"' in html
    assert 'href="/submit?model=lab/heron-70b"' in html
