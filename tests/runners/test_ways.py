"""Adapters, packed weights and chat templates through the real engine, from form to board."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from leaderboard.models import Result, Run, Suite, Variant
from leaderboard.queue import claims
from leaderboard.snapshot import OWN, published
from leaderboard.submissions.facts import Way
from leaderboard.submissions.submit import submit
from runners.execute import evaluate_claim
from tests.runners.site import CHATTY, LORA, WIDE, open_site, work_off, worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with open_site(tmp_path, settings, monkeypatch, wide=True):
        yield


def test_an_adapter_that_does_not_fit_the_model_it_is_put_on_says_what_it_was_trained_on() -> None:
    """The check of the form sees another name only; the weights are the worker's to see."""
    submission = submit(LORA, way=Way(base=WIDE), user=AnonymousUser())
    here = worker()
    claim = claims.claim_next(here)
    assert claim is not None
    evaluate_claim(claim, here, threading.Event())
    for run in submission.runs.all():
        assert (run.state, run.error_class) == ("failed", "ModelError")
        assert LORA in run.error_message, run.error_message
        assert CHATTY in run.error_message, "what it was trained on"


def test_each_way_of_a_model_has_numbers_of_its_own_in_the_same_columns(client: Client) -> None:
    wanted = {
        "plain": (CHATTY, Way()),
        "chat": (CHATTY, Way(chat=True)),
        "packed": (CHATTY, Way(packing="8bit")),
        "adapter": (LORA, Way()),
    }
    variants = {
        name: submit(model, way=way, user=AnonymousUser()).variant
        for name, (model, way) in wanted.items()
    }
    work_off(worker())
    assert not Run.objects.exclude(state="done").exists()
    suite = Suite.objects.get()
    for entry in suite.entries.all():
        assert entry.comparability_key
        assert entry.chat_comparability_key
        assert entry.comparability_key != entry.chat_comparability_key
    keys = {
        name: set(Result.objects.filter(run__variant=v).values_list("comparability_key", flat=True))
        for name, v in variants.items()
    }
    assert keys["plain"] == keys["packed"] == keys["adapter"]
    assert not keys["plain"] & keys["chat"]
    digests = {
        name: Run.objects.filter(variant=v, task__name="counting")
        .get()
        .artifacts.get(kind="samples")
        .sha256
        for name, v in variants.items()
    }
    assert len(set(digests.values())) == len(variants), "each answered otherwise"

    published.build_due()
    board = published.newest(suite, OWN)
    assert board is not None
    assert board.ranked == len(variants)
    html = client.get("/").content.decode()
    assert html.count('class="mid"') == len(variants)
    assert "Asked in its chat template" in html
    assert f"Adapter on {CHATTY}" in html
    assert "bitsandbytes 8-bit at loading" in html
    one = client.get("/?asked=only").content.decode()
    assert one.count('class="mid"') == 1
    assert (
        client.get("/?asked=hide&adapter=hide&packed=hide").content.decode().count('class="mid"')
        == 1
    )
    page = client.get(f"/models/{CHATTY}?variant={variants['chat'].pk}").content.decode()
    assert "its chat template" in page
    assert Variant.objects.get(pk=variants["adapter"].pk).hub_model.repo_id == LORA
