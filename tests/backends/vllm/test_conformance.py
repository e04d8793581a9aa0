"""vLLM's answers by evalcore, held to a plain forward pass of transformers."""

from __future__ import annotations

import pytest
from transformers import AutoModelForCausalLM

from evalcore.model.conformance import examine
from evalcore.model.hf.huggingface import PlainReference
from evalcore.model.registry import backend_of
from tests import tiny
from tests.backends.conftest import told


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
