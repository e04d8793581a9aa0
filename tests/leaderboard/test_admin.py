"""The operator's pages: all can be read; accounts and words about a model can be edited."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from leaderboard.models import Run, User
from leaderboard.models.run import State
from leaderboard.queue.estimate import in_order
from leaderboard.submissions.submit import submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hub", "suite")]

TABLES = sorted(
    model._meta.model_name or ""
    for model in admin.site._registry
    if model.__module__.startswith("lead")
)


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("operator"))
    return client


@pytest.mark.parametrize("table", TABLES)
def test_each_table_can_be_read(operator: Client, ada: User, table: str) -> None:
    submit("awkward/tiny-llama", user=ada)
    assert operator.get(reverse(f"admin:leaderboard_{table}_changelist")).status_code == 200


def test_all_tables_are_there() -> None:
    assert {"run", "result", "runevent", "submission", "suite", "user", "worker"} <= set(TABLES)


def test_a_run_is_shown_with_its_events_and_cannot_be_changed(operator: Client, ada: User) -> None:
    submit("awkward/tiny-llama", user=ada)
    run = Run.objects.first()
    assert run is not None
    page = reverse("admin:leaderboard_run_change", args=[run.pk])
    assert "submitted" in operator.get(page).text
    assert operator.post(page, {"state": "done"}).status_code == 403
    assert operator.post(reverse("admin:leaderboard_run_delete", args=[run.pk])).status_code == 403
    assert operator.get(reverse("admin:leaderboard_run_add")).status_code == 403


def test_the_operator_withdraws_a_submission_with_its_runs(operator: Client, ada: User) -> None:
    submission = submit("awkward/tiny-llama", user=ada)
    operator.post(
        reverse("admin:leaderboard_submission_changelist"),
        {"action": "withdraw", "_selected_action": [str(submission.pk)]},
    )
    assert set(Run.objects.values_list("state", flat=True)) == {State.CANCELLED}


def act(operator: Client, action: str, *runs: Run) -> str:
    chosen = {"action": action, "_selected_action": [str(run.pk) for run in runs]}
    page = reverse("admin:leaderboard_run_changelist")
    return operator.post(page, chosen, follow=True).text


def test_the_operator_cancels_a_run_and_has_it_tried_again(operator: Client, ada: User) -> None:
    submit("awkward/tiny-llama", user=ada)
    first, second, *_ = Run.objects.order_by("pk")
    assert "2 of 2 runs were cancelled." in act(operator, "cancel", first, second)
    assert "0 of 1 runs were cancelled. 1 could not be" in act(operator, "cancel", first)
    assert "1 of 1 runs were queued again." in act(operator, "retry", first)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == (State.QUEUED, State.CANCELLED)
    assert [event.state for event in first.events.all()] == ["queued", "cancelled", "queued"]


def test_who_may_only_look_acts_on_nothing(client: Client, ada: User) -> None:
    submission = submit("awkward/tiny-llama", user=ada)
    looker = User.objects.create_user("looker", is_staff=True)
    tables = ("view_run", "view_submission")
    looker.user_permissions.set(Permission.objects.filter(codename__in=tables))
    client.force_login(looker)
    run = Run.objects.earliest("pk")
    assert str(run.pk) in client.get(reverse("admin:leaderboard_run_changelist")).text
    act(client, "cancel", run)
    client.post(
        reverse("admin:leaderboard_submission_changelist"),
        {"action": "withdraw", "_selected_action": [str(submission.pk)]},
    )
    assert set(Run.objects.values_list("state", flat=True)) == {State.QUEUED}


def test_what_stands_in_the_place_of_a_failed_run_is_not_doubled(
    operator: Client, ada: User
) -> None:
    submission = submit("awkward/tiny-llama", user=ada)
    run = Run.objects.earliest("pk")
    act(operator, "cancel", run)
    submission.runs.set(submit("awkward/tiny-llama", user=ada).runs.all())
    assert "0 of 1 runs were queued again. 1 could not be" in act(operator, "retry", run)
    run.refresh_from_db()
    assert run.state == State.CANCELLED


def test_the_operator_moves_runs_in_the_queue_and_the_page_says_so(
    operator: Client, ada: User
) -> None:
    submit("awkward/tiny-llama", user=ada)
    *_, last = in_order(Run.objects.all())
    act(operator, "put_first", last)
    assert in_order(Run.objects.all())[0] == last
    assert "Put before others by the operator." in operator.get("/queue").text
    act(operator, "put_last", last)
    assert [*in_order(Run.objects.all())][-1] == last
    act(operator, "put_last", *Run.objects.all())
    assert "Put behind others by the operator." in operator.get("/queue").text
    act(operator, "put_back", *Run.objects.all())
    last.refresh_from_db()
    assert last.priority == 0
    assert "by the operator." not in operator.get("/queue").text


def test_the_operator_says_what_is_official_and_what_not_to_trust(
    operator: Client, ada: User
) -> None:
    model = submit("awkward/tiny-llama", user=ada).variant.hub_model
    page = reverse("admin:leaderboard_hubmodel_change", args=[model.pk])
    operator.post(page, {"official": "on", "flag_reason": "trained on the test", "hub_state": "x"})
    model.refresh_from_db()
    assert (model.official, model.flag_reason) == (True, "trained on the test")
    assert model.hub_state == "present"


def test_ada_is_no_operator(client: Client, ada: User) -> None:
    client.force_login(ada)
    assert client.get(reverse("admin:leaderboard_run_changelist")).status_code == 302
