"""A converted checkpoint computes what the training program computes with its shards."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, BloomConfig, GPTNeoXConfig

from evalcore.cli import main
from tests.evalcore.model.checkpoints import training as written
from tests.evalcore.model.checkpoints.training import VOCABULARY, Shards, Training
from tests.tiny import make

RANKS = (1, 2, 4)
TOKENS = torch.tensor([5, 447, 120, 111, 0, 399, 260, 5, 77, 338, 224, 12])
"""Tokens of every rank's share of the table."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("tokenizer") / "model", architecture="gpt_neox")


def convert(step: Path, into: Path, tokenizer: Path, *more: object) -> int:
    stated = ["convert-checkpoint", step, "-o", into, "--tokenizer_from", tokenizer, *more]
    return main([str(part) for part in stated])


def converted(step: Path, into: Path, tokenizer: Path, *more: object) -> Any:
    assert convert(step, into, tokenizer, *more) == 0
    return AutoModelForCausalLM.from_pretrained(into).eval()


def logits_of(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        return model(TOKENS[None]).logits[0].float()


def same(model: Any, expected: torch.Tensor) -> None:
    found = logits_of(model)
    assert found.shape == expected.shape
    assert expected.std() > 0.5  # two wrong models would not be alike by chance
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def neox_step(folder: Path, training: Training, **changes: Any) -> tuple[Path, Shards]:
    shards = written.neox(training)
    step = written.write(shards, folder / "global_step3")
    written.settings(training, step, **changes)
    return step, shards


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"parallel": False},
        {"tied": True, "tanh": True},
        {"rotary": 1.0, "base": 500.0, "epsilon": 1e-3, "attention_bias": False},
        {"names": ("linear1", "linear2"), "between": 96},
    ],
    ids=["parallel", "one-after-the-other", "tied", "no-attention-bias", "newer-names"],
)
def test_neox_computes_what_its_ranks_compute_together(ranks, how, tmp_path, tokenizer) -> None:
    training = Training(ranks=ranks, **how)
    step, shards = neox_step(tmp_path, training)
    model = converted(step, tmp_path / "model", tokenizer)
    same(model, written.neox_logits(training, shards, TOKENS))


@pytest.mark.parametrize("ranks", RANKS)
def test_files_by_rank_are_read_as_those_by_layer(ranks, tmp_path, tokenizer) -> None:
    training = Training(ranks=ranks)
    shards = written.neox(training)
    step = written.write_by_rank(shards, tmp_path / "global_step3")
    written.settings(training, step)
    model = converted(step, tmp_path / "model", tokenizer)
    same(model, written.neox_logits(training, shards, TOKENS))


def test_files_of_older_versions_of_torch_and_numpy(tmp_path, tokenizer) -> None:
    training = Training(ranks=1)
    shards = written.neox(training)
    step = written.write_by_rank(shards, tmp_path / "global_step3")
    written.settings(training, step)
    file = step / "mp_rank_00_model_states.pt"
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:  # as numpy 1 called what makes an array
        for name, part in parts.items():
            archive.writestr(
                name, part.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
            )
    expected = written.neox_logits(training, shards, TOKENS)
    same(converted(step, tmp_path / "a", tokenizer), expected)
    held = torch.load(file, weights_only=False)
    torch.save(held, file, _use_new_zipfile_serialization=False)
    same(converted(step, tmp_path / "b", tokenizer), expected)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("together", [False, True], ids=["w1-w2-w3", "linear1"])
def test_neox_with_layers_of_llama(ranks, together, tmp_path, tokenizer, capsys) -> None:
    training = Training(ranks=ranks, epsilon=1e-9, rotary=1.0)
    shards = written.neox_llama(training, together=together)
    step = written.write(shards, tmp_path / "global_step3")
    written.settings(training, step, llama=True)
    model = converted(step, tmp_path / "model", tokenizer)
    assert model.config.model_type == "llama"
    same(model, written.llama_logits(training, shards, TOKENS))
    assert "nearly, not exactly, the one that was trained" in capsys.readouterr().err


