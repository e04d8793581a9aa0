"""Further architectures in every way that models are computed. The main ones are in the chapters of
those ways: loglikelihood/test_ladder.py, writing/test_continuous.py."""

from __future__ import annotations

import pytest

from tests import tiny
from tests.evalcore.model.drawn_models import FURTHER
from tests.evalcore.model.loglikelihood.test_ladder import (
    check_architecture,
    check_in_parts,
    leave_little_memory,
)
from tests.evalcore.model.writing.test_continuous import HOW, check_as_in_batches


@pytest.mark.parametrize("architecture", FURTHER)
def test_loglikelihoods_are_right_or_computed_more_plainly(architecture):
    check_architecture(architecture)


@pytest.mark.parametrize(
    "architecture",
    ["gemma2", "granite", "cohere", "opt", "gptj", "falcon", "rwkv", "lfm2", "recurrent_gemma"],
)
def test_a_long_text_is_scored_in_parts_as_at_once(architecture, monkeypatch):
    """Where something comes between the last layer and the logits, or a state is kept."""
    leave_little_memory(monkeypatch)
    check_in_parts(architecture)


@pytest.mark.parametrize("architecture", ["gpt_neox", "gpt2", "qwen2", "opt"])
def test_texts_are_those_that_batches_give(architecture, tmp_path):
    folder = tiny.make(tmp_path, architecture=architecture, positions=384)
    check_as_in_batches(folder, HOW["greedy"])
