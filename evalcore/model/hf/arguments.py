"""The `--model_args` of the `hf` backend: which there are, and what each may be.

The names are lm-evaluation-harness's. What of its own is not here says why, or what does it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evalcore.errors import ModelError, did_you_mean

NAMES = ("hf", "hf-auto", "huggingface")
"""What `--model` calls this backend."""

DTYPES = ("auto", "float32", "bfloat16", "float16")

SAME = {
    "device": "the option --device says where the model runs",
    "batch_size": "the option --batch_size caps a batch",
    "max_batch_size": "a batch holds as many tokens as fit",
    "logits_cache": "equal rows are always computed once",
    "low_cpu_mem_usage": "it is always so",
    "token": "the variable HF_TOKEN opens gated repositories",
    "cache_dir": "the variable HF_HOME says where downloads lie",
    "offload_folder": "layers that no memory holds are read from the downloaded files",
    "local_files_only": "the variable HF_HUB_OFFLINE=1 keeps from the network",
}
"""Names that change no number: passed over, with where they belong."""

SECRETS = ("token",)
"""Arguments that stand in no file that a run writes."""

OF_4_BITS = ("bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "bnb_4bit_compute_dtype")
"""Arguments that say how weights are packed into four bits."""

OTHER_NAMES = {"torch_dtype": "dtype"}
"""What transformers calls an argument, and its name here."""

NOT_TAKEN = {
    **SAME,
    "mixed_precision_dtype": "the model is computed in one precision: set dtype",
    "autogptq": "a quantised model is loaded by what its own config.json says",
    "gptqmodel": "a quantised model is loaded by what its own config.json says",
    "gptq": "a quantised model is loaded by what its own config.json says",
    "max_cost": "a model that is run here has no price",
    "prices": "a model that is run here has no price",
    "use_accelerate": "the name is parallelize now",
    "device_map": "parallelize=True spreads the model over the devices",
    "data_parallel_size": "the option --data_parallel says how many copies there are",
    "data_parallel": "the option --data_parallel says how many copies there are",
}
"""What lm-evaluation-harness or its tutorial takes and this engine does not."""


def values_of(
    given: Mapping[str, Any],
    types: Mapping[str, Callable[[Any], Any]] | None = None,
    not_taken: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Typed values from the command line's texts, or from a configuration's own types.

    `types`, `not_taken`: of a backend that takes other arguments than `hf` does. Raises ModelError
    naming everything that is wrong.
    """
    types = TYPES if types is None else types
    not_taken = NOT_TAKEN if not_taken is None else not_taken
    problems, values = [], {}
    for stated_name, stated in given.items():
        name = OTHER_NAMES.get(stated_name, stated_name)
        if name in SAME or stated in (None, "None"):
            continue
        if name != stated_name and name in given:
            problems.append(f"{stated_name} and {name} are the same argument: give one of them")
            continue
        if name not in types:
            problems.append(_unknown(name, types, not_taken))
            continue
        try:
            values[name] = types[name](stated)
        except ValueError as problem:
            problems.append(f"{name}: expected {problem}, got {stated!r}")
    if not values.get("pretrained"):
        problems.append("missing argument 'pretrained': the Hub ID or folder of the model")
    if values.get("enable_thinking") and values.get("think_end_token") is None:
        problems.append(
            "enable_thinking needs think_end_token, the token at which the thinking ends"
        )
    if values.get("thinking_budget"):
        problems += _about_budget(values)
    if values.get("peft") and values.get("delta"):
        problems.append("peft and delta: a model has one or the other: give one of them")
    problems += _about_bits(values)
    if values.get("tp_plan"):
        others = ("parallelize", "peft", "delta", "gguf_file", "load_in_8bit", "load_in_4bit")
        problems += (
            f"tp_plan and {name}: a model is divided as it is: leave one of them out"
            for name in others
            if values.get(name)
        )
    if values.get("trust_remote_code"):
        problems += (
            f"trust_remote_code and {name}: code is run of a whole model: leave one of them out"
            for name in ("delta", "gguf_file")
            if values.get(name)
        )
    elif values.get("code_revision"):
        problems.append("code_revision needs trust_remote_code=True")
    if not values.get("parallelize"):
        limits = ("max_memory_per_gpu", "max_cpu_memory")
        problems += (f"{name} needs parallelize=True" for name in limits if name in values)
    if problems:
        raise ModelError(f"--model_args: {'; '.join(problems)}")
    return values


