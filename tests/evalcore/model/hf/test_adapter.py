"""Adapters: as peft computes them, whole, and never one that changes nothing."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from peft import LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.formats.lmeval.results import folder_name
from evalcore.model.base import Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.record import RunRecord
from tests import tiny
from tests.evalcore.toys import write_toys

ROW = torch.tensor([[5, 6, 7, 8, 9]])
QUERY, VALUE = "q_proj", "v_proj"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def plain(base, tmp_path_factory):
    """A LoRA that changes something, and the weights of its file."""
    return tiny.adapt(base, tmp_path_factory.mktemp("adapter"))


def load(base, adapter, dtype="float32"):
    given = {"pretrained": str(base), "dtype": dtype, "peft": str(adapter)}
    return HuggingFaceLM(Arguments.of(given), device="cpu")


def changed(adapter, into, weights=lambda given: given, **config):
    """A copy of an adapter with other weights, or another configuration."""
    shutil.copytree(adapter, into)
    file = into / "adapter_model.safetensors"
    save_file(weights(load_file(file)), file, metadata={"format": "pt"})
    settings = into / "adapter_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **config}))
    return into


def trained(base, into, **options):
    """An adapter of which every weight was moved from where it began."""
    torch.manual_seed(4)
    options = {"target_modules": [QUERY, VALUE], "init_lora_weights": False, **options}
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(**options))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(str(into))
    return into


KINDS = {
    "rank 1": {"r": 1},
    "DoRA": {"use_dora": True},
    "whole head": {"modules_to_save": ["lm_head"]},
    "whole embeddings": {"modules_to_save": ["embed_tokens"]},
    "LoRA of embeddings": {"target_modules": ["embed_tokens"]},
    "LoRA of head": {"target_modules": ["lm_head"]},
    "a few tokens": {"trainable_token_indices": {"embed_tokens": [301, 302]}},
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_computed_as_peft_does(base, tmp_path, kind, dtype):
    adapter = trained(base, tmp_path / "adapter", **KINDS[kind])
    lm = load(base, adapter, dtype)
    alone = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    wrapped = PeftModel.from_pretrained(alone, str(adapter)).eval()
    with torch.inference_mode():
        assert torch.equal(lm._model(ROW).logits, wrapped(ROW).logits)
    encoded = lm.encode([Request("loglikelihood", "Question: Which", " a table")])
    ((_, answer),) = next(iter(lm.answer(encoded)))
    with torch.inference_mode():
        logits = wrapped(torch.tensor([encoded[0].tokens])).logits[0].float()
    rows = torch.log_softmax(logits[-len(encoded[0].targets) :], -1)
    expected = rows.gather(1, torch.tensor(encoded[0].targets)[:, None]).sum().item()
    assert answer.loglikelihood == pytest.approx(expected, abs=1e-4 if dtype == "float32" else 0.2)
    assert lm.info.dtype == dtype


@pytest.mark.parametrize(
    ("weights", "config", "said"),
    [
        (
            lambda given: {key.replace(QUERY, "query"): weight for key, weight in given.items()},
            {},
            [r"lacks 4 weights.*q_proj\.lora_A\.weight", r"4 weights of its file.*query\.lora_A"],
        ),
        (
            lambda given: {key: weight for key, weight in given.items() if "layers.1." not in key},
            {},
            [r"lacks 4 weights.*layers\.1\."],
        ),
        (lambda given: given, {"target_modules": [QUERY]}, [r"4 weights of its file.*v_proj"]),
        (lambda given: given, {"use_dora": True}, [r"lacks 4 weights.*lora_magnitude_vector"]),
        (
            lambda given: given,
            {"modules_to_save": ["lm_head"]},
            [r"does not fit.*lacks lm_head\.weight"],
        ),
        (
            lambda given: given,
            {"r": 4},
            [r"8 weights .* other shapes .*lora_A\.weight \(8, 64, where .* 4, 64\)"],
        ),
    ],
    ids=["other names", "a layer missing", "left over", "no magnitudes", "no head", "another rank"],
)
def test_a_file_that_does_not_fit_is_refused_with_the_names(
    base, plain, tmp_path, weights, config, said
):
    with pytest.raises(ModelError) as error:
        load(base, changed(plain, tmp_path / "changed", weights, **config))
    for part in said:
        error.match(part)
    assert str(tmp_path / "changed") in str(error.value)


def zero(given):
    return {key: weight * (0 if "lora_B" in key else 1) for key, weight in given.items()}


@pytest.mark.parametrize("kind", [{}, {"use_dora": True}, {"r": 1}], ids=["LoRA", "DoRA", "rank 1"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_that_changes_no_logit_is_refused(base, tmp_path, kind, dtype):
    """As it lies on the Hub when somebody has published it before its training."""
    model = AutoModelForCausalLM.from_pretrained(base)
    options = LoraConfig(target_modules=[QUERY, VALUE], init_lora_weights=True, **kind)
    get_peft_model(model, options).save_pretrained(str(tmp_path / "adapter"))
    with pytest.raises(ModelError, match="changes no logit of the model"):
        load(base, tmp_path / "adapter", dtype)


def test_one_that_changes_a_single_tokens_embedding_is_evaluated(base, tmp_path):
    """The rest of the table, and the LoRA beside it, are as they were."""
    model = AutoModelForCausalLM.from_pretrained(base)
    options = LoraConfig(target_modules=[QUERY], modules_to_save=["embed_tokens"])
    wrapped = get_peft_model(model, options)
    with torch.no_grad():
        wrapped.get_input_embeddings().weight[333] += 0.01
    wrapped.save_pretrained(str(tmp_path / "adapter"))
    assert load(base, tmp_path / "adapter").info.adapter.startswith(str(tmp_path / "adapter"))


@pytest.mark.parametrize("whole", [False, True], ids=["an adapter alone", "a model with one"])
def test_an_adapter_in_a_models_own_folder_is_never_put_on_unasked(base, plain, tmp_path, whole):
    """As transformers does where peft is installed, and not where it is not."""
    folder = tmp_path / "folder"
    shutil.copytree(plain, folder)
    for file in base.iterdir():
        if whole or "token" in file.name:
            shutil.copy(file, folder)
    with pytest.raises(ModelError, match="a model and an adapter" if whole else "is an adapter"):
        HuggingFaceLM(Arguments(pretrained=str(folder)), device="cpu")


def test_one_that_lies_in_the_prompt_is_refused(base, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(base)
    options = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    get_peft_model(model, options).save_pretrained(str(tmp_path / "adapter"))
    with pytest.raises(ModelError, match="of the kind PROMPT_TUNING"):
        load(base, tmp_path / "adapter")


def test_results_with_an_adapter_are_filed_under_its_name(base, plain, tmp_path):
    """As by lm-evaluation-harness: otherwise they lie among those of the model without it."""
    tasks = str(write_toys(tmp_path))
    arguments = {"pretrained": str(base), "dtype": "float32"}
    folders = {}
    for peft in (None, str(plain)):
        stated = {**arguments, **({"peft": peft} if peft else {})}
        texts = ",".join(f"{name}={value}" for name, value in stated.items())
        command = f"run --model_args {texts} --tasks toy_choice --include_path {tasks} --limit 2"
        assert main([*command.split(), "--output_path", str(tmp_path / "out")]) == 0
        name = peft or str(base)
        (file,) = (tmp_path / "out" / folder_name(name)).glob("results_*.json")
        results = json.loads(file.read_text())
        assert results["model_name"] == name
        assert results["model_name_sanitized"] == folder_name(name)
        assert results["config"].get("peft_sha") == (None if peft is None else "")
        folders[name] = file.parent
    assert len(set(folders.values())) == 2
    (record,) = folders[str(plain)].glob("record_*.json")
    assert RunRecord.read(record).model_name == str(plain)
