"""The arguments of `hf` and `vllm`, the names that `--model` may have, and models whose layers no
memory holds. Reading what vLLM is told needs no vLLM."""

from __future__ import annotations

import json
import os

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf.snapshot import Arguments, Files, Snapshot
from evalcore.model.registry import ELSEWHERE, MODELS, backend_of
from evalcore.model.vllm import engine
from evalcore.model.vllm.arguments import VllmArguments
from evalcore.model.vllm.backend import options_of
from tests import tiny
from tests.evalcore.model.asking import answers_of, check_told_at_once, load_by, run_toys
from tests.evalcore.model.known_keys import ARGUMENTS, REQUESTS

TYPED = {
    "pretrained": "owner/name",
    "dtype": "float16",
    "max_length": 128,
    "prefix_token_id": 3,
    "think_end_token": 151668,
    "enable_thinking": True,
    "chat_template_args": {"tools": None},
    "rolling_stride": 16,
}


def test_texts_of_the_command_line_mean_what_typed_values_mean():
    texts = {
        **{name: str(value) for name, value in TYPED.items()},
        "dtype": "torch.half",
        "enable_thinking": "true",
        "chat_template_args": '{"tools": null}',
    }
    assert Arguments.of(texts) == Arguments.of(TYPED) == Arguments(**TYPED)
    assert Arguments.of(TYPED).as_json() == TYPED


def test_arguments_that_are_none_or_change_no_number_are_passed_over():
    assert Arguments.of(
        {
            **{"pretrained": "a", "device": "cuda:0", "batch_size": "8", "logits_cache": "True"},
            **{"low_cpu_mem_usage": "True", "token": "hf_x", "cache_dir": "/tmp"},
            **{"local_files_only": "True", "trust_remote_code": "False"},
            **{"max_length": "None", "peft": None},
        }
    ) == Arguments(pretrained="a")


def test_what_is_passed_over_is_said_once_and_no_secret_stands_in_a_file(toys, tmp_path, capsys):
    model = tiny.make(tmp_path / "m", positions=512)
    stated = f"pretrained={model},token=hf_secret,torch_dtype=float32,trust_remote_code=True"
    more = ["--limit", 2, "--output_path", tmp_path / "out"]
    said = run_toys(toys, "--model_args", f"{stated},cache_dir=/tmp", *more)
    written = capsys.readouterr()
    assert said == 0, written.err
    for note in ("token: the variable HF_TOKEN", "cache_dir: "):
        assert written.err.count(f"--model_args: {note}") == 1
    assert "hf_secret" not in written.err + written.out
    (record,) = (tmp_path / "out").rglob("record_*.json")
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(record.read_text())["model"]["dtype"] == "float32"
    assert "trust_remote_code" not in record.read_text()
    assert not any("hf_secret" in file.read_text() for file in (record, results))


WRONG_VALUES = {
    "dtype": ("int3", "expected one of auto, float32, bfloat16, float16, got 'int3'"),
    "backend": ("seq3seq", "expected one of default, causal, seq2seq"),
    "trust_remote_code": ("yes", "expected True or False, got 'yes'"),
    "load_in_8bit": ("8", "expected True or False, got '8'"),
    "bnb_4bit_quant_type": ("int4", "expected one of fp4, nf4"),
    "code_revision": ("main", "expected a commit, in full"),
    "delta": ("a/c@", "expected a folder, owner/name or owner/name@revision"),
    "peft": ("@main", "expected a folder, owner/name or owner/name@revision"),
    "max_length": ("0", "expected a count, got '0'"),
    "rolling_stride": ("-1", "expected a count of tokens, got '-1'"),
    "thinking_budget": ("0", "expected a count of tokens, got '0'"),
    "max_memory_per_gpu": ("lots", "expected a size such as 20GB or 500MiB, or a number of bytes"),
    "chat_template_args": ("nothing", "expected an object"),
}
WRONG_NAMES = {
    "max_lenght": "unknown argument 'max_lenght' (did you mean max_length",
    "autogptq": "argument 'autogptq' is not taken",
    "use_accelerate": "the name is parallelize now",
    "data_parallel_size": "is not taken: the option --data_parallel says how many",
}
VLLMS_VALUES = {
    "max_model_len": ("0", "expected a count"),
    "tensor_parallel_size": ("two", "expected a count above 0, got 'two'"),
    "pipeline_parallel_size": ("0", "expected a count above 0, got '0'"),
    "data_parallel_size": ("2", "expected 1 "),
    "gpu_memory_utilization": ("1.5", "expected a share of the memory, above 0 and up to 1"),
    "truncation_side": ("right", "expected one of left"),
    "cpu_offload_gb": ("-1", "expected a number of GiB"),
    "seed": ("x", "expected a number, got 'x'"),
}
VLLMS_NAMES = {
    "peft": "'peft' is not taken: the name is lora_local_path",
    "hf_overrides": "a model is what its config.json says",
    "tensor_parallel": "did you mean tensor_parallel_size",
    "thinking_budget": "evaluate with --model hf",
}


