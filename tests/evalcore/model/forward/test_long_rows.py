"""A text that is scored at every position: its logits are never held together."""

from __future__ import annotations

import pytest
import torch

from evalcore.model.forward import head, plain
from evalcore.model.forward.plain import PlainPath
from evalcore.model.forward.selfcheck import PLACES
from evalcore.model.loglikelihood import probes
from evalcore.model.loglikelihood.scoring import Scorer
from tests.evalcore.model.loglikelihood.test_ladder import (
    ARCHITECTURES,
    PACKED,
    VOCABULARY,
    check,
    model_of,
    request,
    requests,
)

LENGTH, AT_ONCE = 120, 10


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    """Room for so few logits that a text of this length does not fit."""
    monkeypatch.setattr(plain, "LOGITS_CPU", (LENGTH // 2) * VOCABULARY)
    monkeypatch.setattr(head, "LOGITS_AT_ONCE", AT_ONCE * VOCABULARY)


def texts(count=3):
    tokens = [scored.tokens[0] for scored in requests(documents=LENGTH + count, choices=1)]
    tokens = [2 + (token * place) % (VOCABULARY - 2) for place, token in enumerate(tokens)]
    return [request((0,), tuple(tokens[first : first + LENGTH])) for first in range(count)]


class Seen:
    """How many rows of logits the model makes at a time."""

    def __init__(self, model):
        self.rows = []
        model.get_output_embeddings().register_forward_hook(
            lambda _, __, logits: self.rows.append(logits.numel() // VOCABULARY)
        )


def scored(model, asked, **how):
    path = PlainPath(model, batch_size=1, **how)
    sequences, targets = ([getattr(one, name) for one in asked] for name in ("tokens", "targets"))
    found = dict(pair for pack in path.scores(sequences, targets, budget=512) for pair in pack)
    return [found[place] for place in range(len(asked))]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_says_the_same_in_parts(architecture):
    model, asked = model_of(architecture), texts()
    seen = Seen(model)
    answers = scored(model, asked)
    if architecture in PACKED:
        # Of the beginning of the first text some are looked at together.
        assert max(seen.rows) == PLACES
    for found, whole in zip(answers, scored(model, asked, in_parts=False), strict=True):
        assert found.logprobs == pytest.approx(whole.logprobs, abs=1e-4)
        assert found.is_greedy == whole.is_greedy


def test_a_text_is_scored_in_parts_from_end_to_end(monkeypatch):
    monkeypatch.setattr(probes, "ANSWERED", AT_ONCE)
    model, asked = model_of("llama"), texts()
    seen, scorer = Seen(model), Scorer(model, batch_size=None)
    answers = dict(pair for pack in scorer.answers(asked) for pair in pack)
    assert max(seen.rows) == PLACES
    check(model, asked, [answers[place] for place in range(len(asked))])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_rounds_in_parts_as_at_once(dtype):
    model, asked = model_of("llama").to(dtype), texts()
    seen = Seen(model)
    for softmax in (torch.float32, dtype):
        answers = scored(model, asked, softmax=softmax)
        for found, whole in zip(
            answers, scored(model, asked, softmax=softmax, in_parts=False), strict=True
        ):
            assert found.logprobs == pytest.approx(whole.logprobs, abs=0.05)
    assert min(seen.rows) <= AT_ONCE


def test_a_model_whose_last_step_looks_at_all_rows_is_read_at_once():
    model, asked = model_of("llama"), texts()
    own = model.lm_head.forward

    def centred(hidden):
        return own(hidden - hidden.mean(dim=1, keepdim=True))

    model.lm_head.forward = centred
    seen = Seen(model)
    expected = scored(model, asked, in_parts=False)
    seen.rows.clear()
    assert scored(model, asked) == expected
    assert seen.rows.count(LENGTH) == len(asked)


def test_a_model_without_a_base_is_read_at_once():
    model, asked = model_of("llama"), texts()
    expected = scored(model, asked, in_parts=False)
    model.base_model_prefix = "none_of_it"
    assert scored(model, asked) == expected
