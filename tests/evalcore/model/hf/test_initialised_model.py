"""A model of `transformers` that is already there, such as one in training."""

from __future__ import annotations

import pytest
import torch

from evalcore.model.base import Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny

REQUESTS = [
    Request("loglikelihood", "Question: Which", " wood"),
    Request("generate_until", "Question", generation={"max_gen_toks": 5}),
]


@pytest.fixture
def folder(tmp_path):
    return tiny.make(tmp_path)


@pytest.fixture
def model(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def answers_of(lm):
    encoded = lm.encode(REQUESTS)
    found = dict(pair for pack in lm.answer(encoded) for pair in pack)
    return [found[index] for index in range(len(encoded))]


def test_it_answers_as_its_files_would(folder, model):
    arguments = Arguments(pretrained=str(folder), dtype="float32")
    assert answers_of(HuggingFaceLM(model=model)) == answers_of(
        HuggingFaceLM(arguments, device="cpu")
    )


def test_its_pins_are_its_name_and_its_weights(folder, model):
    info = HuggingFaceLM(model=model).info
    assert (info.repository, info.commit) == (str(folder), None)
    assert info.files_digest == HuggingFaceLM(model=model).info.files_digest


def test_a_training_step_makes_another_model_of_it(model):
    lm = HuggingFaceLM(model=model)
    before = lm.info.model_key
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.tensor([[5, 6, 7]]), labels=torch.tensor([[5, 6, 7]])).loss.backward()
    optimiser.step()
    assert lm.info.model_key != before


def test_it_is_in_evaluation_mode_while_it_answers_and_then_as_it_was(model):
    model.train()
    model.model.layers[0].eval()
    lm = HuggingFaceLM(model=model)
    for _ in lm.answer(lm.encode(REQUESTS)):
        assert not any(module.training for module in model.modules())
    assert model.training
    assert not model.model.layers[0].training


def test_a_tokenizer_can_be_given(folder, model):
    from transformers import AutoTokenizer

    model.config.name_or_path = ""
    lm = HuggingFaceLM(model=model, tokenizer=AutoTokenizer.from_pretrained(folder))
    assert lm.info.repository == "LlamaForCausalLM"
    assert answers_of(lm) == answers_of(lm)
