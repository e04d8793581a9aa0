"""What workers are told: to pause, to give back what they have, to go on."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from leaderboard.models import PoolOrder, Suite, User, Worker
from leaderboard.queue import claims, estimate, orders
from tests.leaderboard import factories as make
from tests.leaderboard.queue.test_pool_page import text

pytestmark = pytest.mark.django_db

PAUSE, DRAIN = PoolOrder.Kind.PAUSE, PoolOrder.Kind.DRAIN


@pytest.fixture
def suite() -> Suite:
    return make.make_suite(benchmarks=("facts",))


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ada"))
    return client


def told(*arguments: str) -> str:
    out = StringIO()
    call_command("pool", *arguments, stdout=out)
    return out.getvalue()


def workers(*names: str) -> list[Worker]:
    return [make.make_worker(name) for name in names]


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


def test_an_order_to_all_holds_for_workers_that_come_later(suite: Suite) -> None:
    make.make_submission(make.make_variant("lab/one"), suite)
    orders.give(PAUSE, by="ada", why="new disks")
    (late,) = workers("late")
    assert claims.claim_next(late) is None
    assert orders.lift() == 1
    assert claims.claim_next(late) is not None


def test_resuming_all_lifts_what_single_workers_were_told_and_one_not_what_all_were() -> None:
    workers("one", "other")
    orders.give(DRAIN, "one", by="ada")
    orders.give(PAUSE, by="ada")
    assert orders.standing("one").kind == DRAIN
    assert (orders.drains("one"), orders.drains("other")) == (True, False)
    orders.lift("one")
    assert orders.standing("one").kind == PAUSE
    orders.give(DRAIN, "one", by="ada")
    orders.lift()
    assert orders.standing("one") is None


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
    assert "All workers are paused: new disks By ada" in text(client)
    assert "Takes no runs. Paused by ada" in text(client)
    for address in ("/queue", submission.get_absolute_url()):
        html = client.get(address).content.decode()
        assert "The workers are paused by the operator, so nothing starts just now." in html
        assert "No worker is alive" not in html


def test_an_operator_tells_them_on_the_page_and_nobody_else_may(
    client: Client, suite: Suite
) -> None:
    workers("one")
    order = {"worker": "one", "order": "drain", "why": "a new driver"}
    assert 'action="/pool/orders"' not in client.get("/pool").content.decode()
    assert client.post("/pool/orders", order).status_code == 403
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


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ({"worker": "nobody", "order": "pause"}, "No worker is called “nobody”"),
        ({"order": "drain"}, "No worker was named: choose one of the list, or all of them."),
        ({"worker": "one", "order": "dance"}, "No order is called “dance”: choose one of pause"),
    ],
)
def test_a_wrong_order_is_named_and_changes_nothing(
    operator: Client, order: dict[str, str], says: str
) -> None:
    workers("one")
    response = operator.post("/pool/orders", order)
    assert response.status_code == 400
    assert says in response.content.decode()
    assert not PoolOrder.objects.exists()


def test_the_command_lists_the_workers_and_tells_them() -> None:
    assert told() == "no worker was seen yet\n"
    workers("one", "other")
    assert told("pause", "--worker", "one", "--why", "new disks") == "one: paused\n"
    listed = told().splitlines()
    assert listed[0].split("\t")[:4] == ["one", "cpu", "alive, paused", "0 running"]
    assert listed[1].split("\t")[2] == "alive"
    assert told("drain") == "all workers: drained\n"
    assert told().splitlines()[0] == "all workers: drained"
    assert told("resume") == "all workers: at work\n"
    assert told("resume", "--worker", "one") == "one had no order\none: at work\n"
    with pytest.raises(CommandError, match="no worker is called 'nobody': those seen last are"):
        told("pause", "--worker", "nobody")


@pytest.mark.parametrize("order", ["drain", "resume"])
def test_a_name_that_is_empty_is_not_taken_for_all_workers(order: str) -> None:
    workers("one")
    orders.give(PAUSE, "one", by="ada")
    for name in ("", " "):
        with pytest.raises(CommandError, match=r"--worker: the name is empty: .*leave the option"):
            told(order, "--worker", name)
    assert orders.standing("one").kind == PAUSE
    assert not PoolOrder.objects.filter(worker=orders.EVERYBODY).exists()