@pytest.mark.parametrize(
    ("kind", "values", "names"),
    [(Arguments, WRONG_VALUES, WRONG_NAMES), (VllmArguments, VLLMS_VALUES, VLLMS_NAMES)],
)
def test_all_wrong_arguments_are_told_at_once(kind, values, names):
    check_told_at_once(kind.of, values, names)


TOGETHER = [
    ({"torch_dtype": "half", "dtype": "float32"}, "torch_dtype and dtype are the same"),
    ({"load_in_8bit": "True", "load_in_4bit": "True"}, "give one of them"),
    ({"peft": "a/b", "delta": "a/c"}, "peft and delta: a model has one or the other"),
    ({"delta": "a/c", "load_in_4bit": "True"}, "delta and load_in_4bit: a difference is"),
    ({"bnb_4bit_quant_type": "nf4"}, "bnb_4bit_quant_type needs load_in_4bit=True"),
    ({"gguf_file": "../m.gguf"}, "gguf_file: expected the name of one file"),
    ({"gguf_file": "m-00001-of-00003.gguf"}, "gguf_file: expected one whole file"),
    ({"gguf_file": "m.gguf", "peft": "a/b"}, "gguf_file and peft"),
    ({"enable_thinking": "True"}, "enable_thinking needs think_end_token"),
    ({"thinking_budget": "9"}, "thinking_budget needs think_end_token"),
    (
        {"thinking_budget": "9", "think_end_token": "<", "enable_thinking": "False"},
        "thinking_budget and enable_thinking=False contradict one another",
    ),
    ({"code_revision": "a" * 40}, "code_revision needs trust_remote_code=True"),
    ({"trust_remote_code": "True", "delta": "a/b"}, "trust_remote_code and delta: code is run"),
    ({"tp_plan": "auto", "peft": "a/b"}, "tp_plan and peft: a model is divided as it is"),
    ({"max_cpu_memory": "20GB"}, "max_cpu_memory needs parallelize=True"),
]
VLLMS_TOGETHER = [
    ({"max_length": "9", "max_model_len": "9"}, "give one of them"),
    ({"enable_lora": "True"}, "enable_lora needs lora_local_path"),
    ({"max_lora_rank": "8"}, "max_lora_rank needs lora_local_path"),
    ({"enable_lora": "False", "lora_local_path": "b"}, "contradict one another"),
    ({"enable_thinking": "True"}, "enable_thinking needs think_end_token"),
]


@pytest.mark.parametrize(
    ("kind", "stated", "said"),
    [
        *((Arguments, *pair) for pair in TOGETHER),
        *((VllmArguments, *pair) for pair in VLLMS_TOGETHER),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_arguments_that_do_not_go_together_say_so(kind, stated, said):
    with pytest.raises(ModelError) as refused:
        kind.of({"pretrained": "a", **stated})
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("architecture", "stated", "said"),
    [
        ("llama", {"prefix_token_id": "9999"}, r"prefix_token_id: expected a token from 0 to \d+"),
        ("gpt2", {"max_length": "65"}, "max_length: expected at most 64, the positions .* learnt"),
    ],
)
def test_an_argument_beyond_the_models_tables_is_refused_at_once(
    tmp_path, architecture, stated, said
):
    model = tiny.make(tmp_path, architecture=architecture, positions=64)
    with pytest.raises(ModelError, match=said):
        load_by("hf", model, **stated)


def test_the_other_backends_of_lm_eval_get_a_sentence():
    for name in ELSEWHERE:
        assert name not in MODELS
        with pytest.raises(ModelError, match="--model"):
            backend_of(name).from_arguments({})
    with pytest.raises(ModelError, match="did you mean dummy"):
        backend_of("dumy").from_arguments({})


# A model whose layers no memory holds is read from disk for each pass, and says the same.

BEGINNING = "A river is longer than a table, and made of water. " * 8
LONG = [
    *(
        Request("loglikelihood", f"{BEGINNING}Question {place // 4}: which?\nAnswer:", end)
        for place, end in enumerate((" wood", " water", " a table", " a river") * 5)
    ),
    Request("loglikelihood_rolling", "", BEGINNING * 3),
    *(
        Request("generate_until", f"{BEGINNING}{place}.", generation={"max_gen_toks": 8})
        for place in range(4)
    ),
]


@pytest.fixture(scope="module")
def untied(tmp_path_factory):
    """Its output embeddings are its own, so that they are offloaded, too."""
    tied = tiny.make(tmp_path_factory.mktemp("model") / "tied", positions=1024)
    model = AutoModelForCausalLM.from_pretrained(tied, dtype=torch.float32)
    model.config.tie_word_embeddings = False
    torch.manual_seed(0)
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.3)
    place = tied.parent / "untied"
    model.save_pretrained(place)
    AutoTokenizer.from_pretrained(tied).save_pretrained(place)
    return place


