"""In bfloat16 vLLM is as near to the model in float32 as transformers is in bfloat16."""

from __future__ import annotations

from statistics import mean

import pytest
import torch
from transformers import AutoModelForCausalLM

from evalcore.model.conformance import examine
from evalcore.model.conformance.examinee import SCORED
from evalcore.model.hf.huggingface import PlainReference
from evalcore.model.registry import backend_of
from tests.backends.conftest import told
from tests.backends.vllm.test_runs import MODEL

SHARE = 1.1
"""Of the distance that transformers' own bfloat16 has."""


def in_half(folder):
    return backend_of("vllm").from_arguments({**told(folder), "dtype": "bfloat16"})


def loaded(folder, **how):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **how)


def test_a_trained_model_conforms():
    lm = in_half(MODEL)
    report = examine(lm, reference=PlainReference(loaded(MODEL), lm.tokenizer, None))
    assert report.passed, str(report)
    for check in ("alignment", "sums", "additivity"):
        assert report.of(check).verdict == "passed", str(report)


@pytest.fixture(scope="module")
def distances(folder):
    """From the model in float32, of the same rounded weights, in nats by token: of vLLM, and of
    transformers with either of its kinds of attention."""
    lm = in_half(folder)
    encoded = lm.encode(SCORED)
    found = dict(one for pack in lm.answer(encoded) for one in pack)
    by = {
        "exact": forced(loaded(folder).float(), lm, encoded),
        "vllm": [value for place in sorted(found) for value in found[place].token_logprobs],
        "sdpa": forced(loaded(folder), lm, encoded),
        "eager": forced(loaded(folder, attn_implementation="eager"), lm, encoded),
    }
    exact = by.pop("exact")
    return {
        name: [abs(one - other) for one, other in zip(said, exact, strict=True)]
        for name, said in by.items()
    }


def forced(model, lm, encoded):
    reference = PlainReference(model, lm.tokenizer, None)
    return [
        logprob
        for request in encoded
        for logprob in reference.teacher_forced(request.tokens, request.targets)[0]
    ]


@pytest.mark.parametrize("kind", ["sdpa", "eager"])
def test_weights_that_are_large_are_rounded_no_worse_than_by_transformers(distances, kind):
    """With weights so large the logits' own steps are 0.1, and no two ways agree to 0.1 nats."""
    assert max(distances["vllm"]) <= SHARE * max(distances[kind])
    assert mean(distances["vllm"]) <= SHARE * mean(distances[kind])
    assert max(distances[kind]) > 0.18
