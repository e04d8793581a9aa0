"""vLLM's answers by evalcore, held to a plain forward pass of transformers."""

from __future__ import annotations

from transformers import AutoModelForCausalLM

from evalcore.model.conformance import examine
from evalcore.model.hf.huggingface import PlainReference


def test_it_conforms(lm, folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    report = examine(lm, reference=PlainReference(model, lm.tokenizer, None))
    assert report.passed, str(report)
    assert not [found for found in report.findings if found.verdict == "not asked"], str(report)
