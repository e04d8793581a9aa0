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


def test_only_the_latest_attempt_of_a_task_stands_open_on_the_model_page(
    client: Client, suite: Suite
) -> None:
    entries, variant = list(suite.entries.all()), make.make_variant("lab/one")
    for reason in ("first reason", "second reason"):
        make.fail(make.queued_run(variant, entries[0]), "ModelError", reason)
    make.fail(make.queued_run(variant, entries[1]), "ModelError", "put right since")
    make.finish(make.queued_run(variant, entries[1]))
    shown, folded = get(client, "/models/lab/one").split("<details", 1)
    assert "second reason" in shown
    assert "first reason" not in shown
    assert "put right since" not in shown
    assert "2 earlier attempts" in folded
    assert "first reason" in folded


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


# Failures: one cause once, all of them to be reached, none that was put right


def text(html: str) -> str:
    return " ".join(html_module.unescape(re.sub(r"<[^>]+>", "", html)).split())


def failed_many(suite: Suite, n: int) -> None:
    for number in range(n):
        run = make.queued_run(make.make_variant(f"lab/broken-{number}"), suite.entries.all()[0])
        make.fail(run, "ModelError", f"no vector for token {number}")


def test_every_failure_can_be_reached_page_by_page(client: Client, suite: Suite) -> None:
    failed_many(suite, 14)
    first, second = section(get(client), "failed"), section(get(client, "/queue?page=2"), "failed")
    assert "1–12 of 14" in first
    assert "13–14 of 14" in second
    assert 'href="/queue?page=2#failed"' in first
    names = re.findall(r'"nm">(broken-\d+)', first + second)
    assert sorted(names) == sorted(f"broken-{number}" for number in range(14))


def test_the_page_that_is_read_is_the_one_that_is_refreshed(client: Client, suite: Suite) -> None:
    failed_many(suite, 13)
    assert 'hx-get="/queue?page=2"' in get(client, "/queue?page=2")
    assert 'hx-get="/queue"' in get(client)


@pytest.mark.parametrize("page", ["99", "9" * 5000])
def test_a_page_beyond_the_last_leads_to_the_last(client: Client, suite: Suite, page: str) -> None:
    failed_many(suite, 13)
    assert client.get(f"/queue?page={page}")["Location"] == "/queue?page=2"


def test_one_cause_of_a_submission_is_one_card_with_all_its_tasks(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    for run in submission.runs.all():
        make.fail(run, "ModelError", "no tokenizer")
    html = get(client)
    cards = section(html, "failed")
    assert cards.count('<article class="failed">') == 1
    for run in submission.runs.all():
        assert f'href="/runs/{run.pk}"' in cards
    assert "Failed 3" in text(html)


def test_a_failure_that_was_repeated_is_no_open_failure(client: Client, suite: Suite) -> None:
    entry, variant = suite.entries.all()[0], make.make_variant("lab/one")
    make.fail(make.queued_run(variant, entry), "ModelError", "no tokenizer")
    again = make.queued_run(variant, entry)
    for _ in ("queued", "done"):
        html = get(client)
        assert "No run has failed" in section(html, "failed")
        assert "Failed 0" in text(html)
        if again.state == "queued":
            make.finish(again)


# The submission page


@pytest.fixture
def opened(suite: Suite, settings: Any) -> Suite:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    return suite


def test_a_cause_stands_once_on_a_submission_with_the_remedy_before_the_repeat(
    client: Client, opened: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), opened)
    for run in submission.runs.all():
        make.fail(run, "ModelError", "no tokenizer")
    html = get(client, f"/submissions/{submission.pk}")
    assert html.count('<article class="failed">') == 1
    (primary,) = re.findall(r'class="btn primary"[^>]*>([^<]+)<', html)
    assert primary == "Check the newest revision"
    assert html.index(primary) < html.index("Submit again")


def test_after_a_failure_of_ours_repeating_is_the_first_thing_to_do(
    client: Client, opened: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), opened)
    run = submission.runs.all()[0]
    for _ in range(queue.MAX_ATTEMPTS):
        Run.objects.filter(pk=run.pk).update(not_before=None)
        make.fail(run, "InfraError", "the disk is full")
    html = get(client, f"/submissions/{submission.pk}")
    (primary,) = re.findall(r'class="btn primary"[^>]*>([^<]+)<', html)
    assert primary.split() == ["Submit", "again:", "repeat", "what", "failed"]


def test_a_submission_that_was_repeated_leads_to_the_later_one(
    client: Client, opened: Suite
) -> None:
    variant = make.make_variant("lab/one")
    earlier = make.make_submission(variant, opened)
    for run in earlier.runs.all():
        make.fail(run, "ModelError", "no tokenizer")
    later = make.make_submission(variant, opened)
    html = get(client, f"/submissions/{earlier.pk}")
    assert "Repeated on" in html
    assert f'href="/submissions/{later.pk}"' in html
    assert "Submit again" not in html
    assert "Check the newest revision" not in html
    assert "Repeated on" not in get(client, f"/submissions/{later.pk}")


def test_a_withdrawal_by_somebody_else_is_a_page_and_no_fault_of_ours(
    client: Client, opened: Suite, caplog: pytest.LogCaptureFixture
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), opened)
    response = client.post(f"/submissions/{submission.pk}/withdraw")
    assert response.status_code == 403
    assert "Only who submitted a model" in response.content.decode()
    assert not any(record.exc_info for record in caplog.records)
