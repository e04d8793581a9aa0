"""Adapters of another number of tokens than their model: as peft computes them, and nothing of them
made up."""

from __future__ import annotations

import shutil

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny

ADDED = 6
TABLES = ["embed_tokens", "lm_head"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("base"))


def trained(base, into, *, padding=0, tokens=ADDED, **options):
    """An adapter after whose tokens were added, every weight of it moved; its tokenizer with it."""
    torch.manual_seed(4)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens([f"<|{number}|>" for number in range(tokens)])
    model = AutoModelForCausalLM.from_pretrained(base)
    model.resize_token_embeddings(len(tokenizer) + padding)
    options = {"target_modules": ["q_proj"], "init_lora_weights": False, **options}
    model = get_peft_model(model, LoraConfig(**options))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(str(into))
    tokenizer.save_pretrained(str(into))
    return into


def load(base, adapter, **stated):
    mode = stated.pop("mode", "compat")
    given = {"pretrained": str(base), "dtype": "float32", "peft": str(adapter), **stated}
    return HuggingFaceLM(Arguments.of(given), device="cpu", mode=mode)


KINDS = {
    "LoRA, tables saved": {},
    "tables trained": {"modules_to_save": TABLES},
    "one table trained": {"modules_to_save": ["embed_tokens"]},
    "LoRA of tables": {"target_modules": ["q_proj", *TABLES]},
    "the added tokens": {"trainable_token_indices": {"embed_tokens": [342, 343]}},
}


@pytest.mark.parametrize("padding", [0, 20])
@pytest.mark.parametrize("mode", ["compat", "strict"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_computed_as_peft_does(base, tmp_path, kind, mode, padding):
    adapter = trained(base, tmp_path / "adapter", padding=padding, **KINDS[kind])
    lm = load(base, adapter, tokenizer=str(adapter), mode=mode)
    alone = AutoModelForCausalLM.from_pretrained(base)
    rows = alone.config.vocab_size
    alone.resize_token_embeddings(rows + ADDED + padding)
    wrapped = PeftModel.from_pretrained(alone, str(adapter)).eval()
    encoded = lm.encode([Request("loglikelihood", "Question: <|3|>", " a<|5|>")])
    assert {rows + 3, rows + 5} <= {*encoded[0].tokens, *encoded[0].targets}
    with torch.inference_mode():
        row = torch.tensor([encoded[0].tokens])
        logits = wrapped(row).logits
        assert torch.equal(lm._model(row).logits, logits)
    ((_, answer),) = next(iter(lm.answer(encoded)))
    of_targets = torch.log_softmax(logits[0, -len(encoded[0].targets) :], -1)
    expected = of_targets.gather(1, torch.tensor(encoded[0].targets)[:, None]).sum().item()
    assert answer.loglikelihood == pytest.approx(expected, abs=1e-4)
    assert lm.info.vocabulary == rows + ADDED + padding


def without(adapter, into, *parts):
    shutil.copytree(adapter, into)
    file = into / "adapter_model.safetensors"
    kept = {k: w for k, w in load_file(file).items() if not any(part in k for part in parts)}
    save_file(kept, file, metadata={"format": "pt"})
    return into


@pytest.mark.parametrize(
    ("part", "said"),
    [("lm_head", "brings the output embeddings"), ("embed_tokens", "brings the input embeddings")],
)
def test_rows_that_would_be_made_up_are_refused(base, tmp_path, part, said):
    adapter = without(trained(base, tmp_path / "whole"), tmp_path / "part", part)
    with pytest.raises(ModelError, match=f"adds 6 tokens .* {said} of only"):
        load(base, adapter, tokenizer=str(tmp_path / "whole"))


def test_a_tokenizer_of_another_length_is_refused_before_weights_are_read(base, tmp_path):
    adapter = trained(base, tmp_path / "adapter")
    bare = tmp_path / "bare"
    shutil.copytree(base, bare)
    (bare / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"of 348 tokens over a model of 342.* makes 342: give"):
        load(bare, adapter)
    longer = trained(base, tmp_path / "longer", tokens=9)
    with pytest.raises(ModelError, match=r"of 348 tokens .* makes 351"):
        load(bare, adapter, tokenizer=str(longer))


def test_tables_of_two_widths_are_refused(base, tmp_path):
    adapter = trained(base, tmp_path / "adapter")
    file = adapter / "adapter_model.safetensors"
    weights = load_file(file)
    weights["base_model.model.lm_head.weight"] = torch.zeros(345, 64)
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="tables of 345 and of 348 tokens"):
        load(base, adapter, tokenizer=str(adapter))


def test_one_whose_lora_was_not_trained_is_refused_though_it_adds_tokens(base, tmp_path):
    adapter = trained(base, tmp_path / "adapter")
    file = adapter / "adapter_model.safetensors"
    weights = {k: w * (0 if "lora_B" in k else 1) for k, w in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="changes no logit"):
        load(base, adapter, tokenizer=str(adapter))


def test_rows_without_a_token_are_left_out_in_compat_alone(tmp_path):
    """As lm-evaluation-harness does it where there is an adapter: a model of more rows than tokens
    has other probabilities there."""
    base = tiny.make(tmp_path / "base", padding=50)
    adapter = tiny.adapt(base, tmp_path / "adapter")
    compat, strict = (load(base, adapter, mode=mode) for mode in ("compat", "strict"))
    assert (compat.info.vocabulary, strict.info.vocabulary) == (342, None)
    assert compat.info.model_key != strict.info.model_key
    assert "vocabulary" not in strict.info.as_json()
    row = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        of_all = strict._model(row).logits
        assert of_all.shape[-1] == 392
        assert torch.allclose(compat._model(row).logits, of_all[..., :342], atol=1e-5)