@pytest.mark.parametrize("ranks", RANKS)
def test_bloom_computes_what_its_ranks_compute_together(ranks, tmp_path, tokenizer) -> None:
    training = Training(ranks=ranks)
    shards = written.bloom(training)
    step = written.write(shards, tmp_path / "global_step3")
    model = converted(step, tmp_path / "model", tokenizer, "--config_file", bloom_config(tmp_path))
    same(model, written.bloom_logits(training, shards, TOKENS))


def bloom_config(folder: Path, **changes: Any) -> Path:
    stated = {
        "model_type": "bloom", "hidden_size": 32, "n_layer": 3, "n_head": 4,
        "vocab_size": VOCABULARY, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps({**stated, **changes}))
    return folder / "config.json"


def split_neox(model: Any, ranks: int) -> Shards:
    """The weights of transformers' model, divided as GPT-NeoX divides them."""
    held = model.state_dict()

    def divided(name: str, dim: int) -> list[torch.Tensor]:
        return [part.clone() for part in held[name].chunk(ranks, dim)]

    layers: Shards = {
        0: [{"word_embeddings.weight": part} for part in divided("gpt_neox.embed_in.weight", 0)]
    }
    number = model.config.num_hidden_layers
    for layer in range(number):
        shards: list[dict[str, torch.Tensor]] = [{} for _ in range(ranks)]
        for name, weight in held.items():
            inside = f"gpt_neox.layers.{layer}."
            if not name.startswith(inside):
                continue
            short = name.removeprefix(inside)
            if "dense_h_to_4h" in short or "query_key_value" in short:
                parts = divided(name, 0)
            elif short.endswith(("dense.weight", "dense_4h_to_h.weight")):
                parts = divided(name, 1)
            elif short.endswith(("dense.bias", "dense_4h_to_h.bias")):
                parts = [weight / ranks] * ranks
            else:
                parts = [weight] * ranks
            for shard, part in zip(shards, parts, strict=True):
                shard[short] = part
        layers[layer + 2] = shards
    norm = {
        f"norm.{part}": held[f"gpt_neox.final_layer_norm.{part}"] for part in ("weight", "bias")
    }
    layers[number + 3] = [norm] * ranks
    layers[number + 4] = [{"final_linear.weight": part} for part in divided("lm_head.weight", 0)]
    return layers


def random_model(config: Any) -> Any:
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.0, 0.25)
    return model.eval()


@pytest.mark.parametrize("ranks", RANKS)
def test_a_model_that_was_divided_is_itself_again(ranks, tmp_path, tokenizer) -> None:
    training = Training(ranks=ranks)
    model = random_model(
        GPTNeoXConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
            intermediate_size=128, max_position_embeddings=64, rotary_pct=0.5,
        )
    )  # fmt: skip
    step = written.write(split_neox(model, ranks), tmp_path / "global_step3")
    written.settings(training, step)
    again = converted(step, tmp_path / "model", tokenizer)
    for (name, weight), other in zip(
        model.state_dict().items(), again.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(other, weight, rtol=1e-6, atol=0, msg=name)
    torch.testing.assert_close(logits_of(again), logits_of(model))
    assert {name: getattr(again.config, name) for name in SAID} == {
        name: getattr(model.config, name) for name in SAID
    }


SAID = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "max_position_embeddings", "hidden_act", "use_parallel_residual", "layer_norm_eps",
    "tie_word_embeddings", "attention_bias", "rope_parameters",
)  # fmt: skip


def test_the_folder_can_be_evaluated(tmp_path, tokenizer) -> None:
    step, _ = neox_step(tmp_path, Training(ranks=2))
    assert convert(step, tmp_path / "model", tokenizer) == 0
    copied = AutoTokenizer.from_pretrained(tmp_path / "model")
    own = AutoTokenizer.from_pretrained(tokenizer)
    assert copied("A table of wood").input_ids == own("A table of wood").input_ids
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    generation = json.loads((tmp_path / "model" / "generation_config.json").read_text())
    for said in (config, generation):
        assert (said["bos_token_id"], said["eos_token_id"]) == (0, 1)
    assert list((tmp_path / "model").glob("*.safetensors"))


