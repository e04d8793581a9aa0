"""Adapters: computed as peft computes them, whole, several over weights that are loaded once, and
never one that changes nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict

import pytest
import torch
from peft import LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import evalcore
from evalcore.errors import ModelError
from evalcore.formats.lmeval.results import folder_name
from evalcore.model.base import Request
from evalcore.model.hf import loading
from evalcore.model.hf.choice import HuggingFace
from evalcore.record import RunRecord
from evalcore.remarks import remarks_on
from tests import tiny
from tests.evalcore.model.asking import answers_to, load, run_toys

ROW = torch.tensor([[5, 6, 7, 8, 9]])
QUERY, VALUE = "q_proj", "v_proj"
ADDED = 6
"""Tokens that some of the adapters add."""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def plain(base, tmp_path_factory):
    """A LoRA that changes something."""
    return tiny.adapt(base, tmp_path_factory.mktemp("adapter"))


def changed(adapter, into, weights=lambda given: given, **config):
    """A copy of an adapter with other weights, or another configuration."""
    shutil.copytree(adapter, into)
    file = into / "adapter_model.safetensors"
    save_file(weights(load_file(file)), file, metadata={"format": "pt"})
    tiny.change_config(into, "adapter_config.json", **config)
    return into


def check_as_peft(lm, wrapped, request, *, within=1e-4):
    """The same logits, and the answer that follows from them."""
    encoded = lm.encode([request])
    with torch.inference_mode():
        row = torch.tensor([encoded[0].tokens])
        logits = wrapped(row).logits
        assert torch.equal(lm._model(row).logits, logits)
    (answer,) = answers_to(lm, encoded)
    of_targets = torch.log_softmax(logits[0, -len(encoded[0].targets) :].float(), -1)
    expected = of_targets.gather(1, torch.tensor(encoded[0].targets)[:, None]).sum().item()
    assert answer.loglikelihood == pytest.approx(expected, abs=within)
    return encoded[0]


TABLES = ["embed_tokens", "lm_head"]


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({"r": 1}, {"dtype": "bfloat16"}),
        ({"use_dora": True}, {}),
        ({"modules_to_save": ["lm_head"]}, {}),
        ({"target_modules": ["embed_tokens"]}, {}),
        ({"trainable_token_indices": {"embed_tokens": [301, 302]}}, {}),
        ({"added": ADDED, "padding": 20}, {}),
        ({"added": ADDED, "padding": 20, "modules_to_save": TABLES}, {"mode": "strict"}),
        ({"added": ADDED, "modules_to_save": ["embed_tokens"]}, {}),
        ({"added": ADDED, "target_modules": [QUERY, *TABLES]}, {}),
        (
            {"added": ADDED, "trainable_token_indices": {"embed_tokens": [342, 343]}},
            {"mode": "strict"},
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_an_adapter_is_computed_as_peft_does(base, tmp_path, options, how):
    adapter = tiny.adapt(base, tmp_path / "adapter", **options)
    added = options.get("added", 0)
    lm = load(base, peft=str(adapter), tokenizer=str(adapter if added else base), **how)
    dtype = how.get("dtype", "float32")
    assert lm.info.dtype == dtype
    alone = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    rows = alone.config.vocab_size
    request = Request("loglikelihood", "Question: Which", " a table")
    if added:
        alone.resize_token_embeddings(rows + added + options.get("padding", 0))
        request = Request("loglikelihood", "Question: <|3|>", " a<|5|>")
    wrapped = PeftModel.from_pretrained(alone, str(adapter)).eval()
    within = 1e-4 if dtype == "float32" else 0.2
    encoded = check_as_peft(lm, wrapped, request, within=within)
    if added:
        assert {rows + 3, rows + 5} <= {*encoded.tokens, *encoded.targets}
        assert lm.info.vocabulary == rows + added + options.get("padding", 0)


def test_rows_without_a_token_are_left_out_in_compat_alone(tmp_path):
    """As lm-evaluation-harness does it where there is an adapter: a model of more rows than tokens
    has other probabilities there."""
    base = tiny.make(tmp_path / "base", padding=50)
    adapter = tiny.adapt(base, tmp_path / "adapter")
    compat, strict = (load(base, peft=str(adapter), mode=mode) for mode in ("compat", "strict"))
    assert (compat.info.vocabulary, strict.info.vocabulary) == (342, None)
    assert compat.info.model_key != strict.info.model_key
    assert "vocabulary" not in strict.info.as_json()
    with torch.inference_mode():
        of_all = strict._model(ROW).logits
        assert of_all.shape[-1] == 392
        assert torch.allclose(compat._model(ROW).logits, of_all[..., :342], atol=1e-5)


@pytest.mark.parametrize(
    ("renamed", "config", "said"),
    [
        ("query", {}, r"lacks 4 weights.*q_proj\.lora_A\.weight"),
        ("query", {}, r"4 weights of its file.*query\.lora_A"),
        (QUERY, {"target_modules": [QUERY]}, r"4 weights of its file.*v_proj"),
        (QUERY, {"use_dora": True}, r"lacks 4 weights.*lora_magnitude_vector"),
        (QUERY, {"modules_to_save": ["lm_head"]}, r"does not fit.*lacks lm_head\.weight"),
        (QUERY, {"r": 4}, r"8 weights .* other shapes .*lora_A\.weight \(8, 64, where .* 4, 64\)"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_the_names(
    base, plain, tmp_path, renamed, config, said
):
    def weights(given):
        return {key.replace(QUERY, renamed): weight for key, weight in given.items()}

    with pytest.raises(ModelError, match=said) as error:
        load(base, peft=str(changed(plain, tmp_path / "changed", weights, **config)))
    assert str(tmp_path / "changed") in str(error.value)


def test_tables_that_are_not_whole_or_not_of_one_width_are_refused(base, tmp_path):
    """Rows would be made up."""
    whole = tiny.adapt(base, tmp_path / "whole", added=ADDED)

    def without(part):
        return lambda given: {key: weight for key, weight in given.items() if part not in key}

    def narrower(given):
        return {**given, "base_model.model.lm_head.weight": torch.zeros(345, 64)}

    for place, weights, said in (
        ("a", without("lm_head"), "adds 6 tokens .* brings the output embeddings of only"),
        ("b", without("embed_tokens"), "adds 6 tokens .* brings the input embeddings of only"),
        ("c", narrower, "tables of 345 and of 348 tokens"),
    ):
        adapter = changed(whole, tmp_path / place, weights)
        with pytest.raises(ModelError, match=said):
            load(base, peft=str(adapter), tokenizer=str(whole))


def test_a_tokenizer_of_another_length_is_refused_before_weights_are_read(base, tmp_path):
    adapter = tiny.adapt(base, tmp_path / "adapter", added=ADDED)
    bare = tmp_path / "bare"
    shutil.copytree(base, bare)
    (bare / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"of 348 tokens over a model of 342.* makes 342: give"):
        load(bare, peft=str(adapter))
    longer = tiny.adapt(base, tmp_path / "longer", added=9)
    with pytest.raises(ModelError, match=r"of 348 tokens .* makes 351"):
        load(bare, peft=str(adapter), tokenizer=str(longer))


@pytest.mark.parametrize(
    ("options", "dtype"),
    [({}, "float32"), ({"use_dora": True}, "bfloat16"), ({"added": ADDED}, "float32")],
    ids=["LoRA", "DoRA", "with added tokens"],
)
def test_one_that_changes_no_logit_is_refused(base, tmp_path, options, dtype):
    """As it lies on the Hub when somebody has published it before its training."""
    untrained = {"moved": False, "init_lora_weights": True}
    adapter = tiny.adapt(base, tmp_path / "adapter", **untrained, **options)
    source = adapter if "added" in options else base
    with pytest.raises(ModelError, match="changes no logit of the model"):
        load(base, peft=str(adapter), dtype=dtype, tokenizer=str(source))


def test_one_that_changes_a_single_tokens_embedding_is_evaluated(base, tmp_path):
    """The rest of the table, and the LoRA beside it, are as they were."""
    model = AutoModelForCausalLM.from_pretrained(base)
    options = LoraConfig(target_modules=[QUERY], modules_to_save=["embed_tokens"])
    wrapped = get_peft_model(model, options)
    with torch.no_grad():
        wrapped.get_input_embeddings().weight[333] += 0.01
    adapter = str(tmp_path / "adapter")
    wrapped.save_pretrained(adapter)
    assert load(base, peft=adapter).info.adapter.startswith(adapter)


def test_an_adapter_that_is_not_put_over_a_model_is_refused(base, plain, tmp_path):
    """One in the model's own folder, which transformers puts on where peft is installed and not
    where it is not; and one that lies in the prompt."""
    folder = tmp_path / "folder"
    shutil.copytree(plain, folder)
    for file in base.glob("*token*"):
        shutil.copy(file, folder)
    with pytest.raises(ModelError, match="is an adapter"):
        load(folder)
    shutil.copytree(base, folder, dirs_exist_ok=True)
    with pytest.raises(ModelError, match="a model and an adapter"):
        load(folder)
    options = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    prompt = get_peft_model(AutoModelForCausalLM.from_pretrained(base), options)
    prompt.save_pretrained(str(tmp_path / "prompt"))
    with pytest.raises(ModelError, match="of the kind PROMPT_TUNING"):
        load(base, peft=str(tmp_path / "prompt"))


def test_results_with_an_adapter_are_filed_under_its_name(base, plain, toys, tmp_path):
    """As by lm-evaluation-harness: otherwise they lie among those of the model without it."""
    folders = {}
    for name, more in ((str(base), ""), (str(plain), f",peft={plain}")):
        given = f"pretrained={base},dtype=float32{more}"
        out = ["--limit", 2, "--output_path", tmp_path / "out"]
        assert run_toys(toys, "--model_args", given, *out) == 0
        (file,) = (tmp_path / "out" / folder_name(name)).glob("results_*.json")
        results = json.loads(file.read_text())
        assert results["model_name"] == name
        assert results["model_name_sanitized"] == folder_name(name)
        assert results["config"].get("peft_sha") == ("" if more else None)
        folders[name] = file.parent
    assert len(set(folders.values())) == 2
    (record,) = folders[str(plain)].glob("record_*.json")
    assert RunRecord.read(record).model_name == str(plain)


# Several adapters over weights that are loaded once: each as in a run with it alone.

TIMES = ("started", "seconds", "timing", "energy", "samples")


@pytest.fixture(scope="module")
def biased(tmp_path_factory):
    """With biases, which some adapters train in their place, and rows that are no token's, which
    compat leaves out under those that bring no tables."""
    return tiny.make(tmp_path_factory.mktemp("biased"), architecture="qwen2", padding=20)


@pytest.fixture(scope="module")
def adapters(biased, tmp_path_factory):
    """Each leaves something behind in a model that it is put on."""
    folder = tmp_path_factory.mktemp("adapters")
    kinds = {
        "biases": {"bias": "all"},
        "tables": {"modules_to_save": TABLES},
        "dora": {"use_dora": True, "target_modules": [VALUE, "down_proj"]},
        "pissa": {"init_lora_weights": "pissa"},
        "tokens": {"trainable_token_indices": {"embed_tokens": [301, 302]}},
    }
    return [
        *(str(tiny.adapt(biased, folder / name, **options)) for name, options in kinds.items()),
        str(tiny.adapt(biased, folder / "plain")),
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


def test_each_of_several_is_what_it_is_alone(biased, adapters, toys, loads):
    given = {"pretrained": str(biased), "dtype": "float32"}
    how = {"include_path": toys, "limit": 3}
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


def test_weights_that_an_adapter_has_written_into_are_loaded_anew(biased, adapters, loads):
    given = {"pretrained": str(biased), "dtype": "float32"}
    first, second = HuggingFace.with_adapters(given, [adapters[-1], adapters[2]], device="cpu")
    written = first()._model.model.layers[0].mlp.gate_proj.weight
    with torch.no_grad():
        written[7] += 1
    found = second()._model.model.layers[0].mlp.gate_proj.weight
    assert len(loads) == 2
    assert torch.allclose(found[7], written[7] - 1, atol=1e-5)


def test_quantised_weights_are_loaded_for_each(biased, adapters, loads):
    given = {"pretrained": str(biased), "dtype": "float32", "load_in_4bit": "True"}
    chosen = [adapters[2], adapters[-1]]
    for name, load_one in zip(
        chosen, HuggingFace.with_adapters(given, chosen, device="cpu"), strict=True
    ):
        together = load_one()
        alone = load(biased, load_in_4bit="True", peft=name)
        assert together.info == alone.info
        with torch.inference_mode():
            assert torch.equal(together._model(ROW).logits, alone._model(ROW).logits)
    assert len(loads) == 4


def test_the_command_writes_a_record_for_each_and_says_which_it_is_at(
    biased, adapters, toys, tmp_path, capsys, loads
):
    chosen = [adapters[0], adapters[-1]]
    stated = ["--model_args", f"pretrained={biased},dtype=float32", "--adapters", *chosen]
    assert run_toys(toys, *stated, "--limit", 2, "--output_path", tmp_path) == 0
    assert len(loads) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if ": adapter" in line]
    assert [line.rpartition(" ")[2] for line in lines] == chosen
    records = [RunRecord.read(file) for file in tmp_path.rglob("record_*.json")]
    assert {record.model_name for record in records} == {*chosen}
    assert len(list(tmp_path.rglob("results_*.json"))) == 2


def test_one_that_does_not_fit_is_refused_before_any_is_evaluated(
    biased, adapters, tmp_path, loads
):
    narrow = tiny.adapt(tiny.make(tmp_path / "narrow", width=32), tmp_path / "other")
    given = {"pretrained": str(biased)}
    with pytest.raises(ModelError, match="other does not fit the model"):
        HuggingFace.with_adapters(given, [adapters[-1], str(narrow)], device="cpu")
    with pytest.raises(ModelError, match="--adapters names the adapters"):
        HuggingFace.with_adapters({**given, "peft": adapters[-1]}, adapters, device="cpu")
    assert not loads
    lacking = changed(adapters[-1], tmp_path / "changed", bias="all")
    with pytest.raises(ModelError, match=r"lacks \d+ weights.*bias"):
        load(biased, peft=str(lacking))


def test_the_others_are_evaluated_where_one_changes_nothing(base, plain, toys, tmp_path, capsys):
    model = AutoModelForCausalLM.from_pretrained(base)
    idle = get_peft_model(model, LoraConfig(target_modules=[QUERY]))
    idle.save_pretrained(str(tmp_path / "idle"))
    stated = ["--model_args", f"pretrained={base}", "--adapters", tmp_path / "idle", plain]
    assert run_toys(toys, *stated, "--limit", 2, "--output_path", tmp_path / "out") == 10
    assert "changes no logit" in capsys.readouterr().err
    (record,) = (tmp_path / "out").rglob("record_*.json")
    assert RunRecord.read(record).model_name == str(plain)


def test_another_name_than_the_one_it_was_trained_on_is_a_remark(toys, tmp_path):
    """Folders may have any name, so names refuse nothing."""
    base = tiny.make(tmp_path / "Llama-Tiny")
    adapter = tiny.adapt(base, tmp_path / "adapter")
    for stated, expected in [
        ("/home/ada/llama-tiny", None),
        (None, None),
        ("meta/llama-large", "meta/llama-large"),
    ]:
        tiny.change_config(adapter, "adapter_config.json", base_model_name_or_path=stated)
        lm = load(base, peft=str(adapter))
        assert lm.info.as_json().get("adapter_base") == expected
    (evaluation,) = evalcore.evaluate(lm, ["toy_choice"], include_path=toys, limit=2)
    (remark,) = [line for line in remarks_on([evaluation.record]) if "was trained on" in line]
    assert remark.startswith(f"the adapter {adapter} says that it was trained on meta/llama-")


def test_a_model_that_takes_no_adapter_says_so(toys, capsys):
    assert run_toys(toys, "--model", "dummy", "--adapters", "a") == 2
    assert "--adapters: --model dummy takes none" in capsys.readouterr().err