def _about_budget(values: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with how long it may think."""
    if values.get("think_end_token") is None:
        yield "thinking_budget needs think_end_token, which ends the thinking where it is used up"
    if values.get("enable_thinking") is False:
        yield "thinking_budget and enable_thinking=False contradict one another: leave one out"


def _about_bits(values: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with how weights are to be quantised as they are loaded."""
    if values.get("load_in_8bit") and values.get("load_in_4bit"):
        yield "load_in_8bit and load_in_4bit: weights have one or the other: give one of them"
    for other in ("peft", "delta", "load_in_8bit", "load_in_4bit"):
        if values.get("gguf_file") and values.get(other):
            yield f"gguf_file and {other}: weights in such a file are taken as they are: give one"
    bits = next((name for name in ("load_in_8bit", "load_in_4bit") if values.get(name)), None)
    if bits and values.get("delta"):
        yield f"delta and {bits}: a difference is added to plain weights: leave {bits} out"
    if not values.get("load_in_4bit"):
        yield from (f"{name} needs load_in_4bit=True" for name in values if name in OF_4_BITS)


def named_with_revision(stated: str) -> tuple[str, str]:
    """A repository and its revision from `owner/name` or `owner/name@revision`; a folder that is
    there is itself, whatever its name. Raises ValueError for what is neither."""
    if Path(stated).is_dir():
        return stated, "main"
    name, at, revision = stated.partition("@")
    if not name or (at and not revision):
        raise ValueError("a folder, owner/name or owner/name@revision")
    return name, revision or "main"


def _repository(stated: Any) -> str:
    named_with_revision(str(stated))
    return str(stated)


def _commit(stated: Any) -> str:
    if re.fullmatch(r"[0-9a-f]{40}", str(stated)) is None:
        raise ValueError("a commit, in full")
    return str(stated)


def _gguf_file(stated: Any) -> str:
    name = str(stated)
    if re.fullmatch(r"[\w.-]+\.gguf", name, re.ASCII) is None:
        raise ValueError("the name of one file, such as model-Q8_0.gguf (subfolder says where)")
    if re.search(r"-\d{5}-of-\d{5}\.gguf$", name) and not name.endswith("-00001-of-00001.gguf"):
        raise ValueError("one whole file: join the parts with llama-gguf-split --merge")
    return name


def notes_on(given: Mapping[str, Any], same: Mapping[str, str] = SAME) -> list[str]:
    """A sentence on each argument that is taken and changes nothing."""
    notes = [f"{name}: {same[name]}; passed over" for name in given if name in same]
    return notes


def _unknown(name: str, types: Mapping[str, Any], not_taken: Mapping[str, str]) -> str:
    if name in not_taken:
        return f"argument {name!r} is not taken: {not_taken[name]}"
    return f"unknown argument {name!r}{did_you_mean(name, types)}"


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def parse(stated: Any) -> str:
        text = str(stated).removeprefix("torch.")
        text = {"float": "float32", "half": "float16"}.get(text, text)
        if text not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return text

    return parse


def flag(stated: Any) -> bool:
    if str(stated).lower() in ("true", "false"):
        return str(stated).lower() == "true"
    raise ValueError("True or False")


def number(least: int, name: str) -> Callable[[Any], int]:
    def parse(stated: Any) -> int:
        if not str(stated).isdecimal() or int(stated) < least:
            raise ValueError(name)
        return int(stated)

    return parse


def _memory(stated: Any) -> str:
    """As accelerate reads it."""
    if isinstance(stated, int) or str(stated).isdecimal():
        return f"{int(stated)}B"
    if not re.fullmatch(r"\d+(\.\d+)?[KMG]i?B", str(stated).upper().replace("IB", "iB")):
        raise ValueError("a size such as 20GB or 500MiB, or a number of bytes")
    return str(stated)


def mapping(stated: Any) -> dict[str, Any]:
    """Raises ValueError for what is no object."""
    if isinstance(stated, str):
        for read in (json.loads, ast.literal_eval):
            try:
                stated = read(stated)
                break
            except (ValueError, SyntaxError):
                continue
    if not isinstance(stated, Mapping):
        raise ValueError('an object such as {"name": "value"}')
    return dict(stated)


TYPES: Mapping[str, Callable[[Any], Any]] = {
    "pretrained": str,
    "revision": str,
    "subfolder": str,
    "tokenizer": str,
    "use_fast_tokenizer": flag,
    "backend": _one_of("default", "causal", "seq2seq"),
    "dtype": _one_of(*DTYPES),
    "softmax_dtype": _one_of(*DTYPES[1:]),
    "attn_implementation": str,
    "parallelize": flag,
    "max_memory_per_gpu": _memory,
    "max_cpu_memory": _memory,
    "tp_plan": _one_of("auto"),
    "trust_remote_code": flag,
    "code_revision": _commit,
    "load_in_8bit": flag,
    "load_in_4bit": flag,
    "bnb_4bit_quant_type": _one_of("fp4", "nf4"),
    "bnb_4bit_use_double_quant": flag,
    "bnb_4bit_compute_dtype": _one_of(*DTYPES[1:]),
    "gguf_file": _gguf_file,
    "peft": _repository,
    "delta": _repository,
    "max_length": number(1, "a count"),
    "truncation": flag,
    "add_bos_token": flag,
    "prefix_token_id": number(0, "the number of a token"),
    "rolling_stride": number(1, "a count of tokens"),
    "think_end_token": lambda stated: int(stated) if str(stated).isdecimal() else str(stated),
    "enable_thinking": flag,
    "chat_template_args": mapping,
    "thinking_budget": number(1, "a count of tokens"),
}
"""Every argument, and what reads it."""
