"""Several adapters over weights that are loaded once: each as in a run with it alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

import evalcore
from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.model.hf import loading
from evalcore.model.hf.choice import HuggingFace
from evalcore.record import RunRecord
from tests import tiny
from tests.evalcore.toys import write_toys

TIMES = ("started", "seconds", "timing", "energy", "samples")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """With biases, which some adapters train in their place, and rows that are no token's, which
    compat leaves out under those that bring no tables."""
    return tiny.make(tmp_path_factory.mktemp("base"), architecture="qwen2", padding=20)


def trained(base, into, **options):
    torch.manual_seed(len(str(options)))
    options = {"target_modules": ["q_proj"], "init_lora_weights": False, **options}
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(**options))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(str(into))
    return str(into)


@pytest.fixture(scope="module")
def adapters(base, tmp_path_factory):
    """Each leaves something behind in a model that it is put on."""
    folder = tmp_path_factory.mktemp("adapters")
    kinds = {
        "biases": {"bias": "all"},
        "tables": {"modules_to_save": ["embed_tokens", "lm_head"]},
        "dora": {"use_dora": True, "target_modules": ["v_proj", "down_proj"]},
        "pissa": {"init_lora_weights": "pissa"},
        "tokens": {"trainable_token_indices": {"embed_tokens": [301, 302]}},
    }
    return [
        *(trained(base, folder / name, **options) for name, options in kinds.items()),
        str(tiny.adapt(base, folder / "plain")),
    ]


@pytest.fixture
def loads(monkeypatch):
    """How often weights of a model are read from its files."""
    times = []
    real = loading._load_alone
    monkeypatch.setattr(loading, "_load_alone", lambda *given: times.append(1) or real(*given))
    return times


def lasting(record):
    return {name: value for name, value in asdict(record).items() if name not in TIMES}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_each_is_what_it_is_alone(base, adapters, tmp_path, loads, dtype):
    tasks = write_toys(tmp_path)
    given = {"pretrained": str(base), "dtype": dtype}
    how = {"include_path": tasks, "limit": 3}
    together = evalcore.evaluate("hf", ["toy_choice"], model_args=given, adapters=adapters, **how)
    assert len(loads) == 1
    assert len({evaluation.record.model["model_key"] for evaluation in together}) == len(adapters)
    for name, evaluation in zip(adapters, together, strict=True):
        (alone,) = evalcore.evaluate(
            "hf", ["toy_choice"], model_args={**given, "peft": name}, **how
        )
        assert lasting(evaluation.record) == lasting(alone.record)
        assert evaluation.samples == alone.samples
    assert len(loads) == 1 + len(adapters)


def test_weights_that_an_adapter_has_written_into_are_loaded_anew(base, adapters, loads):
    given = {"pretrained": str(base), "dtype": "float32"}
    first, second = HuggingFace.with_adapters(given, [adapters[-1], adapters[2]], device="cpu")
    written = first()._model.model.layers[0].mlp.gate_proj.weight
    with torch.no_grad():
        written[7] += 1
    found = second()._model.model.layers[0].mlp.gate_proj.weight
    assert len(loads) == 2
    assert torch.allclose(found[7], written[7] - 1, atol=1e-5)


def test_quantised_weights_are_loaded_for_each(base, adapters, loads):
    given = {"pretrained": str(base), "dtype": "float32", "load_in_4bit": "True"}
    chosen = [adapters[2], adapters[-1]]
    row = torch.tensor([[5, 6, 7, 8]])
    loaders = HuggingFace.with_adapters(given, chosen, device="cpu")
    for name, load in zip(chosen, loaders, strict=True):
        together = load()
        alone = HuggingFace.from_arguments({**given, "peft": name}, device="cpu")
        assert together.info == alone.info
        with torch.inference_mode():
            assert torch.equal(together._model(row).logits, alone._model(row).logits)
    assert len(loads) == 4


def test_the_command_writes_the_files_of_as_many_runs(base, adapters, tmp_path, capsys, loads):
    tasks = write_toys(tmp_path)
    command = ["run", "--tasks", "toy_choice", "--include_path", str(tasks), "--limit", "2"]
    command += ["--check_again"]  # else the second run of a model says that the first checked it
    model = ["--model_args", f"pretrained={base},dtype=float32"]
    chosen = [adapters[0], adapters[-1]]
    out = ["--output_path", str(tmp_path / "together"), "--use_cache", str(tmp_path / "cache")]
    assert main([*command, *model, *out, "--adapters", *chosen]) == 0
    assert len(loads) == 1
    written = capsys.readouterr()
    assert [
        line.rpartition(" ")[2] for line in written.err.splitlines() if ": adapter" in line
    ] == (chosen)
    for name in chosen:
        alone = ["--output_path", str(tmp_path / "alone")]
        assert main([*command, f"{model[0]}", f"{model[1]},peft={name}", *alone]) == 0
    for kind in ("record", "results"):
        found, expected = (
            {file.parent.name: file for file in (tmp_path / place).rglob(f"{kind}_*.json")}
            for place in ("together", "alone")
        )
        assert len(found) == 2
        assert found.keys() == expected.keys()
        for name, file in found.items():
            if kind == "record":
                ours, theirs = RunRecord.read(file), RunRecord.read(expected[name])
                assert lasting(ours) == lasting(theirs)
            else:
                ours, theirs = json.loads(file.read_text()), json.loads(expected[name].read_text())
                assert ours["results"] == theirs["results"]
                assert ours["config"]["model_args"] == theirs["config"]["model_args"]


def test_one_that_does_not_fit_is_refused_before_any_is_evaluated(base, adapters, tmp_path, loads):
    narrow = tiny.adapt(tiny.make(tmp_path / "narrow", width=32), tmp_path / "other")
    given = {"pretrained": str(base)}
    with pytest.raises(ModelError, match="other does not fit the model"):
        HuggingFace.with_adapters(given, [adapters[-1], str(narrow)], device="cpu")
    with pytest.raises(ModelError, match="--adapters names the adapters"):
        HuggingFace.with_adapters({**given, "peft": adapters[-1]}, adapters, device="cpu")
    assert not loads


def test_the_others_are_evaluated_where_one_changes_nothing(base, tmp_path, capsys):
    tasks = write_toys(tmp_path)
    good = tiny.adapt(base, tmp_path / "good")
    model = AutoModelForCausalLM.from_pretrained(base)
    idle = get_peft_model(model, LoraConfig(target_modules=["q_proj"]))
    idle.save_pretrained(str(tmp_path / "idle"))
    command = ["run", "--tasks", "toy_choice", "--include_path", str(tasks), "--limit", "2"]
    model = ["--model_args", f"pretrained={base}", "--output_path", str(tmp_path / "out")]
    assert main([*command, *model, "--adapters", str(tmp_path / "idle"), str(good)]) == 10
    assert "changes no logit" in capsys.readouterr().err
    (record,) = (tmp_path / "out").rglob("record_*.json")
    assert RunRecord.read(record).model_name == str(good)
    shutil.rmtree(tmp_path / "out")


def test_a_model_that_takes_no_adapter_says_so(tmp_path, capsys):
    tasks = write_toys(tmp_path)
    command = ["run", "--tasks", "toy_choice", "--include_path", str(tasks), "--model", "dummy"]
    assert main([*command, "--adapters", "a"]) == 2
    assert "--adapters: --model dummy takes none" in capsys.readouterr().err
