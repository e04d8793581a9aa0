"""What `--model vllm` is told and refuses before vLLM starts; reading needs no vLLM."""

from __future__ import annotations

import os

import pytest

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf.snapshot import Files, Snapshot
from evalcore.model.registry import backend_of
from evalcore.model.vllm import engine
from evalcore.model.vllm.arguments import VllmArguments
from evalcore.model.vllm.backend import options_of
from tests import tiny
from tests.evalcore.model.known_keys import ARGUMENTS, REQUESTS
from tests.evalcore.toys import write_toys


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


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({}, "missing argument 'pretrained'"),
        ({"pretrained": "a", "max_length": "9", "max_model_len": "9"}, "give one of them"),
        ({"pretrained": "a", "max_model_len": "0"}, "max_model_len: expected a count"),
        ({"pretrained": "a", "tensor_parallel_size": "two"}, "tensor_parallel_size: expected a c"),
        ({"pretrained": "a", "tensor_parallel_size": "0"}, "tensor_parallel_size: expected a c"),
        ({"pretrained": "a", "data_parallel_size": "2"}, r"data_parallel_size: expected 1 .*'2'"),
        ({"pretrained": "a", "gpu_memory_utilization": "1.5"}, "expected a share of the memory"),
        ({"pretrained": "a", "enable_lora": "True"}, "enable_lora needs lora_local_path"),
        ({"pretrained": "a", "max_lora_rank": "8"}, "max_lora_rank needs lora_local_path"),
        (
            {"pretrained": "a", "enable_lora": "False", "lora_local_path": "b"},
            "contradict one another",
        ),
        ({"pretrained": "a", "truncation_side": "right"}, "truncation_side: expected one of left"),
        ({"pretrained": "a", "enable_thinking": "True"}, "enable_thinking needs think_end_token"),
        ({"pretrained": "a", "peft": "b"}, "'peft' is not taken: the name is lora_local_path"),
        ({"pretrained": "a", "hf_overrides": "{}"}, "a model is what its config.json says"),
        ({"pretrained": "a", "tensor_parallel": "2"}, "did you mean tensor_parallel_size"),
        ({"pretrained": "a", "cpu_offload_gb": "-1"}, "cpu_offload_gb: expected a number of GiB"),
        ({"pretrained": "a", "seed": "x"}, "seed: expected a number, got 'x'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(stated, says):
    with pytest.raises(ModelError, match=says):
        VllmArguments.of(stated)


def test_without_vllm_a_sentence_says_how_to_have_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    stated = {"pretrained": str(tmp_path / "nowhere")}
    with pytest.raises(ModelError, match=r"vLLM is not installed.*plumbline\[vllm\]"):
        backend_of("vllm").from_arguments(stated)
    command = ["run", "--model", "vllm", "--model_args", "pretrained=a/b", "--tasks", "arc_easy"]
    assert main(command) == ModelError.exit_code
    assert "vLLM is not installed" in capsys.readouterr().err


def test_two_devices_are_refused_where_one_is(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "find_spec", lambda name: name)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    stated = {"pretrained": str(tmp_path / "nowhere"), "tensor_parallel_size": "2"}
    for module in (engine,):
        assert module.check_devices(1, spread="") is None
    monkeypatch.setattr("evalcore.model.vllm.backend.check_installed", lambda: None)
    with pytest.raises(ModelError, match=r"expected at most 1 \(this machine's processor.*got 2"):
        backend_of("vllm").from_arguments(stated)
    engine.check_devices(2, spread="ray")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tiny")
    return tiny.make(made, adds_bos=True, positions=64, chat_template=tiny.CHAT)


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_requests_and_keys_are_those_of_transformers(folder, kind):
    stated = {"pretrained": str(folder), "dtype": "float32", **ARGUMENTS[kind]}
    hf = backend_of("hf").from_arguments(stated, device="cpu")
    vllm = backend_of("vllm").from_arguments(stated, weights=False)
    assert vllm.encode(REQUESTS) == hf.encode(REQUESTS)
    assert vllm.pins == hf.pins
    turns = [{"role": "user", "content": "Which?"}]
    assert vllm.chat_template().render(turns, True) == hf.chat_template().render(turns, True)


def test_what_vllm_cannot_do_is_refused_before_it_starts(folder, tmp_path):
    stated = {"pretrained": str(folder)}
    with pytest.raises(ModelError, match=r"max_model_len: expected at most 64.*got 65"):
        backend_of("vllm").from_arguments({**stated, "max_model_len": "65"}, weights=False)
    with pytest.raises(ModelError, match=r"--device: .*'mps'"):
        backend_of("vllm").from_arguments(stated, device="mps")
    seq2seq = tiny.make_seq2seq(tmp_path)
    with pytest.raises(ModelError, match="encoder-decoder model, which --model hf alone computes"):
        backend_of("vllm").from_arguments({"pretrained": str(seq2seq)}, weights=False)
    lm = backend_of("vllm").from_arguments(stated, weights=False)
    long = Request("generate_until", "a", generation={"until": ["\n"], "max_gen_toks": 64})
    with pytest.raises(ModelError, match="length of 64 tokens leaves no room"):
        lm.encode([long])


def test_what_a_run_needs_can_be_fetched_with_the_same_arguments(folder, tmp_path, capsys):
    tasks = write_toys(tmp_path)
    command = ["fetch", "--model", "vllm", "--tasks", "toy_choice", "--include_path", str(tasks)]
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
