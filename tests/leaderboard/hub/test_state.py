"""What became of a model on the Hub, asked of a real Hub process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from leaderboard.hub import state as hub_state
from leaderboard.models import HubModel, User, Variant
from leaderboard.submissions.submit import submit
from tests.hub import Orders
from tests.leaderboard.factories import make_variant

Fail = Callable[[Orders], None]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hub")]


def look_at(repo_id: str) -> HubModel:
    make_variant(repo_id)
    hub_state.look()
    return HubModel.objects.get(repo_id=repo_id)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("tiny-llama", "present"),
        ("gated", "private"),
        ("private", "private"),
        ("disabled", "private"),
        ("deleted-since", "gone"),
    ],
)
def test_each_fate_is_noted(name: str, state: str) -> None:
    model = look_at(f"awkward/{name}")
    assert model.hub_state == state
    assert model.renamed_to == ""
    assert model.hub_checked is not None


def test_a_new_name_is_noted(hub: Fail) -> None:
    model = look_at("awkward/renamed")
    assert (model.hub_state, model.renamed_to) == ("renamed", "awkward/tiny-llama")


def test_what_does_not_exist_and_what_is_private_look_alike_to_a_visitor(hub: Fail) -> None:
    """The public Hub's answer to somebody without an account."""
    hub([{"match": "/api/models/awkward/*", "status": 401, "code": "RepoNotFound"}])
    assert look_at("awkward/tiny-llama").hub_state == "private"


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 503},
        {"status": 429, "retry_after": 60},
        {"status": 404},
        {"garbage": True},
        {"delay": 30},
    ],
    ids=str,
)
def test_a_silent_hub_changes_nothing(
    hub: Fail, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_state, "SECONDS", 0.5)
    hub([{"match": "/api/models/*", **fault}])
    model = look_at("awkward/tiny-llama")
    assert (model.hub_state, model.hub_checked) == ("present", None)


def test_a_hub_that_is_not_there_changes_nothing(settings: Any) -> None:
    settings.HF_ENDPOINT = "http://127.0.0.1:9"
    assert look_at("awkward/tiny-llama").hub_checked is None


def test_a_model_that_comes_back_is_present_again() -> None:
    make_variant("awkward/tiny-llama")
    HubModel.objects.update(hub_state="gone", renamed_to="a/b", hub_checked=long_ago())
    hub_state.look()
    model = HubModel.objects.get()
    assert (model.hub_state, model.renamed_to) == ("present", "")


def test_each_model_is_asked_about_once_a_day() -> None:
    make_variant("awkward/tiny-llama")
    make_variant("awkward/sharded")
    assert hub_state.look() == 2
    assert hub_state.look() == 0
    HubModel.objects.filter(repo_id="awkward/sharded").update(hub_checked=long_ago())
    assert hub_state.look() == 1


def test_a_look_is_at_a_few(hub: Fail) -> None:
    for number in range(hub_state.MODELS_PER_LOOK + 3):
        make_variant(f"awkward/nothing-{number}")
    assert hub_state.look() == hub_state.MODELS_PER_LOOK
    assert HubModel.objects.filter(hub_state="gone").count() == hub_state.MODELS_PER_LOOK


def test_variants_of_before_are_described_later(suite: object, ada: User) -> None:
    variant = submit("awkward/tiny-llama", user=ada).variant
    told = variant.weights_digest
    Variant.objects.update(weights_digest="", base_model="nobody/knows")
    HubModel.objects.update(hub_checked=long_ago())
    hub_state.look()
    variant.refresh_from_db()
    assert told
    assert (variant.weights_digest, variant.base_model) == (told, "")


def long_ago() -> Any:
    return timezone.now() - timedelta(hours=25)
