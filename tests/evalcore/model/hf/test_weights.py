"""An initialised model in a training loop: changed weights are another model, however changed."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from evalcore.library import evaluate
from evalcore.model.hf.huggingface import HuggingFaceLM
from tests import tiny
from tests.evalcore.toys import write_toys


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("tiny"))


def reused(folder, wrap=lambda model: model):
    model = wrap(AutoModelForCausalLM.from_pretrained(folder))
    return HuggingFaceLM(model=model, tokenizer=AutoTokenizer.from_pretrained(folder))


def through_data(weight):
    weight.data.mul_(1.5)


def through_numpy(weight):
    weight.data.numpy()[3] *= -1


def two_signs(weight):
    """Which a sum over the weights would not show."""
    weight.data[0, 1] *= -1
    weight.data[0, 3] *= -1


def by_optimiser(weight):
    weight.grad = torch.ones_like(weight)
    torch.optim.SGD([weight], lr=0.1).step()


def exchanged(weight):
    weight.data[[0, 1]] = weight.data[[1, 0]].clone()


@pytest.mark.parametrize(
    "change", [through_data, through_numpy, two_signs, by_optimiser, exchanged]
)
def test_a_changed_weight_is_another_model(folder, change):
    lm = reused(folder)
    before = lm.info.model_key
    assert lm.info.model_key == before == reused(folder).info.model_key
    change(lm._model.model.layers[1].mlp.down_proj.weight)
    assert lm.info.model_key != before


def test_a_journal_never_answers_for_the_weights_of_an_earlier_step(folder, tmp_path):
    tasks = write_toys(tmp_path)
    lm = reused(folder)

    def ask(model):
        (done,) = evaluate(
            model, "toy_choice", include_path=tasks, limit=6, use_cache=tmp_path / "journal"
        )
        answers = [
            response["loglikelihood"] for row in done.samples for response in row["responses"]
        ]
        return done.record.requests["journalled"], answers

    _, first = ask(lm)
    assert ask(lm) == (len(first), first)
    for weight in lm._model.parameters():
        weight.data.mul_(1.1)
    journalled, second = ask(lm)
    assert journalled == 0
    assert second != first


def test_an_adapter_that_is_switched_off_is_another_model(folder):
    """As for the reference model of a training with rewards."""
    options = LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    lm = reused(folder, lambda model: get_peft_model(model, options))
    before = lm.info.model_key
    with lm._model.disable_adapter():
        assert lm.info.model_key != before
    assert lm.info.model_key == before
