"""One model each that sees, that hears and that has an encoder, against lm-evaluation-harness's own
backends: prompts, texts and loglikelihoods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity import NEEDS_LM_EVAL
from tests.parity.kinds import (
    CHAT,
    HEARD,
    PROMPTS,
    SCORED,
    WAYS_TO_DECODE,
    Case,
    assert_same,
    both_answers,
    written,
)

pytestmark = [*NEEDS_LM_EVAL]

CASES = {
    "sees": Case("sees", "idefics3", PROMPTS + CHAT),
    "hears": Case("hears", "qwen2_audio", HEARD),
    "encodes": Case("encodes", "bart", SCORED + written(*WAYS_TO_DECODE)),
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return both_answers(CASES, tmp_path_factory.mktemp("kinds"))


@pytest.mark.parametrize("name", CASES)
def test_prompts_and_answers_are_those_of_lm_evaluation_harness(both: Any, name: str) -> None:
    assert_same(CASES[name], *both[name])


def test_images_and_sounds_change_the_answers(both: Any) -> None:
    """Else equal texts would prove nothing."""
    for name in ("sees", "hears"):
        (_, first), (_, second), *_ = both[name][0]
        assert first.text != second.text, name


def test_answers_end_by_stops_limits_and_the_end_of_the_text(both: Any) -> None:
    answers = [response for _, response in both["encodes"][0]]
    assert {answer.finish_reason for answer in answers} >= {"stop", "length", None}
    assert any(answer.n_truncated for answer in answers if answer.kind == "loglikelihood")
    assert len({answer.text for answer in answers}) > 10
    assert len({round(answer.loglikelihood, 3) for answer in answers}) > 20
