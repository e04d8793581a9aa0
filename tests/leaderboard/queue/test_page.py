"""The pages of the queue and of its workers: every state, what waits for what, who is at what."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from leaderboard.models import PoolOrder, Run, Suite, SuiteEntry, User, Worker
from leaderboard.queue import claims, estimate, live_workers, orders
from tests.leaderboard import factories as make
from tests.leaderboard.pages import get, section, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",))


def test_an_empty_queue_says_so_in_every_part(client: Client, suite: Suite) -> None:
    html = get(client, "/queue")
    assert "Nothing is running" in section(html, "running")
    assert "Nothing is waiting" in section(html, "waiting")
    assert "No run has failed" in section(html, "failed")
    assert "No run is done yet" in section(html, "done")
    assert "Workers none alive" in text_of(html)
    assert "Nothing waits One benchmark is one run" in text_of(html)


def test_what_waits_for_machines_that_had_no_room_is_told_so(client: Client, suite: Suite) -> None:
    make.make_worker()
    Worker.objects.update(full_until=timezone.now() + timedelta(minutes=5))
    assert "would start at once, if a worker’s machine had room." in section(
        get(client, "/queue"), "running"
    )
    make.queued_run(make.make_variant("lab/waits"), suite.entries.all()[0])
    html = get(client, "/queue")
    assert "the machines that can hold it had no room" in section(html, "waiting")
    assert "no worker can take it" not in html
    assert "1 alive, all full" in html


def test_each_run_stands_under_its_state(client: Client, suite: Suite) -> None:
    for name in ("runs", "waits", "failed", "done", "gone"):
        make.queued_run(make.make_variant(f"lab/{name}"), suite.entries.all()[0])
    by_name = {run.variant.hub_model.name: run for run in Run.objects.all()}
    make.fail(by_name["waits"], "InfraError", "the disk is full")
    make.start(by_name["runs"], 30, 120)
    make.fail(by_name["failed"], "ModelError", "no vector for token 9", "log line")
    make.finish(by_name["done"])
    claims.cancel(by_name["gone"], by="ada")
    html = get(client, "/queue")
    assert text_of(html).count("1 model is being evaluated, 1 run waits") == 1
    assert "bench-1 cpu La runs lab" in text_of(section(html, "running"))
    assert 'max="120" value="30"' in section(html, "running")
    for name, part in (("waits", "waiting"), ("done", "done"), ("gone", "withdrawn")):
        assert f'<span class="nm">{name}</span>' in section(html, part), name
    assert "no vector for token 9" in section(html, "failed")
    assert "log line" in section(html, "failed")
    assert "Tried 1 time, failed by our fault" in section(html, "waiting")
    assert "the disk is full" in section(html, "waiting")


def test_a_model_is_one_line_with_the_positions_of_its_runs_in_the_order_of_claims(
    client: Client, suite: Suite
) -> None:
    one, two = (
        make.make_submission(make.make_variant(f"lab/{name}"), suite) for name in ("one", "two")
    )
    two.runs.update(priority=5)
    html = get(client, "/queue")
    assert [row.split()[0] for row in rows(html)] == ["1–3", "4–6"]
    waiting = section(html, "waiting")
    assert re.findall(r'"nm">(one|two)', waiting) == ["two", "one"]
    for run in one.runs.all():
        assert f'href="/runs/{run.pk}"' in waiting
    claim = claims.claim_next(make.make_worker())
    assert claim.runs[0].variant.hub_model.name == "two"


def test_a_queue_without_workers_says_that_nothing_starts(client: Client, suite: Suite) -> None:
    make.queued_run(make.make_variant(), suite.entries.all()[0])
    make.make_worker("asleep")
    Worker.objects.update(seen=timezone.now() - timedelta(hours=1))
    html = get(client, "/queue")
    assert "No worker is alive, so nothing starts just now." in html
    assert "asleep" not in html
    make.make_worker("bench-2")
    html = get(client, "/queue")
    assert "No worker is alive" not in html
    assert "Workers 1 alive" in text_of(html)
    assert "bench-2 cpu Waits for a run that fits" in text_of(section(html, "running"))
    assert 'href="/pool"' in html


def test_a_run_that_no_worker_can_take_says_what_it_waits_for(client: Client, suite: Suite) -> None:
    make.make_worker(memory_bytes=8 * 10**9)
    make.queued_run(make.make_variant(parameters=70 * 10**9), suite.entries.all()[0])
    waiting = section(get(client, "/queue"), "waiting")
    assert "Waits for a larger worker: it needs 337 GB, the largest alive has 8 GB." in waiting
    assert "no worker can take it" in waiting
    Worker.objects.update(dtypes=["float32"])
    make.queued_run(make.make_variant("lab/half", dtype="bfloat16"), suite.entries.all()[0])
    assert "Waits for a worker that computes in bfloat16: none that is alive does." in get(
        client, "/queue"
    )


def test_a_wait_is_told_once_enough_is_known_and_until_then_guessed(
    client: Client, suite: Suite
) -> None:
    make.make_worker()
    entry = suite.entries.all()[0]
    runs = [make.queued_run(make.make_variant(f"lab/m{n}"), entry) for n in range(2)]
    first, second = rows(get(client, "/queue"))
    assert "Starts in next" in first
    assert "Takes unknown" in first
    assert "Starts in unknown" in second
    finished_in(timedelta(minutes=12), entry, times=1)
    first, second = rows(get(client, "/queue"))
    assert "Takes 3 to 50 min a guess: too few such runs are known" in first
    assert "Starts in 3 to 50 min a guess" in second
    finished_in(timedelta(minutes=12), entry, first=1)
    first, second = rows(get(client, "/queue"))
    assert "Takes about 12 min" in first
    assert "Starts in about 12 min" in second
    make.start(runs[0], 60, 120)
    assert "about 6 min left" in text_of(section(get(client, "/queue"), "running"))
    assert "Starts in about 6 min" in rows(get(client, "/queue"))[0]


def rows(html: str) -> list[str]:
    """The lines of the waiting table as text, each cell after its heading."""
    body = section(html, "waiting").split("<tbody")[1].split("</tbody>")[0]
    told = re.sub(r'data-l="([^"]+)">', r">\1 ", body)
    return [text_of(row) for row in told.split('<tr role="row">')[1:]]


def finished_in(length: timedelta, entry: SuiteEntry, times: int = 5, first: int = 0) -> None:
    """Runs of this column, as many as an estimate needs, that took so long each."""
    worker = make.make_worker()
    for number in range(first, first + times):
        started = timezone.now() - timedelta(days=3) + number * timedelta(hours=2)
        run = make.queued_run(make.make_variant(f"old/m{number}"), entry)
        Run.objects.filter(pk=run.pk).update(
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
        (lambda: make.make_worker("bench-9"), "bench-9"),
    ):
        assert words not in get(client, "/queue")
        happens()
        assert words in get(client, "/queue")
    etag = client.get("/queue")["ETag"]
    moment += timedelta(seconds=4)
    assert client.get("/queue")["ETag"] != etag, "times on it have passed"


# Failures: one cause once, all of them to be reached, none that was put right


def test_one_cause_of_a_submission_is_one_card_with_all_its_tasks_until_it_is_repeated(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    for run in submission.runs.all():
        make.fail(run, "ModelError", "no tokenizer")
    html = get(client, "/queue")
    cards = section(html, "failed")
    assert cards.count('<article class="failed">') == 1
    for run in submission.runs.all():
        assert f'href="/runs/{run.pk}"' in cards
    assert "Failed 3" in text_of(html)
    again = make.make_submission(submission.variant, suite)
    assert "Failed 0" in text_of(get(client, "/queue"))
    for run in again.runs.all():
        make.finish(run, n=4)
    assert "No run has failed" in section(get(client, "/queue"), "failed")


def test_every_failure_can_be_reached_and_they_are_filtered_by_who_must_act(
    client: Client, suite: Suite
) -> None:
    for number in range(14):
        run = make.queued_run(make.make_variant(f"lab/broken-{number}"), suite.entries.all()[0])
        kind = "ModelError" if number else "TaskError"
        make.fail(run, kind, f"no vector for token {number}")
    html = get(client, "/queue")
    first = section(html, "failed")
    assert "All 14 The model’s 13 The task’s 1 Ours 0" in text_of(first)
    assert "1–10 of 14" in first
    assert 'href="/queue?failed=2#failed"' in first
    html = get(client, "/queue?failed=2")
    assert 'hx-get="/queue?failed=2"' in html, "what is refreshed"
    second = section(html, "failed")
    assert "11–14 of 14" in second
    names = re.findall(r'"nm">(broken-\d+)', first + second)
    assert sorted(names) == sorted(f"broken-{number}" for number in range(14))
    assert client.get(f"/queue?failed={'9' * 5000}")["Location"] == "/queue?failed=2"
    of_the_task = section(get(client, "/queue?fault=task"), "failed")
    assert re.findall(r'"nm">(broken-\d+)', of_the_task) == ["broken-0"]
    assert "None of these is in this group" in get(client, "/queue?fault=us")
    assert client.get("/queue?fault=nobody")["Location"] == "/queue"


# Long lists


def test_every_list_has_pages_to_its_last_row(client: Client, suite: Suite) -> None:
    entry = suite.entries.all()[0]
    for number in range(30):
        run = make.queued_run(make.make_variant(f"lab/m{number:02}"), entry)
        if number % 2:
            make.finish(run, n=4)
    html = get(client, "/queue")
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


# The pool


PAUSE, DRAIN = PoolOrder.Kind.PAUSE, PoolOrder.Kind.DRAIN


def pool_command(*arguments: str) -> str:
    out = StringIO()
    call_command("pool", *arguments, stdout=out)
    return out.getvalue()


def workers(*names: str) -> list[Worker]:
    return [make.make_worker(name) for name in names]


def pool_text(client: Client) -> str:
    return text_of(get(client, "/pool").partition('id="live"')[2])


def silent_for(name: str, silence: timedelta) -> None:
    make.make_worker(name)
    Worker.objects.filter(name=name).update(seen=timezone.now() - silence)


def test_a_worker_shows_its_run_with_link_and_progress(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    run = make.start(submission.runs.order_by("task__name")[0], 30, 160)
    html = get(client, "/pool")
    assert f'href="/runs/{run.pk}"' in html
    assert f'<progress id="bar-{run.pk}" max="160" value="30">' in html
    assert "Alive 1 Busy 1 Memory for models 64 GB Waiting runs 2" in pool_text(client)
    assert "30 of 160 requests answered" in pool_text(client)


def test_an_idle_worker_waits_a_full_one_rests_and_a_silent_one_is_lost(client: Client) -> None:
    found = pool_text(client)
    assert "Alive 0 Busy 0 Memory for models none" in found
    assert "Submissions are kept and wait" in found
    assert "Not seen lately" not in found
    make.make_worker("idle-one", memory_bytes=80 * 10**9)
    make.make_worker("full-one")
    full_until = timezone.now() + timedelta(minutes=5)
    Worker.objects.filter(name="full-one").update(full_until=full_until)
    silent_for("lost-one", timedelta(minutes=3))
    # A way that there is no more.
    Worker.objects.filter(name="lost-one").update(confinement="another user")
    silent_for("long-gone", timedelta(days=8))
    alive, lost = pool_text(client).split("Not seen lately")
    assert "idle-one cpu · 80 GB float32, bfloat16, float16 Waits for a run that fits." in alive
    assert "full-one cpu · 64 GB float32, bfloat16, float16 Takes no runs. " in alive
    assert "Full Its machine had no room: takes nothing until" in alive
    assert "… ago" not in alive
    assert "Lost seen" in lost
    assert "lost-one" in lost
    assert "models confined by another user" in lost
    assert "long-gone" not in lost


def test_a_worker_whose_gpu_cannot_be_used_is_there_and_can_hold_nothing(
    client: Client, admin_client: Client, suite: Suite
) -> None:
    worker = make.make_worker("broken-one", memory_bytes=0)
    Worker.objects.update(refusal="cuInit ends with 304")
    make.make_submission(make.make_variant("lab/one"), suite)
    found = pool_text(client)
    assert f"{worker.name} cpu float32, bfloat16, float16 Takes no runs. Cannot work" in found
    assert "Its GPU cannot be used: it tries again every minute" in found
    assert "cuInit" not in found
    assert "cuInit ends with 304" in pool_text(admin_client)
    assert "no worker" in client.get("/queue").content.decode().lower()
    assert not live_workers()


# What the workers are told


@pytest.mark.parametrize("kind", [PAUSE, DRAIN])
def test_a_worker_that_is_told_to_rest_takes_nothing_until_it_is_told_to_go_on(
    suite: Suite, kind: str
) -> None:
    make.make_submission(make.make_variant("lab/one"), suite)
    make.make_submission(make.make_variant("lab/two"), suite)
    one, other = workers("one", "other")
    orders.give(kind, "one", by="ada")
    assert claims.claim_next(one) is None
    assert claims.claim_next(other) is not None
    orders.lift("one")
    assert claims.claim_next(one) is not None


def test_an_order_to_all_holds_for_workers_that_come_later_and_lifting_it_lifts_every_other(
    suite: Suite,
) -> None:
    make.make_submission(make.make_variant("lab/one"), suite)
    workers("one", "other")
    orders.give(DRAIN, "one", by="ada")
    orders.give(PAUSE, by="ada", why="new disks")
    assert orders.standing("one").kind == DRAIN
    assert (orders.drains("one"), orders.drains("other")) == (True, False)
    orders.lift("one")
    assert orders.standing("one").kind == PAUSE
    (late,) = workers("late")
    assert claims.claim_next(late) is None
    orders.give(DRAIN, "one", by="ada")
    assert orders.lift() == 2
    assert orders.standing("one") is None
    assert claims.claim_next(late) is not None


def test_nobody_waits_for_a_worker_that_rests(suite: Suite) -> None:
    make.make_submission(make.make_variant("lab/one"), suite)
    workers("one", "other")
    orders.give(PAUSE, "one", by="ada")
    plan = estimate.made()
    assert [worker.name for worker in plan.workers] == ["other"]
    assert plan.turns[0].takers == ("other",)
    orders.give(PAUSE, by="ada")
    plan = estimate.made()
    assert [worker.name for worker in plan.paused] == ["one", "other"]
    assert plan.turns[0].takers == ()


def test_the_pages_say_that_the_workers_rest_and_why(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    workers("one")
    orders.give(PAUSE, by="ada", why="new disks")
    assert "All workers are paused: new disks By ada" in pool_text(client)
    assert "Takes no runs. Paused by ada" in pool_text(client)
    for address in ("/queue", submission.get_absolute_url()):
        html = get(client, address)
        assert "The workers are paused by the operator, so nothing starts just now." in html
        assert "No worker is alive" not in html


def test_an_operator_tells_them_on_the_page_and_nobody_else_may(
    client: Client, suite: Suite
) -> None:
    workers("one")
    order = {"worker": "one", "order": "drain", "why": "a new driver"}
    assert 'action="/pool/orders"' not in client.get("/pool").content.decode()
    client.force_login(User.objects.create_user("visitor"))
    response = client.post("/pool/orders", order)
    assert response.status_code == 403
    assert "Only the operators of this site" in response.content.decode()
    assert not PoolOrder.objects.exists()
    client.force_login(User.objects.create_superuser("ada"))
    assert 'action="/pool/orders"' in client.get("/pool").content.decode()
    assert client.post("/pool/orders", order)["Location"] == "/pool"
    standing = orders.standing("one")
    assert (standing.kind, standing.by, standing.why) == (DRAIN, "ada", "a new driver")
    client.post("/pool/orders", {"worker": "one", "order": "resume"})
    assert orders.standing("one") is None
    for wrong, says in (
        ({"worker": "nobody", "order": "pause"}, "No worker is called “nobody”"),
        ({"order": "drain"}, "No worker was named: choose one of the list, or all of them."),
        ({"worker": "one", "order": "dance"}, "No order is called “dance”: choose one of pause"),
    ):
        response = client.post("/pool/orders", wrong)
        assert response.status_code == 400
        assert says in response.content.decode()
    assert not PoolOrder.objects.exists()


def test_the_command_lists_the_workers_and_tells_them() -> None:
    assert pool_command() == "no worker was seen yet\n"
    workers("one", "other")
    assert pool_command("pause", "--worker", "one", "--why", "new disks") == "one: paused\n"
    listed = pool_command().splitlines()
    assert listed[0].split("\t")[:4] == ["one", "cpu", "alive, paused", "0 running"]
    assert listed[1].split("\t")[2] == "alive"
    assert pool_command("drain") == "all workers: drained\n"
    assert pool_command().splitlines()[0] == "all workers: drained"
    assert pool_command("resume") == "all workers: at work\n"
    assert pool_command("resume", "--worker", "one") == "one had no order\none: at work\n"
    with pytest.raises(CommandError, match="no worker is called 'nobody': those seen last are"):
        pool_command("pause", "--worker", "nobody")
    for order in ("drain", "resume"):
        with pytest.raises(CommandError, match=r"--worker: the name is empty: .*leave the option"):
            pool_command(order, "--worker", " ")
    assert not PoolOrder.objects.exists()