@pytest.mark.parametrize(("dtype", "memory"), [("float32", "240KB"), ("bfloat16", "120KB")])
def test_what_is_read_from_disk_says_what_it_says_in_memory(untied, dtype, memory):
    within = load_by("hf", untied, dtype=dtype)
    without = load_by("hf", untied, dtype=dtype, parallelize="True", max_cpu_memory=memory)
    assert without._model.lm_head.weight.is_meta
    assert without._model.model.layers[0].mlp.up_proj.weight.is_meta
    assert without.info.model_key == within.info.model_key
    assert without.accelerators == []
    for ours, theirs in zip(answers_of(without, LONG), answers_of(within, LONG), strict=True):
        assert ours.key == theirs.key
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-6)
        assert (ours.text, ours.is_greedy) == (theirs.text, theirs.is_greedy)


def test_a_memory_that_holds_no_layer_is_refused_with_what_to_state(untied):
    with pytest.raises(ModelError, match=r"not even its first layer has room.*max_cpu_memory"):
        load_by("hf", untied, parallelize="True", max_cpu_memory="20KB")


# What `--model vllm` is told and refuses before vLLM starts.


def test_the_names_of_lm_eval_are_taken_and_mean_what_they_mean_there():
    given = VllmArguments.of(
        {
            **{"pretrained": "owner/name", "revision": "main", "dtype": "bfloat16"},
            **{"tokenizer": "owner/other", "tokenizer_mode": "slow", "add_bos_token": "True"},
            **{"prefix_token_id": "3", "tensor_parallel_size": "2", "data_parallel_size": "1"},
            **{"quantization": "fp8", "max_model_len": "4096", "seed": "1234"},
            **{"lora_local_path": "owner/adapter", "max_lora_rank": "32", "enable_lora": "True"},
            **{"enable_thinking": "True", "think_end_token": "</think>"},
            **{"chat_template_args": '{"tools": null}', "truncation_side": "left"},
            **{"gpu_memory_utilization": "0.8", "enforce_eager": "True", "swap_space": "4"},
            **{"distributed_executor_backend": "ray", "pipeline_parallel_size": "4"},
            **{"kv_cache_dtype": "fp8", "batch_size": "auto", "device": "cuda"},
        }
    )
    reading = given.reading
    assert (reading.pretrained, reading.dtype, reading.max_length) == (
        *("owner/name", "bfloat16"),
        4096,
    )
    assert (reading.tokenizer, reading.use_fast_tokenizer) == ("owner/other", False)
    assert (reading.peft, reading.prefix_token_id, reading.add_bos_token) == (
        *("owner/adapter", 3),
        True,
    )
    assert given.engine == {
        **{"tensor_parallel_size": 2, "pipeline_parallel_size": 4, "data_parallel_size": 1},
        **{"distributed_executor_backend": "ray", "gpu_memory_utilization": 0.8},
        **{"enforce_eager": True, "seed": 1234, "max_lora_rank": 32},
        **{"kv_cache_dtype": "fp8", "quantization": "fp8"},
    }
    assert given.devices == 8
    recorded = given.as_json()
    assert recorded["lora_local_path"] == "owner/adapter"
    assert recorded["tensor_parallel_size"] == 2
    assert "peft" not in recorded


