"""Checkpoints that cannot be converted are refused in one sentence, and nothing is left behind."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from evalcore.cli import main
from tests.evalcore.model.checkpoints import training as written
from tests.evalcore.model.checkpoints.training import Training
from tests.tiny import make

TRAINING = Training(ranks=2, layers=2)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("tokenizer") / "model", architecture="gpt_neox")


@pytest.fixture
def step(tmp_path) -> Path:
    folder = written.write(written.neox(TRAINING), tmp_path / "global_step3")
    written.settings(TRAINING, folder)
    return folder


@pytest.fixture
def refused(tmp_path, tokenizer, capsys) -> Any:
    """What is said, of a conversion that must fail."""

    def asked(step: Path, *more: object, source: Path | str = tokenizer, status: int = 10) -> str:
        stated = ["convert-checkpoint", step, "-o", tmp_path / "out" / "model"]
        stated += ["--tokenizer_from", source, *more]
        assert main([str(part) for part in stated]) == status
        out = tmp_path / "out"
        assert not out.exists() or not list(out.iterdir())
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "Traceback" not in printed.err
        return printed.err

    return asked


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("layer_03-model_00-*", "layer_03-model_00-model_states.pt is missing"),
        ("layer_05-*", "layer 5 is missing, of layers 0 to 6"),
        ("*-model_01-*", "divided among 1, and the settings say model_parallel_size 2"),
    ],
    ids=["a shard", "a layer", "all of a rank"],
)
def test_files_that_are_missing(step, refused, files, said) -> None:
    for file in step.glob(files):
        file.unlink()
    assert said in refused(step)


def test_a_rank_of_bloom_is_missing_which_only_its_shapes_tell(tmp_path, refused) -> None:
    shards = written.bloom(Training(ranks=4))
    step = written.write({n: ranks[:3] for n, ranks in shards.items()}, tmp_path / "step")
    assert "is 336 × 32, and the settings ask for 448 × 32" in refused(
        step, "--config_file", written.bloom_config(tmp_path)
    )


def test_megatron_deepspeed_wants_a_configuration(tmp_path, refused) -> None:
    step = written.write(written.bloom(TRAINING), tmp_path / "step")
    assert "give --config_file with one config.json of transformers" in refused(step)
    other = written.bloom_config(tmp_path, model_type="gpt2")
    assert "with model_type bloom, got gpt2" in refused(step, "--config_file", other)
    more = written.bloom_config(tmp_path, n_layer=4)
    assert "layer 5 is missing" in refused(step, "--config_file", more)
    uneven = written.bloom_config(tmp_path, n_layer=2, n_head=5)
    assert "divisible by num_heads" in refused(step, "--config_file", uneven)
    fewer = written.bloom_config(tmp_path, n_layer=1)
    assert "it holds a layer" in refused(step, "--config_file", fewer)


def test_shards_of_different_steps(step, refused) -> None:
    file = step / "layer_02-model_01-model_states.pt"
    shard = torch.load(file)
    name = "mlp.dense_h_to_4h.weight"
    torch.save({**shard, name: shard[name][:32]}, file)
    assert f"layer 2: {name}: shards 0 and 1 do not fit: 64 × 32" in refused(step)
    torch.save({**shard, name: shard[name].half()}, file)
    assert "64 × 32 of float32 and 64 × 32 of float16" in refused(step)
    del shard[name]
    torch.save(shard, file)
    assert f"shards 0 and 1 hold weights of different names, such as {name}" in refused(step)


def test_a_weight_that_no_model_has(step, refused) -> None:
    for file in step.glob("layer_03-*"):
        torch.save({**torch.load(file), "mlp.router.weight": torch.ones(2)}, file)
    assert "mlp.router.weight is no weight of the model that the settings describe" in refused(step)


def test_frequencies_of_another_rotation(step, refused) -> None:
    written.settings(replace(TRAINING, base=500.0), step)
    assert "these are not the frequencies of rotary_pct 0.5 and rotary_emb_base 500" in refused(
        step
    )


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"pos-emb": "alibi"}, "pos_emb: only rotary is converted, got 'alibi'"),
        ({"pos-emb": None}, "pos_emb: only rotary is converted, got 'learned'"),
        ({"activation": "geglu"}, "activation: only gelu is converted, got 'geglu'"),
        ({"norm": "rmsnorm"}, "layernorm with a regular MLP, or rmsnorm with a gated one"),
        ({"num_kv_heads": 2}, "num_kv_heads: 2 for 4 heads"),
        ({"attention_config": [[["local"], 2]]}, "global and flash are converted, got 'local'"),
        ({"use_mup": True}, "use_mup: only False is converted, got True"),
        ({"moe_num_experts": 4}, "moe_num_experts: only 1 is converted, got 4"),
        ({"num-layers": "two"}, "num_layers: expected a count, got 'two'"),
        ({"model_parallel_size": 4}, "model_parallel_size is 2 here and 4 in another file"),
        ({"hidden_size": 30}, "hidden_size: 30 is not divisible by 4 heads"),
        ({"hidden_size": 33, "num-attention-heads": 3}, "3 is not divisible by model_parallel"),
        ({"hidden_size": 64, "num-attention-heads": 8}, "and the settings ask for 448 × 64"),
        ({"num-layers": 3}, "layer 4 is missing, the last of 3 blocks"),
        ({"num-layers": 1}, "it holds a layer 3, and the settings ask for layers 0 to 5"),
    ],
)  # fmt: skip
def test_settings_of_another_model(step, refused, setting, said) -> None:
    written.settings(TRAINING, step, **setting)
    assert said in refused(step)


def test_settings_that_are_none(step, refused) -> None:
    file = step / "configs" / "setup.yml"
    file.write_text("a: [")
    assert "setup.yml cannot be read" in refused(step)
    file.write_text("- 1")
    assert "expected settings by name" in refused(step)
    for other in file.parent.iterdir():
        other.unlink()
    assert "no settings (configs/*.yml) lie with the checkpoint" in refused(step)


def test_settings_may_be_stated_and_the_model_is_the_one_that_was_trained(
    step, tmp_path, tokenizer, capsys
) -> None:
    place = tmp_path / "elsewhere.yml"
    held: dict[str, Any] = {}
    for file in (step / "configs").iterdir():
        held |= yaml.safe_load(file.read_text())
        file.unlink()
    place.write_text(yaml.safe_dump(held))
    stated = ["convert-checkpoint", step, "-o", tmp_path / "model", "--tokenizer_from", tokenizer]
    assert main([str(part) for part in (*stated, "--config_file", place)]) == 0
    tokens = torch.tensor([5, 447, 120, 0, 399])
    with torch.inference_mode():
        found = AutoModelForCausalLM.from_pretrained(tmp_path / "model")(tokens[None]).logits[0]
    expected = written.neox_logits(TRAINING, written.neox(TRAINING), tokens)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    copied = AutoTokenizer.from_pretrained(tmp_path / "model")
    own = AutoTokenizer.from_pretrained(tokenizer)
    assert copied("A table of wood").input_ids == own("A table of wood").input_ids
    for name in ("config.json", "generation_config.json"):
        said = json.loads((tmp_path / "model" / name).read_text())
        assert (said["bos_token_id"], said["eos_token_id"]) == (0, 1)
    assert list((tmp_path / "model").glob("*.safetensors"))
    # A folder that is not new is not written into.
    assert main([str(part) for part in (*stated, "--config_file", place)]) == 2
    assert "is not empty: name a new folder" in capsys.readouterr().err


class Harmful:
    """Writes a file as soon as it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.place,)


