"""The operator's pages: all can be read; accounts and words about a model can be edited."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from leaderboard.models import Run, User
from leaderboard.models.run import State
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
