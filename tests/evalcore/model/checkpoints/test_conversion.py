"""A converted checkpoint computes what the training program computes with its shards."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from evalcore.cli import main
from tests.evalcore.model.checkpoints import training as written
from tests.evalcore.model.checkpoints.training import VOCABULARY, Shards, Training
from tests.tiny import make

TOKENS = torch.tensor([5, 447, 120, 111, 0, 399, 260, 5, 77, 338, 224, 12])
"""Tokens of every rank's share of the table."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("tokenizer") / "model", architecture="gpt_neox")


def converted(step: Path, into: Path, tokenizer: Path, *more: object) -> Any:
    stated = ["convert-checkpoint", step, "-o", into, "--tokenizer_from", tokenizer, *more]
    assert main([str(part) for part in stated]) == 0
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


@pytest.mark.parametrize(
    "how",
    [
        {"parallel": False},
        {"tied": True, "tanh": True},
        {"rotary": 1.0, "base": 500.0, "epsilon": 1e-3, "attention_bias": False},
        {"names": ("linear1", "linear2"), "between": 96},
        {"ranks": 1, "heads": 8, "between": 20, "layers": 1},
        {"ranks": 4, "heads": 8, "width": 64, "between": 12, "layers": 2},
        {"ranks": 4, "width": 16, "between": 4, "parallel": False},
    ],
    ids=[
        *("one-after-the-other", "tied", "no-attention-bias", "newer-names"),
        *("one-rank", "four-ranks", "small"),
    ],
)
def test_neox_computes_what_its_ranks_compute_together(how, tmp_path, tokenizer) -> None:
    training = Training(**{"ranks": 2, **how})
    step, shards = neox_step(tmp_path, training)
    model = converted(step, tmp_path / "model", tokenizer)
    same(model, written.neox_logits(training, shards, TOKENS))


def test_files_by_rank_of_any_version_are_read_as_those_by_layer(tmp_path, tokenizer) -> None:
    training = Training(ranks=2)
    shards = written.neox(training)
    step = written.write_by_rank(shards, tmp_path / "global_step3")
    written.settings(training, step)
    expected = written.neox_logits(training, shards, TOKENS)
    same(converted(step, tmp_path / "a", tokenizer), expected)
    file = step / "mp_rank_00_model_states.pt"
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:  # as numpy 1 called what makes an array
        for name, part in parts.items():
            archive.writestr(
                name, part.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
            )
    same(converted(step, tmp_path / "b", tokenizer), expected)
    held = torch.load(file, weights_only=False)
    torch.save(held, file, _use_new_zipfile_serialization=False)
    same(converted(step, tmp_path / "c", tokenizer), expected)


@pytest.mark.parametrize("together", [False, True], ids=["w1-w2-w3", "linear1"])
def test_neox_with_layers_of_llama(together, tmp_path, tokenizer, capsys) -> None:
    training = Training(ranks=2, epsilon=1e-9, rotary=1.0)
    shards = written.neox_llama(training, together=together)
    step = written.write(shards, tmp_path / "global_step3")
    written.settings(training, step, llama=True)
    model = converted(step, tmp_path / "model", tokenizer)
    assert model.config.model_type == "llama"
    same(model, written.llama_logits(training, shards, TOKENS))
    assert "nearly, not exactly, the one that was trained" in capsys.readouterr().err


@pytest.mark.parametrize("ranks", [1, 4])
def test_bloom_computes_what_its_ranks_compute_together(ranks, tmp_path, tokenizer) -> None:
    training = Training(ranks=ranks)
    shards = written.bloom(training)
    step = written.write(shards, tmp_path / "global_step3")
    model = converted(
        step, tmp_path / "model", tokenizer, "--config_file", written.bloom_config(tmp_path)
    )
    same(model, written.bloom_logits(training, shards, TOKENS))


def in_half(by_rank: list[dict[str, torch.Tensor]]) -> list[dict[str, torch.Tensor]]:
    return [{name: weight.bfloat16() for name, weight in shard.items()} for shard in by_rank]


def test_half_precision_stays_and_mixed_precision_becomes_the_wider(tmp_path, tokenizer) -> None:
    training = Training(ranks=2)
    step, shards = neox_step(tmp_path, training)
    written.write({layer: in_half(by_rank) for layer, by_rank in shards.items()}, step)
    assert converted(step, tmp_path / "a", tokenizer).dtype == torch.bfloat16
    last = training.layers + 3
    written.write({last: shards[last]}, step)
    assert converted(step, tmp_path / "b", tokenizer).dtype == torch.float32


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