def test_code_in_a_pickle_is_not_run(step, refused, tmp_path) -> None:
    file = step / "layer_02-model_00-model_states.pt"
    torch.save({"weight": Harmful(tmp_path / "run")}, file)
    said = refused(step)
    assert "only weights are unpickled" in said
    assert not (tmp_path / "run").exists()
    torch.save({"args": argparse.Namespace(layers=2)}, file)
    assert "it holds an object of the class argparse.Namespace" in refused(step)


def test_a_file_that_is_cut_or_holds_what_is_no_number(step, refused) -> None:
    file = step / "layer_02-model_00-model_states.pt"
    shard = torch.load(file)
    shard["attention.dense.weight"][0] = torch.nan
    torch.save(shard, file)
    assert "computes numbers that are not finite" in refused(step)
    file.write_bytes(file.read_bytes()[:1000])
    assert "cannot be read" in refused(step)


def test_other_layouts(tmp_path, refused, tokenizer) -> None:
    def laid(name: str) -> Path:
        place = tmp_path / name.replace("/", "-") / name
        place.parent.mkdir(parents=True)
        place.touch()
        return tmp_path / name.replace("/", "-")

    assert "Megatron-LM's own layout" in refused(laid("mp_rank_00/model_optim_rng.pt"))
    assert "Megatron-LM's own layout" in refused(laid("iter_10/mp_rank_00_001/model_optim_rng.pt"))
    assert "OpenAI-compatible server" in refused(laid("__0_0.distcp"))
    assert "name the folder of one step" in refused(laid("weights.bin"))
    assert "it holds steps (global_step5), not one" in refused(laid("global_step5/x"))
    assert "of the Hub's form already" in refused(tokenizer)
    assert "no folder is there" in refused(tmp_path / "nowhere")


def test_other_blocks(tmp_path, refused) -> None:
    step = written.write({2: [{"mixer.weight": torch.ones(2)}]}, tmp_path / "step")
    assert "unknown layout: its blocks hold mixer.weight" in refused(step)
    held = {"module": {"transformer.weight": torch.ones(2)}}
    folder = tmp_path / "ranks"
    folder.mkdir()
    torch.save(held, folder / "mp_rank_00_model_states.pt")
    assert "a weight is called transformer.weight" in refused(folder)
    torch.save({"module": None}, folder / "mp_rank_00_model_states.pt")
    assert "it holds no model (module)" in refused(folder)
    torch.save(held, folder / "mp_rank_02_model_states.pt")
    assert "mp_rank_01_model_states.pt is missing" in refused(folder)


def test_a_tokenizer_of_another_model(step, refused, tmp_path) -> None:
    assert "--vocab_size: the checkpoint has 448 rows of tokens, got 449" in refused(
        step, "--vocab_size", 449
    )
    assert "tokens, and the model has rows for 100" in refused(step, "--vocab_size", 100)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no file of a tokenizer" in refused(step, source=empty)
