"""The `--model_args` of the `vllm` backend: those of how a model is read, which are `hf`'s, and
those that vLLM's engine is started with.

The names are lm-evaluation-harness's and vLLM's. What is not taken says why, or what does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalcore.errors import ModelError, did_you_mean
from evalcore.model.hf.arguments import SAME as SAME_IN_HF
from evalcore.model.hf.arguments import TYPES, number
from evalcore.model.hf.snapshot import Arguments

READING = (
    "pretrained",
    "revision",
    "subfolder",
    "tokenizer",
    "dtype",
    "trust_remote_code",
    "truncation",
    "add_bos_token",
    "prefix_token_id",
    "rolling_stride",
    "think_end_token",
    "enable_thinking",
    "chat_template_args",
)
"""Arguments that mean here what they mean for `hf`."""

LENGTHS = ("max_length", "max_model_len")
"""Two names of one argument."""

SAME = {
    **SAME_IN_HF,
    "device": "CUDA_VISIBLE_DEVICES says which GPUs vLLM sees",
    "swap_space": "vLLM has none any more",
    "disable_log_stats": "it is always so",
}
"""Names that change no number: passed over, with where they belong."""

NOT_TAKEN = {
    "max_gen_toks": "state it with --gen_kwargs, or leave it to the tasks",
    "thinking_budget": "vLLM is not told to end a thought: evaluate with --model hf",
    "peft": "the name is lora_local_path here",
    "tokenizer_revision": "a tokenizer is taken at the revision of its model",
    "load_format": "only weights in safetensors format are loaded",
    "hf_overrides": "a model is what its config.json says",
    "generation_config": "the model's own generation_config.json counts, as with --model hf",
    "logprobs_mode": "loglikelihoods are of the model's own distribution",
    "softmax_dtype": "vLLM takes the log-softmax in float32",
    "speculative_config": "one model is evaluated, alone",
    "spec_model": "one model is evaluated, alone",
    "logits_processors": "loglikelihoods are of the model's own distribution",
    "parallelize": "tensor_parallel_size or pipeline_parallel_size spreads a model over GPUs",
    "load_in_8bit": "quantization names a method of vLLM's; or evaluate with --model hf",
    "load_in_4bit": "quantization names a method of vLLM's; or evaluate with --model hf",
}
"""What lm-evaluation-harness or vLLM takes and this backend does not."""


@dataclass(frozen=True, kw_only=True)
class VllmArguments:
    """What `--model_args` say, typed."""

    reading: Arguments
    """What is loaded, and how it is read; the adapter is its `peft`."""
    engine: Mapping[str, Any]
    """What vLLM is started with besides that, by its own names."""
    trusts_code: bool = False
    """Refused where the model has code of its own; changes nothing else."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> VllmArguments:
        """Typed from the command line's texts; raises ModelError naming every wrong one."""
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, stated in given.items():
            if name in SAME or stated in (None, "None"):
                continue
            if name not in _TYPES:
                problems.append(_unknown(name))
                continue
            try:
                values[name] = _TYPES[name](stated)
            except ValueError as problem:
                problems.append(f"{name}: expected {problem}, got {stated!r}")
        problems += _contradictions(values)
        if problems:
            raise ModelError(f"--model_args: {'; '.join(problems)}")
        trusts_code = bool(values.pop("trust_remote_code", False))
        reading = {name: value for name, value in values.items() if name in READING}
        length = values.get("max_length") or values.get("max_model_len")
        return cls(
            reading=Arguments(
                **reading,
                max_length=length,
                peft=values.get("lora_local_path"),
                use_fast_tokenizer=values.get("tokenizer_mode", "auto") == "auto",
            ),
            engine={name: values[name] for name in ENGINE if name in values},
            trusts_code=trusts_code,
        )

    @property
    def devices(self) -> int:
        """How many the model is spread over."""
        return int(
            self.engine.get("tensor_parallel_size", 1)
            * self.engine.get("pipeline_parallel_size", 1)
        )

    def as_json(self) -> dict[str, Any]:
        """What was stated, as it is recorded; the adapter under the name that it has here."""
        stated = self.reading.as_json()
        adapter = {"lora_local_path": stated.pop("peft")} if "peft" in stated else {}
        return {**stated, **adapter, **self.engine}


