"""Delta weights: the sum of two models, whole, and never of two that do not belong together."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.formats.lmeval.results import folder_name
from evalcore.model.hf.choice import HuggingFace
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.record import RunRecord
from tests import tiny
from tests.evalcore.toys import write_toys

ROW = torch.tensor([[5, 6, 7, 8, 9]])


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def delta(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("delta")
    return tiny.subtract(tiny.make(folder / "tuned", seed=1), base, folder / "delta")


def load(base, delta, **stated):
    given = {"pretrained": str(base), "dtype": "float32", "delta": str(delta), **stated}
    return HuggingFaceLM(Arguments.of(given), device="cpu")


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "auto"])
def test_it_is_the_sum_in_the_models_precision(tmp_path, dtype, architecture):
    """Of GPT-2, whose tables are tied, each weight once: lm-evaluation-harness adds them twice."""
    base = tiny.make(tmp_path / "base", architecture=architecture)
    tuned = tiny.make(tmp_path / "tuned", architecture=architecture, seed=1)
    delta = tiny.subtract(tuned, base, tmp_path / "delta", "bfloat16")
    lm = load(base, delta, dtype=dtype)
    expected, difference = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=dtype) for folder in (base, delta)
    )
    differences = dict(difference.named_parameters())
    with torch.no_grad():
        for name, weight in expected.named_parameters():
            weight += differences[name]
        assert torch.equal(lm._model(ROW).logits, expected.eval()(ROW).logits)
    assert lm.info.dtype == str(expected.dtype).removeprefix("torch.")


def changed(delta, into, weights=lambda given: given, **config):
    shutil.copytree(delta, into)
    file = into / "model.safetensors"
    save_file(weights(load_file(file)), file, metadata={"format": "pt"})
    settings = into / "config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **config}))
    return into


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"width": 32}, r"21 of its weights have other shapes, such as lm_head\.weight \(342 × 32"),
        ({"padding": 1}, r"2 of its weights .* lm_head\.weight \(343 × 64, where .* 342 × 64\)"),
        ({"architecture": "qwen2"}, r"it has 6 weights that the model does not have.*k_proj\.bias"),
        ({"architecture": "gpt_neox"}, r"it lacks \d+ weights of the model"),
    ],
    ids=["narrow", "longer tables", "biases", "another kind"],
)
def test_one_of_another_model_is_refused_before_weights_are_read(base, tmp_path, made, said):
    other = tiny.make(tmp_path / "other", **made)
    bare = tmp_path / "bare"
    shutil.copytree(base, bare)
    for folder in (bare, other):
        (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=f"cannot be added to the model as delta: .*{said}"):
        load(bare, other)


def test_a_file_that_lacks_weights_is_refused(base, delta, tmp_path):
    part = changed(
        delta,
        tmp_path / "part",
        lambda given: {name: weight for name, weight in given.items() if "o_proj" not in name},
    )
    with pytest.raises(ModelError, match=r"part: its files lack weights .* 2 in all.*o_proj"):
        load(base, part)


def test_one_that_changes_nothing_is_refused(base, delta, tmp_path):
    zero = changed(
        delta, tmp_path / "zero", lambda given: {name: 0 * weight for name, weight in given.items()}
    )
    with pytest.raises(ModelError, match="is zero in all its weights"):
        load(base, zero)


@pytest.mark.parametrize("which", ["base", "delta"])
def test_nothing_is_added_to_quantised_weights(base, delta, tmp_path, which):
    stated = {"quant_method": "gptq", "bits": 4}
    folders = {"base": base, "delta": delta}
    folders[which] = changed(folders[which], tmp_path / "packed", quantization_config=stated)
    with pytest.raises(ModelError, match=r"(packed is quantised|are quantised) \(gptq 4-bit\)"):
        load(**folders)


def test_an_encoder_is_evaluated_alone(delta, tmp_path):
    folder = tiny.make_seq2seq(tmp_path)
    with pytest.raises(ModelError, match=r"delta: .* is an encoder-decoder model"):
        HuggingFace.from_arguments({"pretrained": str(folder), "delta": str(delta)}, device="cpu")


def test_results_with_a_delta_are_filed_under_its_name(base, delta, tmp_path):
    tasks = write_toys(tmp_path)
    given = f"pretrained={base},dtype=float32,delta={delta}"
    command = ["run", "--model_args", given, "--tasks", "toy_choice", "--include_path", str(tasks)]
    assert main([*command, "--limit", "2", "--output_path", str(tmp_path / "out")]) == 0
    folder = tmp_path / "out" / folder_name(str(delta))
    (results,) = folder.glob("results_*.json")
    stated = json.loads(results.read_text())
    assert stated["model_name"] == str(delta)
    assert stated["config"]["delta_sha"] == ""
    (record,) = folder.glob("record_*.json")
    record = RunRecord.read(record)
    assert record.model_name == str(delta)
    assert record.model["delta"].startswith(f"{delta}@")
    alone = HuggingFaceLM(Arguments(pretrained=str(base), dtype="float32"), device="cpu").info
    assert record.model["model_key"] != alone.model_key
    assert "delta" not in alone.as_json()
