"""Weights that are missing, left over or of other shapes: refused with their names, whatever
`transformers` makes of them; and those that are no concern are none."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcore.errors import ModelError
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.seq2seq import Seq2SeqLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny

ROW = torch.tensor([[5, 6, 7]])
LAYER = "model.layers.0.self_attn"


def load(folder, *, kind=HuggingFaceLM, without="", config=None, **added):
    """The model in `folder` with weights added to, or left out of, its file."""
    file, settings = folder / "model.safetensors", folder / "config.json"
    kept = {name: weight for name, weight in load_file(file).items() if name != without}
    save_file({**kept, **added}, file, metadata={"format": "pt"})
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **(config or {})}))
    return kind(Arguments(pretrained=str(folder), dtype="float32"), device="cpu")


@pytest.mark.parametrize(
    "name",
    [
        f"{LAYER}.q_proj.bias",
        f"{LAYER}.q_norm.weight",
        f"{LAYER}.sinks",
        f"{LAYER}.q_proj.lora_A.weight",
        "lm_head.bias",
        "model.norm.bias",
    ],
)
def test_a_weight_of_a_layer_that_is_computed_without_it_is_refused(tmp_path, name):
    folder = tiny.make(tmp_path)
    with pytest.raises(ModelError, match=rf"computed without them, 1 in all, such as {name}: "):
        load(folder, **{name: torch.ones(64)})


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("llama", f"{LAYER}.rotary_emb.inv_freq"),
        ("llama", "v_head.summary.weight"),
        ("llama", "model.vision_tower.blocks.0.weight"),
        ("llama", "score.weight"),
        ("gpt2", "transformer.h.0.attn.bias"),
        ("gpt2", "transformer.h.0.attn.masked_bias"),
        ("gptj", "transformer.h.0.attn.bias"),
        ("llama", f"{LAYER}.rotary_emb.cos_cached"),
        ("gpt_neox", "gpt_neox.layers.1.attention.masked_bias"),
        ("gpt_neox", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"),
    ],
)
def test_what_is_no_weight_of_what_is_computed_changes_nothing(tmp_path, architecture, name):
    folder = tiny.make(tmp_path, architecture=architecture)
    with torch.inference_mode():
        expected = load(folder)._model(ROW).logits
        assert torch.equal(load(folder, **{name: torch.ones(8)})._model(ROW).logits, expected)


def test_weights_of_another_shape_are_named(tmp_path):
    name = "model.layers.1.mlp.gate_proj.weight"
    with pytest.raises(
        ModelError, match=rf"other shapes .* 1 in all, such as {name} \(128 × 32, not 128 × 64\)"
    ):
        load(tiny.make(tmp_path), **{name: torch.ones(128, 32)})


def test_tied_tables_are_one_that_the_file_has(tmp_path):
    """And a file that has both keeps both, whatever its configuration says."""
    tied = {"tie_word_embeddings": True}
    table = torch.randn(342, 64)
    folders = [tiny.make(tmp_path / name) for name in ("both", "head", "none", "untied")]
    both = load(folders[0], config=tied)._model
    assert not torch.equal(both.lm_head.weight, both.model.embed_tokens.weight)
    head = load(
        folders[1], config=tied, without="model.embed_tokens.weight", **{"lm_head.weight": table}
    )._model
    assert torch.equal(head.model.embed_tokens.weight, table)
    alone = load(folders[2], config=tied, without="lm_head.weight")._model
    assert alone.lm_head.weight is alone.model.embed_tokens.weight
    with pytest.raises(ModelError, match=r"lack weights .* 1 in all, such as lm_head\.weight"):
        load(folders[3], without="lm_head.weight")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"without": "decoder.final_layer_norm.weight"}, "lack weights"),
        ({"encoder.block.0.layer.0.SelfAttention.q.bias": torch.ones(64)}, "without them"),
        ({"encoder.block.5.layer.0.layer_norm.weight": torch.ones(64)}, "leaves out"),
    ],
)
def test_so_are_those_of_models_with_an_encoder(tmp_path, change, said):
    with pytest.raises(ModelError, match=said):
        load(tiny.make_seq2seq(tmp_path), kind=Seq2SeqLM, **change)
