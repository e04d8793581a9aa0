"""The queue page: every state, what waits for what and how long, failures first-class."""

from __future__ import annotations

import html as html_module
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from leaderboard.models import Run, Suite, SuiteEntry, Worker
from leaderboard.queue import claims
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


def test_what_waits_for_machines_that_had_no_room_is_told_so(client: Client, suite: Suite) -> None:
    make.make_worker()
    Worker.objects.update(full_until=timezone.now() + timedelta(minutes=5))
    assert "would start at once, if a worker’s machine had room." in section(get(client), "running")
    make.queued_run(make.make_variant("lab/waits"), suite.entries.all()[0])
    html = get(client)
    assert "the machines that can hold it had no room" in section(html, "waiting")
    assert "no worker can take it" not in html
    assert "1 alive, all full" in html


def test_each_run_stands_under_its_state(client: Client, suite: Suite) -> None:
    for name in ("runs", "waits", "failed", "done", "gone"):
        make.queued_run(make.make_variant(f"lab/{name}"), suite.entries.all()[0])
    by_name = {run.variant.hub_model.name: run for run in Run.objects.all()}
    make.start(by_name["runs"], 30, 120)
    make.fail(by_name["failed"], "ModelError", "no vector for token 9", "log line")
    make.finish(by_name["done"])
    claims.cancel(by_name["gone"], by="ada")
    html = get(client)
    assert 'lab/</span><wbr><span class="nm">runs' in section(html, "running")
    assert 'max="120" value="30"' in section(html, "running")
    for name, part in (
        ("waits", "waiting"),
        ("failed", "failed"),
        ("done", "done"),
        ("gone", "withdrawn"),
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
    claim = claims.claim_next(make.make_worker())
    assert claim is not None
    assert claim.runs[0].variant.hub_model.name == "model-1"


def test_a_queue_without_workers_says_that_nothing_starts(client: Client, suite: Suite) -> None:
    make.queued_run(make.make_variant(), suite.entries.all()[0])
    assert "No worker is alive, so nothing starts just now." in get(client)
    make.make_worker("bench-2")
    html = get(client)
    assert "No worker is alive" not in html
    assert "1 worker alive" in section(html, "workers")
    assert 'href="/pool"' in section(html, "workers")


def test_a_worker_that_stopped_reporting_is_not_alive(client: Client, suite: Suite) -> None:
    worker = make.make_worker("asleep")
    Worker.objects.filter(pk=worker.pk).update(seen=timezone.now() - timedelta(hours=1))
    assert "asleep" not in get(client)


def test_a_run_too_large_for_every_worker_says_what_it_waits_for(
    client: Client, suite: Suite
) -> None:
    make.make_worker(memory_bytes=8 * 10**9)
    make.queued_run(make.make_variant(parameters=70 * 10**9), suite.entries.all()[0])
    waiting = section(get(client), "waiting")
    assert "Waits for a larger worker: it needs 337 GB, the largest alive has 8 GB." in waiting
    assert "no worker can take it" in waiting


def test_a_run_in_a_precision_that_no_worker_computes_in_says_so(
    client: Client, suite: Suite
) -> None:
    make.make_worker("old")
    Worker.objects.update(dtypes=["float32"])
    make.queued_run(make.make_variant(dtype="bfloat16"), suite.entries.all()[0])
    assert "Waits for a worker that computes in bfloat16: none that is alive does." in get(client)


def test_a_model_is_one_line_with_the_positions_of_its_runs(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    make.make_submission(make.make_variant("lab/two"), suite)
    html = get(client)
    assert [row.split()[0] for row in rows(html)] == ["1–3", "4–6"]
    waiting = section(html, "waiting")
    for run in submission.runs.all():
        assert f'href="/runs/{run.pk}"' in waiting


def test_a_wait_is_told_once_enough_is_known_and_until_then_guessed(
    client: Client, suite: Suite
) -> None:
    make.make_worker()
    entry = suite.entries.all()[0]
    runs = [make.queued_run(make.make_variant(f"lab/m{n}"), entry) for n in range(2)]
    first, second = rows(get(client))
    assert "Starts in next" in first
    assert "Takes unknown" in first
    assert "Starts in unknown" in second
    finished_in(timedelta(minutes=12), entry, times=1)
    first, second = rows(get(client))
    assert "Takes 3 to 50 min a guess: too few such runs are known" in first
    assert "Starts in 3 to 50 min a guess" in second
    finished_in(timedelta(minutes=12), entry, first=1)
    first, second = rows(get(client))
    assert "Takes about 12 min" in first
    assert "Starts in about 12 min" in second
    make.start(runs[0], 60, 120)
    assert "about 6 min left" in text(section(get(client), "running"))
    assert "Starts in about 6 min" in rows(get(client))[0]


def rows(html: str) -> list[str]:
    """The lines of the waiting table as text, each cell after its heading."""
    body = section(html, "waiting").split("<tbody")[1].split("</tbody>")[0]
    told = re.sub(r'data-l="([^"]+)">', r">\1 ", body)
    return [text(row) for row in told.split('<tr role="row">')[1:]]


def finished_in(length: timedelta, entry: SuiteEntry, times: int = 5, first: int = 0) -> None:
    """Runs of this column, as many as an estimate needs, that took so long each."""
    worker = make.make_worker()
    for number in range(first, first + times):
        started = timezone.now() - timedelta(days=3) + number * timedelta(hours=2)
        make.queued_run(
            make.make_variant(f"old/m{number}"),
            entry,
        )
        Run.objects.filter(variant__hub_model__repo_id=f"old/m{number}").update(
            state="done", worker=worker, started=started, finished=started + length
        )


def test_a_search_is_for_models_in_every_list_and_keeps_their_positions(
    client: Client, suite: Suite
) -> None:
    entry = suite.entries.all()[0]
    make.make_worker()
    for name in ("heron-one", "finch-two", "heron-three"):
        make.queued_run(make.make_variant(f"lab/{name}"), entry)
    make.fail(make.queued_run(make.make_variant("lab/heron-bad"), entry), "ModelError", "no luck")
    make.fail(make.queued_run(make.make_variant("lab/finch-bad"), entry), "ModelError", "no luck")
    make.finish(make.queued_run(make.make_variant("lab/finch-done"), entry))
    html = get(client, "/queue?q=HERON")
    assert re.findall(r'"nm">([\w-]+)', html) == ["heron-one", "heron-three", "heron-bad"]
    assert [row.split()[0] for row in rows(html)] == ["1", "3"]
    assert 'hx-get="/queue?q=HERON"' in html
    assert "No model whose ID has “swan” in it" in get(client, "/queue?q=swan")


def test_failures_are_filtered_by_who_must_act(client: Client, suite: Suite) -> None:
    entry = suite.entries.all()[0]
    for name, error_class in (("a", "ModelError"), ("b", "ModelError"), ("c", "TaskError")):
        run = make.queued_run(make.make_variant(f"lab/{name}"), entry)
        make.fail(run, error_class, f"reason {name}")
    assert "All 3 The model’s 2 The task’s 1 Ours 0" in text(section(get(client), "failed"))
    html = section(get(client, "/queue?fault=task"), "failed")
    assert "reason c" in html
    assert "reason a" not in html
    assert "None of these is in this group" in get(client, "/queue?fault=us")
    assert client.get("/queue?fault=nobody")["Location"] == "/queue"


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


# What several readers are given


def test_readers_of_one_moment_are_given_one_page_until_something_happens(
    client: Client, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = timezone.now().replace(microsecond=0)
    monkeypatch.setattr(timezone, "now", lambda: moment)
    entry = suite.entries.all()[0]
    run = make.queued_run(make.make_variant("lab/first"), entry)
    etag = client.get("/queue")["ETag"]
    assert client.get("/queue", headers={"If-None-Match": etag}).status_code == 304
    for happens, words in (
        (lambda: make.queued_run(make.make_variant("lab/second"), entry), '"nm">second'),
        (lambda: make.start(run, 30, 120), 'value="30"'),
        (lambda: make.make_worker("bench-9"), "2 workers alive"),
    ):
        assert words not in get(client)
        happens()
        assert words in get(client)


def test_a_page_of_the_queue_is_given_for_seconds_only(
    client: Client, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: moment)
    etag = client.get("/queue")["ETag"]
    moment += timedelta(seconds=4)
    assert client.get("/queue")["ETag"] != etag


# Failures: one cause once, all of them to be reached, none that was put right


def text(html: str) -> str:
    return " ".join(html_module.unescape(re.sub(r"<[^>]+>", "", html)).split())


def failed_many(suite: Suite, n: int) -> None:
    for number in range(n):
        run = make.queued_run(make.make_variant(f"lab/broken-{number}"), suite.entries.all()[0])
        make.fail(run, "ModelError", f"no vector for token {number}")


def test_every_failure_can_be_reached_page_by_page(client: Client, suite: Suite) -> None:
    failed_many(suite, 14)
    first, second = (
        section(get(client), "failed"),
        section(get(client, "/queue?failed=2"), "failed"),
    )
    assert "1–10 of 14" in first
    assert "11–14 of 14" in second
    assert 'href="/queue?failed=2#failed"' in first
    names = re.findall(r'"nm">(broken-\d+)', first + second)
    assert sorted(names) == sorted(f"broken-{number}" for number in range(14))


def test_the_page_that_is_read_is_the_one_that_is_refreshed(client: Client, suite: Suite) -> None:
    failed_many(suite, 13)
    assert 'hx-get="/queue?failed=2"' in get(client, "/queue?failed=2")
    assert 'hx-get="/queue"' in get(client)


@pytest.mark.parametrize("page", ["99", "9" * 5000])
def test_a_page_beyond_the_last_leads_to_the_last(client: Client, suite: Suite, page: str) -> None:
    failed_many(suite, 13)
    assert client.get(f"/queue?failed={page}")["Location"] == "/queue?failed=2"


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


# Long lists


def test_every_list_has_pages_to_its_last_row(client: Client, suite: Suite) -> None:
    entry = suite.entries.all()[0]
    for number in range(30):
        run = make.queued_run(make.make_variant(f"lab/m{number:02}"), entry)
        if number % 2:
            make.finish(run, n=4)
    html = get(client)
    assert "Older" in section(html, "done")
    older = section(get(client, "/queue?done=2"), "done")
    assert len(re.findall(r'"nm">m\d+', older)) == 3
    assert "Newer" in older
    assert "Older" not in older
    for number in range(30, 45):
        make.queued_run(make.make_variant(f"lab/m{number:02}"), entry)
    waiting = section(get(client, "/queue?waiting=2"), "waiting")
    assert "26–30 of 30" in waiting
    assert rows(get(client, "/queue?waiting=2"))[-1].startswith("30 ")


@pytest.mark.parametrize("n", [10, 1_000])
def test_the_number_of_queries_does_not_grow_with_the_queue(
    client: Client, suite: Suite, django_assert_max_num_queries: Any, n: int
) -> None:
    fill(suite, n)
    with django_assert_max_num_queries(QUERIES):
        get(client)


QUERIES = 20


def fill(suite: Suite, n: int) -> None:
    """So many runs, a quarter in each state, written directly: the queue itself would take long."""
    now, entry = timezone.now(), suite.entries.all()[0]
    worker = make.make_worker()
    make.make_worker("bench-2")
    variants = [make.make_variant(f"lab/m{number}") for number in range(n)]
    states = ("queued", "running", "done", "failed")
    Run.objects.bulk_create(
        Run(
            variant=variant,
            task=entry.task,
            shots=0,
            run_key=entry.run_key,
            needed_bytes=1,
            state=(state := states[number % 4]),
            started=now - timedelta(hours=2),
            finished=now - timedelta(seconds=number) if state in ("done", "failed") else None,
            worker=None if state == "queued" else worker,
            lease_token=uuid4() if state == "running" else None,
            lease_until=now + timedelta(hours=1) if state == "running" else None,
            error_class="ModelError" if state == "failed" else "",
            error_message=f"reason {number}" if state == "failed" else "",
        )
        for number, variant in enumerate(variants)
    )
