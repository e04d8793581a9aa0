"""The administration's first page names what an operator has to look after, and nothing else."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from django.utils import timezone

from leaderboard.models import BoardFault, HubModel, Report, Suite, User, Worker
from leaderboard.models.role import Role, give
from leaderboard.models.run import ErrorClass
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    return make.make_suite(styles=("cloze",))


@pytest.fixture
def operator(client: Client) -> User:
    user = User.objects.create_user("op")
    give(user, Role.OPERATOR)
    client.force_login(user)
    return user


def today(client: Client) -> str:
    """The page's words."""
    page = client.get("/admin/").content.decode()
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", page)).split())


@pytest.mark.usefixtures("operator")
def test_a_quiet_day_says_so_in_each_part(client: Client) -> None:
    words = today(client)
    assert "No run failed." in words
    assert "None: every board is up to date" in words
    assert "Reports waiting for a ruling None." in words
    assert "0 runs waiting" in words
    assert "free" in words.partition("Disk")[2]


@pytest.mark.usefixtures("operator")
def test_failures_stand_by_cause_those_of_the_site_first(client: Client, suite: Suite) -> None:
    facts, sums = suite.entries.all()
    for name in ("lab/one", "lab/two"):
        run = make.queued_run(make.make_variant(name), facts)
        make.fail(run, ErrorClass.MODEL, "The tokenizer cannot be read.")
    make.fail(
        make.queued_run(make.make_variant("lab/three"), sums, attempt=2),
        ErrorClass.INFRA,
        "The disk is full.",
    )
    words = today(client)
    assert re.search(r"The disk is full\. 1 .*The tokenizer cannot be read\. 2 ", words)
    listed = "/admin/leaderboard/run/?state__exact=failed&error_class__exact=InfraError"
    assert html.escape(listed) in client.get("/admin/").content.decode()
    assert client.get(listed).status_code == 200


@pytest.mark.usefixtures("operator")
def test_open_reports_workers_that_cannot_work_and_boards_with_a_fault_are_named(
    client: Client, suite: Suite
) -> None:
    model = HubModel.objects.create(repo_id="lab/doubted")
    Report.objects.create(
        kind="contamination", hub_model=model, reason="Trained on it", evidence="Its card says so."
    )
    BoardFault.objects.create(suite=suite, style="own", message="ValueError: 10 questions, not 12")
    worker = make.make_worker("gpu7")
    Worker.objects.filter(pk=worker.pk).update(refusal="CUDA does not start.", seen=timezone.now())
    words = today(client)
    assert "1 report , the oldest since" in words
    assert "Workshop 1.0, own , since" in words
    assert "ValueError: 10 questions, not 12" in words
    assert "gpu7 cannot work: CUDA does not start." in words


def test_who_may_not_view_a_table_is_not_told_of_its_rows(client: Client) -> None:
    user = User.objects.create_user("helper", is_staff=True)
    client.force_login(user)
    words = today(client)
    for heading in ("Failed runs", "Reports waiting", "Workers", "Disk"):
        assert heading not in words