def test_half_precision_stays_and_mixed_precision_becomes_the_wider(tmp_path, tokenizer) -> None:
    training = Training(ranks=2)
    shards = written.neox(training)
    half = {
        n: [{k: w.bfloat16() for k, w in s.items()} for s in ranks] for n, ranks in shards.items()
    }
    step = written.write(half, tmp_path / "half" / "global_step3")
    written.settings(training, step)
    assert converted(step, tmp_path / "a", tokenizer).dtype == torch.bfloat16
    half[training.layers + 3] = shards[training.layers + 3]
    step = written.write(half, tmp_path / "mixed" / "global_step3")
    written.settings(training, step)
    model = converted(step, tmp_path / "b", tokenizer)
    assert model.dtype == torch.float32
    same(model, written.neox_logits(training, as_float(half), TOKENS))


def as_float(shards: Shards) -> Shards:
    return {n: [{k: w.float() for k, w in s.items()} for s in ranks] for n, ranks in shards.items()}


def test_copies_that_differ_become_their_mean_and_that_is_said(tmp_path, tokenizer, capsys) -> None:
    training = Training(ranks=2)
    step, shards = neox_step(tmp_path, training)
    name = "input_layernorm.weight"
    first, second = (shard[name] for shard in shards[3])
    shards[3][1] = {**shards[3][1], name: second + 0.5}
    written.write(shards, step)
    model = converted(step, tmp_path / "model", tokenizer)
    assert torch.allclose(model.state_dict()[f"gpt_neox.layers.1.{name}"], first + 0.25)
    said = capsys.readouterr().err
    assert "1 weights that every rank has a copy of differ" in said
    assert "by up to 0.25" in said


def test_padding_rows_are_kept_unless_their_number_is_stated(tmp_path, tokenizer) -> None:
    training = Training(ranks=4)
    step, shards = neox_step(tmp_path, training)
    expected = written.neox_logits(training, shards, TOKENS.clamp(max=399))
    whole = converted(step, tmp_path / "whole", tokenizer)
    assert whole.config.vocab_size == VOCABULARY
    cut = converted(step, tmp_path / "cut", tokenizer, "--vocab_size", 401)
    with torch.inference_mode():
        found = cut(TOKENS.clamp(max=399)[None]).logits[0]
    torch.testing.assert_close(found, expected[:, :401], rtol=1e-4, atol=1e-4)


@given(
    ranks=st.sampled_from(RANKS),
    heads=st.sampled_from([4, 8]),
    width=st.sampled_from([1, 2, 3]),
    between=st.sampled_from([4, 12, 20]),
    layers=st.integers(1, 3),
    parallel=st.booleans(),
    seed=st.integers(0, 99),
)
@examples(max_examples=12, deadline=None)
def test_any_shape_is_joined_right(
    tmp_path_factory, tokenizer, ranks, heads, width, between, layers, parallel, seed
) -> None:
    training = Training(
        ranks=ranks, heads=heads, width=4 * heads * width, between=between, layers=layers,
        parallel=parallel, seed=seed,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("any")
    step, shards = neox_step(folder, training)
    model = converted(step, folder / "model", tokenizer)
    expected = written.neox_logits(training, shards, TOKENS)
    torch.testing.assert_close(logits_of(model), expected, rtol=1e-3, atol=1e-3)


def test_bloom_of_transformers_is_what_a_rank_alone_holds(tmp_path, tokenizer) -> None:
    """With one rank nothing is divided: names and shapes are the Hub's but for numbers."""
    model = random_model(BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4))
    layers: Shards = {1: [{}], 3: [{}], 4: [{}], 6: [{}]}
    for name, weight in model.state_dict().items():
        parts = name.removeprefix("transformer.").split(".")
        if parts[0] == "h":
            layers[int(parts[1]) + 3][0][".".join(parts[2:])] = weight
        elif parts[0] == "ln_f":
            layers[6][0][parts[1]] = weight
        elif parts[0] != "lm_head":
            short = ".".join(parts).replace("word_embeddings_layernorm", "word_embeddings.norm")
            layers[1][0][short] = weight
    step = written.write(layers, tmp_path / "global_step3")
    again = converted(
        step, tmp_path / "model", tokenizer, "--config_file", bloom_config(tmp_path, n_layer=2)
    )
    torch.testing.assert_close(logits_of(again), logits_of(model))