def _contradictions(values: Mapping[str, Any]) -> Iterator[str]:
    if not values.get("pretrained"):
        yield "missing argument 'pretrained': the Hub ID or folder of the model"
    if all(name in values for name in LENGTHS):
        yield "max_length and max_model_len are the same argument: give one of them"
    if values.get("enable_thinking") and values.get("think_end_token") is None:
        yield "enable_thinking needs think_end_token, the token at which the thinking ends"
    if values.get("enable_lora") and "lora_local_path" not in values:
        yield "enable_lora needs lora_local_path, the Hub ID or folder of the adapter"
    if "max_lora_rank" in values and "lora_local_path" not in values:
        yield "max_lora_rank needs lora_local_path, the Hub ID or folder of the adapter"
    if values.get("enable_lora") is False and "lora_local_path" in values:
        yield "enable_lora=False and lora_local_path contradict one another: leave one of them out"


def _unknown(name: str) -> str:
    if name in NOT_TAKEN:
        return f"argument {name!r} is not taken: {NOT_TAKEN[name]}"
    return f"unknown argument {name!r}{did_you_mean(name, _TYPES)}"


def _flag(stated: Any) -> bool:
    return bool(TYPES["truncation"](stated))


_count = number(1, "a count above 0")


def _fail(expected: str) -> Any:
    raise ValueError(expected)


def _number(stated: Any) -> int:
    try:
        return int(str(stated))
    except ValueError:
        raise ValueError("a number") from None


def _amount(stated: Any) -> float:
    try:
        number = float(str(stated))
    except ValueError:
        number = -1.0
    return number if number >= 0 else float(_fail("a number of GiB"))


def _share(stated: Any) -> float:
    try:
        number = float(str(stated))
    except ValueError:
        number = 0.0
    return number if 0 < number <= 1 else float(_fail("a share of the memory, above 0 and up to 1"))


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def parse(stated: Any) -> str:
        return str(stated) if stated in allowed else str(_fail(f"one of {', '.join(allowed)}"))

    return parse


def _alone(stated: Any) -> int:
    if _count(stated) == 1:
        return 1
    raise ValueError("1 (copies are processes of their own, which `evalcore run` starts)")


ENGINE: Mapping[str, Callable[[Any], Any]] = {
    "tensor_parallel_size": _count,
    "pipeline_parallel_size": _count,
    "data_parallel_size": _alone,
    "distributed_executor_backend": _one_of("mp", "ray", "uni"),
    "enable_expert_parallel": _flag,
    "disable_custom_all_reduce": _flag,
    "gpu_memory_utilization": _share,
    "kv_cache_memory_bytes": _count,
    "cpu_offload_gb": _amount,
    "max_num_seqs": _count,
    "max_num_batched_tokens": _count,
    "block_size": _count,
    "enable_prefix_caching": _flag,
    "enable_chunked_prefill": _flag,
    "enforce_eager": _flag,
    "seed": _number,
    "max_lora_rank": _count,
    "kv_cache_dtype": str,
    "quantization": str,
}
"""What vLLM is started with: how it is run, which is recorded, and the two at the end, which change
numbers and are in the key."""

IN_KEY = ("kv_cache_dtype",)
"""Of these what stands in the key by its own name; `quantization` does as the quantisation."""

_TYPES: Mapping[str, Callable[[Any], Any]] = {
    **{name: TYPES[name] for name in (*READING, "max_length")},
    "max_model_len": TYPES["max_length"],
    "tokenizer_mode": _one_of("auto", "slow"),
    "truncation_side": _one_of("left"),
    "enable_lora": _flag,
    "lora_local_path": str,
    **ENGINE,
}
"""Every argument, and what reads it."""