def test_what_was_stated_reaches_vllm_and_the_precision_always_does(tmp_path):
    stated = {"pretrained": "a", "tensor_parallel_size": "2", "enforce_eager": "True"}
    files = Files(Snapshot("a", tmp_path, None), Snapshot("a", tmp_path, None), None)
    told = options_of(VllmArguments.of(stated), files, dtype="float32", length=512, batch_size=8)
    assert told["model"] == str(tmp_path)
    assert (told["dtype"], told["max_model_len"], told["max_num_seqs"]) == ("float32", 513, 8)
    assert (told["tensor_parallel_size"], told["enforce_eager"]) == (2, True)
    assert told["skip_tokenizer_init"] is True
    assert "enable_lora" not in told
    adapted = Files(files.model, files.tokenizer, files.model)
    again = VllmArguments.of({**stated, "max_num_seqs": "4"})
    told = options_of(again, adapted, dtype="float32", length=512, batch_size=8, adapters_rank=16)
    assert (told["enable_lora"], told["max_lora_rank"], told["max_num_seqs"]) == (True, 16, 4)


def test_without_vllm_a_sentence_says_how_to_have_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    stated = {"pretrained": str(tmp_path / "nowhere")}
    with pytest.raises(ModelError, match=r"vLLM is not installed.*plumbline\[vllm\]"):
        backend_of("vllm").from_arguments(stated)
    command = ["run", "--model", "vllm", "--model_args", "pretrained=a/b", "--tasks", "arc_easy"]
    assert main(command) == ModelError.exit_code
    assert "vLLM is not installed" in capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tiny")
    return tiny.make(made, adds_bos=True, positions=64, chat_template=tiny.CHAT)


@pytest.mark.parametrize("kind", ["always", "thinking"])
def test_requests_and_keys_are_those_of_transformers(folder, kind):
    hf = load_by("hf", folder, **ARGUMENTS[kind])
    vllm = load_by("vllm", folder, weights=False, **ARGUMENTS[kind])
    assert vllm.encode(REQUESTS) == hf.encode(REQUESTS)
    assert vllm.pins == hf.pins
    turns = [{"role": "user", "content": "Which?"}]
    assert vllm.chat_template().render(turns, True) == hf.chat_template().render(turns, True)


def test_what_vllm_cannot_do_is_refused_before_it_starts(folder, tmp_path, monkeypatch):
    stated = {"pretrained": str(folder)}
    with pytest.raises(ModelError, match=r"max_model_len: expected at most 64.*got 65"):
        load_by("vllm", folder, weights=False, max_model_len="65")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("evalcore.model.vllm.backend.check_installed", lambda: None)
    with pytest.raises(ModelError, match=r"expected at most 1 \(this machine's processor.*got 2"):
        backend_of("vllm").from_arguments({**stated, "tensor_parallel_size": "2"})
    engine.check_devices(2, spread="ray")
    with pytest.raises(ModelError, match=r"--device: .*'mps'"):
        backend_of("vllm").from_arguments(stated, device="mps")
    seq2seq = tiny.make_seq2seq(tmp_path)
    with pytest.raises(ModelError, match="encoder-decoder model, which --model hf alone computes"):
        load_by("vllm", seq2seq, weights=False)
    lm = load_by("vllm", folder, weights=False)
    long = Request("generate_until", "a", generation={"until": ["\n"], "max_gen_toks": 64})
    with pytest.raises(ModelError, match="length of 64 tokens leaves no room"):
        lm.encode([long])


def test_what_a_run_needs_can_be_fetched_with_the_same_arguments(folder, toys, capsys):
    command = ["fetch", "--model", "vllm", "--tasks", "toy_choice", "--include_path", str(toys)]
    stated = f"pretrained={folder},tensor_parallel_size=2"
    assert main([*command, "--model_args", f"{stated},swap_space=4"]) == 0
    assert "swap_space: vLLM has none any more; passed over" in capsys.readouterr().err
    assert main([*command, "--model_args", f"{stated},enable_lora=True"]) == ModelError.exit_code
    assert "enable_lora needs lora_local_path" in capsys.readouterr().err


def test_a_copy_sees_the_gpu_that_it_is_given_and_no_other(tmp_path, monkeypatch):
    folder = tiny.make(tmp_path)
    for visible, seen in (("4,5,6", "5"), ("", "1")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        backend_of("vllm").from_arguments(
            {"pretrained": str(folder)}, device="cuda:1", weights=False
        )
        assert os.environ["CUDA_VISIBLE_DEVICES"] == seen
