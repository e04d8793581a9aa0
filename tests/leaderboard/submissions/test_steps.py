"""A check told step by step: each fault fails its own step, and nothing unseen is called passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from leaderboard.models import User
from leaderboard.submissions import precheck
from leaderboard.submissions.facts import Way
from leaderboard.submissions.steps import KINDS, Outcome, Step, steps
from leaderboard.submissions.submit import submit
from tests.hub import Orders
from tests.leaderboard.conftest import worker
from tests.leaderboard.submissions.test_precheck import WRONG

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]

TINY = "awkward/tiny-llama"
Fail = Callable[[Orders], None]


def told(*typed: Any) -> dict[str, Step]:
    return {step.title: step for step in steps(precheck.check(*typed))}


def outcomes(*typed: Any) -> dict[str, Outcome]:
    return {title: step.outcome for title, step in told(*typed).items()}


def test_a_model_that_can_be_evaluated_passes_every_step_that_has_a_part_in_it(hub: Fail) -> None:
    worker(16 * 10**9)
    found = told(TINY)
    licence = found.pop("Licence")
    assert {step.outcome for step in found.values()} == {Outcome.PASSED}
    assert set(found) == {kind.title for kind in KINDS} - {"Base model"}
    assert "LlamaForCausalLM" in found["Architecture"].said
    assert "the worker that runs now has" in found["Room on a worker"].said
    assert licence.outcome in (Outcome.PASSED, Outcome.WARNED)


@pytest.mark.parametrize(
    ("typed", "failing"),
    [
        ("no id", "Model"),
        ("awkward/nothing-here", "Model"),
        ("awkward/gated", "Model"),
        (f"{TINY}@v9", "Revision"),
        ("awkward/no-safetensors", "Weights"),
        ("awkward/no-tokenizer", "Tokenizer"),
        ("awkward/custom-code", "Architecture"),
        ("awkward/encoder-decoder", "Architecture"),
    ],
)
def test_a_fault_fails_its_own_step_and_what_was_not_read_is_not_called_passed(
    hub: Fail, typed: str, failing: str
) -> None:
    found = outcomes(typed)
    assert [title for title, got in found.items() if got == Outcome.FAILED] == [failing]
    titles = list(found)
    after = titles[titles.index(failing) + 1 :]
    assert all(found[title] == Outcome.UNSEEN for title in after)


@pytest.mark.parametrize("typed", [row[0] for row in WRONG])
def test_every_fault_that_a_check_finds_has_its_step(hub: Fail, typed: str) -> None:
    found = outcomes(typed)
    assert "Submitting" not in found
    assert Outcome.FAILED in found.values()


def test_a_model_that_no_worker_can_hold_fails_there_alone_with_what_would_help(hub: Fail) -> None:
    worker(1_000_000)
    found = told(TINY)
    assert [t for t, s in found.items() if s.outcome == Outcome.FAILED] == ["Room on a worker"]
    assert "the largest worker has" in found["Room on a worker"].said
    assert "when a larger worker runs" in found["Room on a worker"].remedy


def test_without_a_worker_the_step_warns_that_the_runs_wait(hub: Fail) -> None:
    step = told(TINY)["Room on a worker"]
    assert step.outcome == Outcome.WARNED
    assert "wait for one" in step.remedy


def test_a_silent_hub_warns_at_the_model_and_nothing_else_was_seen(hub: Fail) -> None:
    hub([{"match": "*", "status": 503}])
    found = outcomes(TINY)
    assert found.pop("Model") == Outcome.WARNED
    assert set(found.values()) == {Outcome.UNSEEN}


def test_a_chat_template_that_is_missing_fails_where_it_is_asked_for(hub: Fail) -> None:
    assert outcomes(TINY, "main", "", Way(chat=True))["Chat template"] == Outcome.FAILED


def test_what_was_submitted_before_is_no_fault_and_leads_there(hub: Fail, ada: User) -> None:
    worker(16 * 10**9)
    made = submit(TINY, user=ada)
    step = told(TINY)["Not measured before"]
    assert step.outcome == Outcome.WARNED
    assert step.address == made.get_absolute_url()


def test_the_page_lists_the_steps_without_javascript(client: Client, hub: Fail) -> None:
    worker(16 * 10**9)
    html = client.get(f"/submit?model={TINY}").content.decode()
    for title in ("Revision", "Weights", "Architecture", "Tokenizer", "Room on a worker"):
        assert f"<b>{title}.</b>" in html
    assert "Passed" in html
    assert "Failed" not in html
