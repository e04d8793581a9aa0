"""vLLM's answers by evalcore, held to a plain forward pass of transformers, also in half precision;
two copies, each an engine of vLLM's in a process of its own, say what one says."""

from __future__ import annotations

from statistics import mean

import pytest
import torch
from transformers import AutoModelForCausalLM

from evalcore.model.base import Request
from evalcore.model.conformance import examine
from evalcore.model.conformance.examinee import SCORED
from evalcore.model.hf.huggingface import PlainReference
from evalcore.model.parallel.messages import Loading
from evalcore.model.parallel.replicas import replicas_of
from evalcore.model.parallel.shares import shares_of
from evalcore.model.registry import backend_of
from tests import tiny
from tests.backends.conftest import told
from tests.backends.vllm.test_runs import MODEL


def test_it_conforms(lm, folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    report = examine(lm, reference=PlainReference(model, lm.tokenizer, None))
    assert report.passed, str(report)
    assert not [found for found in report.findings if found.verdict == "not asked"], str(report)


@pytest.mark.parametrize(
    "made",
    [
        {"architecture": "gpt2"},
        {"architecture": "qwen2", "words": True, "adds_bos": True},
        {"architecture": "mistral"},
    ],
    ids=["learnt positions", "words", "a window"],
)
def test_models_of_other_kinds_conform(tmp_path, made):
    folder = tiny.make(tmp_path, positions=128, width=128, **made)
    lm = backend_of("vllm").from_arguments(told(folder))
    model = AutoModelForCausalLM.from_pretrained(folder)
    report = examine(lm, reference=PlainReference(model, lm.tokenizer, None))
    assert report.passed, str(report)


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


BEGINNING = "A river is longer than a table, and made of water. " * 5
ASKED = [
    *(
        Request("loglikelihood", f"{BEGINNING}Question {place // 4}: which is it?\nAnswer:", end)
        for place in range(400)
        for end in [(" wood", " water", " a table", " a river that is long")[place % 4]]
    ),
    Request("loglikelihood_rolling", "", BEGINNING * 3),
    *(
        Request("generate_until", f"{BEGINNING}{place}.", generation={"max_gen_toks": 8})
        for place in range(12)
    ),
]


@pytest.fixture(scope="module")
def two(folder):
    loading = Loading(
        backend="vllm", arguments=told(folder), batch_size=None, device="cpu", mode="compat"
    )
    return replicas_of(loading, ["cpu", "cpu"])


def test_two_engines_say_what_one_says_under_the_same_keys(two, lm):
    assert two.info.model_key == lm.info.model_key
    assert two.info.device == "cpu, cpu"
    encoded = two.encode(ASKED)
    assert [request.key for request in encoded] == [request.key for request in lm.encode(ASKED)]
    assert len(list(shares_of(encoded, 2))) > 2  # so that one copy has more than one
    found, expected = (dict(one for pack in of.answer(encoded) for one in pack) for of in (two, lm))
    assert found.keys() == expected.keys() == set(range(len(encoded)))
    for place, ours in found.items():
        theirs = expected[place]
        assert (ours.key, ours.is_greedy) == (theirs.key, theirs.is_greedy)
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-4)
        assert (ours.text, ours.finish_reason) == (theirs.text, theirs.finish_reason)
    assert two.execution["loglikelihood"]["copies"] == 2
