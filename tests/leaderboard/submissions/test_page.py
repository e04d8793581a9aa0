"""The submission page: how its runs do, what comes next, what its submitter can do."""

from __future__ import annotations

import html as html_module
import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard.models import Run, Submission, Suite, Worker
from leaderboard.queue import claims
from leaderboard.queue.pace import ENOUGH
from leaderboard.snapshot import published
from tests.leaderboard import factories as make


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    caches["local"].clear()


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",))


def get(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


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
    for _ in range(claims.MAX_ATTEMPTS):
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


# What happens next


def text(html: str) -> str:
    return " ".join(html_module.unescape(re.sub(r"<[^>]+>", "", html)).split())


def page(client: Client, submission: Submission) -> str:
    return text(get(client, f"/submissions/{submission.pk}"))


def test_a_waiting_submission_knows_its_position_and_each_run_its_own(
    client: Client, opened: Suite
) -> None:
    make.make_worker("bench-1")
    make.make_submission(make.make_variant("lab/first"), opened)
    second = make.make_submission(make.make_variant("lab/second"), opened)
    said = page(client, second)
    assert "In the queue position 4" in said
    assert "Starts in unknown Then takes unknown" in said
    for position in (4, 5, 6):
        assert f"position {position} in the queue" in said
    assert "bench-1 is the only worker that can hold it" in said


def test_with_enough_finished_runs_it_says_when_and_how_long(client: Client, opened: Suite) -> None:
    worker = make.make_worker()
    for entry in opened.entries.all():
        for number in range(ENOUGH):
            done = timezone.now() - timedelta(days=9, hours=number + 10 * entry.position)
            run = make.queued_run(make.make_variant(f"old/{entry.position}-{number}"), entry)
            Run.objects.filter(pk=run.pk).update(
                state="done",
                worker=worker,
                started=done - timedelta(minutes=10),
                finished=done,
            )
    make.make_submission(make.make_variant("lab/first"), opened)
    second = make.make_submission(make.make_variant("lab/second"), opened)
    said = page(client, second)
    assert "Starts in about 30 min" in said
    assert "Then takes about 30 min" in said


@pytest.mark.parametrize(
    ("worker", "variant", "words"),
    [
        (None, {}, "No worker is alive, so nothing starts just now."),
        ({"memory_bytes": 10**9}, {"parameters": 10**10}, "Waits for a larger worker"),
        ({"dtypes": ["float32"]}, {"dtype": "float16"}, "a worker that computes in float16"),
    ],
)
def test_what_keeps_it_waiting_is_the_first_thing_said_of_what_comes_next(
    client: Client, opened: Suite, worker: Any, variant: dict[str, Any], words: str
) -> None:
    if worker:
        make.make_worker()
        Worker.objects.update(**worker)
    submission = make.make_submission(make.make_variant("lab/one", **variant), opened)
    said = page(client, submission)
    assert words in said[said.index("What happens next") :]
    assert "Starts in no worker can take it" in said


def test_after_a_failure_of_ours_it_says_that_it_is_tried_again(
    client: Client, opened: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), opened)
    make.make_worker()
    for run in submission.runs.all():
        make.fail(run, "InfraError", "the disk is full")
    assert "We failed at it; it rests until" in page(client, submission)


def test_when_all_is_taken_it_says_so(client: Client, opened: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), opened)
    claimed = [claims.claim_next(make.make_worker()) for _ in range(2)]
    assert all(claimed)
    assert "In the queue all taken" in page(client, submission)


def title(html: str) -> str:
    return text(html[html.index("<title>") : html.index("</title>")])


def test_a_finished_submission_shows_rank_average_and_scores_and_its_title_says_so(
    client: Client, opened: Suite
) -> None:
    make.evaluated("lab/other", opened, {"cloze": 0.2, "mmlu": 0.2, "hybrid": 0.2}, n=60)
    submission = make.make_submission(make.make_variant("lab/one"), opened)
    address = f"/submissions/{submission.pk}"
    runs = list(submission.runs.all())
    assert title(get(client, address)).startswith("0 of 3 done: lab/one")
    make.finish(runs[0], skill=0.9, n=60)
    html = get(client, address)
    assert title(html).startswith("1 of 3 done: lab/one")
    assert score_of(runs[0]) in text(html)
    for run in runs[1:]:
        make.finish(run, skill=0.9, n=60)
    html = get(client, address)
    assert title(html).startswith("Done: lab/one")
    assert "Its rank and average appear here with the next board" in text(html)
    assert "data-refreshed" in html, "until the board has it the page goes on looking"
    make.publish(opened)
    board = published.newest(opened, "own")
    assert board is not None
    html = get(client, address)
    assert title(html).startswith("Rank 1: lab/one")
    average = 100 * board.average.value[board.row_of[submission.variant_id]]
    assert re.search(rf"Rank 1 \([^)]*\) of 2, average {average:.1f} ±", text(html))
    for run in runs:
        assert score_of(run) in text(html)
    assert "data-refreshed" not in html


def score_of(run: Run) -> str:
    result = run.results.get(metric=run.task.entries.get().metric, subset="")
    return f"{100 * result.value:.1f} ±{100 * (result.high - result.low) / 2:.1f}"


def test_the_queries_do_not_grow_with_the_queue(client: Client, opened: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), opened)
    make.make_worker()
    asked = []
    for n in (10, 1_000):
        entry = opened.entries.all()[0]
        Run.objects.bulk_create(
            Run(
                variant=make.make_variant(f"crowd/{n}-{number}"),
                task=entry.task,
                shots=0,
                run_key=entry.run_key,
                needed_bytes=1,
            )
            for number in range(n)
        )
        get(client, f"/submissions/{submission.pk}")
        with CaptureQueriesContext(connection) as queries:
            get(client, f"/submissions/{submission.pk}")
        asked.append(len(queries))
    assert asked[0] == asked[1] < 20
