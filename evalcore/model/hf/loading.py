"""A model's weights from a snapshot: safetensors only; code of its own only where it is trusted."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import distributed
from transformers import AutoModelForCausalLM, GgufConfig

from evalcore.errors import InfraError, ModelError
from evalcore.model.faults import LONGEST_REASON, is_devices_fault
from evalcore.model.hf.code import ELSEWHERE
from evalcore.model.hf.delta import add
from evalcore.model.hf.description import code_options, errors_named, load_configuration
from evalcore.model.hf.gguf import alone, check_complete
from evalcore.model.hf.placed import check_placed, lack_named
from evalcore.model.hf.quantised import check_file_packed, loading_options
from evalcore.model.hf.shared import SharedWeights
from evalcore.model.hf.snapshot import Arguments, Files

# Where a repository has no safetensors, transformers would send its name and the token to a service
# that converts it.
os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"


def load_model(
    arguments: Arguments,
    files: Files,
    device: str,
    kind: Any = AutoModelForCausalLM,
    *,
    width: int | None = None,
    shared: SharedWeights | None = None,
) -> Any:
    """The model in evaluation mode, with its adapter, on the device.

    `kind`: the class of transformers that chooses the model's own; `width`: what `precheck` says;
    `shared`: weights that were loaded for another adapter of the same model.
    """
    load = partial(_load_alone, arguments, files, device, kind)
    model = shared.model(load) if shared else load()
    if files.delta is not None:
        add(model, _load_alone(*of_delta(arguments, files), "cpu", kind), files.delta.name)
    if files.adapter is not None:
        # Few runs have one, and its library takes a second to import.
        from evalcore.model.hf.adapter import put_on

        with errors_named(files.adapter):
            put_on(model, files.adapter.folder, files.adapter.name, width)
    _check_fits(arguments, model)
    return model.eval()


def of_delta(arguments: Arguments, files: Files) -> tuple[Arguments, Files]:
    """What the model of differences is loaded by."""
    assert files.delta is not None  # noqa: S101  # whoever asks has one
    own = replace(arguments, pretrained=files.delta.name, subfolder="", parallelize=False)
    return own, replace(files, model=files.delta)


def _load_alone(arguments: Arguments, files: Files, device: str, kind: Any) -> Any:
    """The model without an adapter."""
    name = arguments.pretrained
    with errors_named(files.model), lack_named(name), alone(files.model) as folder:
        config = load_configuration(arguments, files.model)
        quantised = loading_options(arguments, config, device)
        if quantised:
            check_file_packed(arguments, folder)
        spread = _spread(arguments) if arguments.parallelize else {}
        if arguments.tp_plan is not None:
            spread = _divided()
        packed: dict[str, Any] = {}
        if files.model.file:
            # Unpacked on every machine: kernels that compute with packed weights round otherwise.
            unpacked = GgufConfig(dequantize=True)
            packed = {"gguf_file": files.model.file, "quantization_config": unpacked}
        loaded: Any = kind.from_pretrained(
            folder,
            config=config,
            dtype=arguments.dtype if arguments.dtype == "auto" else getattr(torch, arguments.dtype),
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=not quantised,  # to name them, which `check_placed` does
            **{**quantised, **spread, **packed, **code_options(arguments)},
        )
        model, report = loaded
    check_placed(model, report, name, quantised=bool(quantised))
    if files.model.file:
        check_complete(model, files.model)
    if quantised and arguments.dtype not in ("auto", kept := str(model.dtype)[len("torch.") :]):
        raise ModelError(
            f"--model_args: dtype: {name} keeps {kept}, in which its quantised weights are stored, "
            f"and would not be computed in {arguments.dtype}: leave the argument out"
        )
    model = model if spread or quantised else _on(model, device)
    if model.device.type == "meta":
        raise ModelError(
            f"--model_args: {name}: not even its first layer has room in memory: state more as "
            "max_memory_per_gpu or max_cpu_memory"
        )
    return model


def _spread(arguments: Arguments) -> dict[str, Any]:
    """Over all devices by the memory that they have, or that is stated."""
    from accelerate.utils import get_max_memory

    limits = dict(get_max_memory())
    for place in limits:
        stated = arguments.max_cpu_memory if place == "cpu" else arguments.max_memory_per_gpu
        limits[place] = stated or limits[place]
    return {"device_map": "auto", "max_memory": limits}


def check_there(device: str) -> None:
    """Raises InfraError for a GPU by CUDA's name that this machine does not have, or whose driver
    does not start: another may."""
    kind, _, place = device.partition(":")
    if kind != "cuda" or not (place.isdecimal() or not place):
        return
    count = torch.cuda.device_count()
    if int(place or 0) < count:
        _start(device)
        return
    has = f"its GPUs are cuda:0 to cuda:{count - 1}" if count > 1 else "its GPU is cuda:0"
    if not count:
        has = "PyTorch finds no GPU on it"
    raise InfraError(
        f"--device {device}: this machine does not have it ({has}): name one that it has, or cpu"
    )


def _start(device: str) -> None:
    """NVML tells of a GPU, and counts it, where CUDA cannot be started on it."""
    try:
        torch.cuda.get_device_properties(device)
    except (AssertionError, RuntimeError) as problem:
        raise InfraError(
            f"--device {device}: CUDA does not start on this machine: "
            f"{' '.join(str(problem).split())[:LONGEST_REASON]}: see nvidia-smi and the system's "
            "log, and whether this user may open /dev/nvidia* (/dev/nvidia-uvm among them)"
        ) from problem


def check_started_apart() -> None:
    """Raises ModelError where no other processes have come for a part of the model."""
    if not distributed.is_initialized():
        raise ModelError(
            "--model_args: tp_plan=auto divides a model among several processes: start it with "
            "torchrun --nproc_per_node N, or on a machine with several GPUs"
        )


def _divided() -> dict[str, Any]:
    """Among the processes that have come together for it."""
    check_started_apart()
    from transformers.distributed.configuration_utils import DistributedConfig

    plan = DistributedConfig(tp_plan="auto", tp_size=distributed.get_world_size())
    return {"distributed_config": plan}


def skeleton(arguments: Arguments, files: Files, kind: Any = AutoModelForCausalLM) -> Any:
    """The model without weights, which takes no memory: enough to say what it would read."""
    with errors_named(files.model), torch.device("meta"):
        config = load_configuration(arguments, files.model)
        model: Any = kind.from_config(config, **_code_of(arguments, config, kind))
        return model.eval()


def _code_of(arguments: Arguments, config: Any, kind: Any) -> dict[str, Any]:
    """As `code_options`; but here transformers takes no commit where it has no use for it."""
    options = code_options(arguments)
    named = (getattr(config, "auto_map", None) or {}).get(kind.__name__, "")
    if ELSEWHERE not in named:
        options.pop("code_revision", None)
    return options


def _check_fits(arguments: Arguments, model: Any) -> None:
    """An argument beyond the model's tables would end the run at some later request.

    Positions that are computed (rotary, ALiBi) have no end; a model may be asked beyond them.
    """
    tokens = len(model.get_input_embeddings().weight)
    if arguments.prefix_token_id is not None and arguments.prefix_token_id >= tokens:
        raise ModelError(
            f"--model_args: prefix_token_id: expected a token from 0 to {tokens - 1}, "
            f"got {arguments.prefix_token_id}"
        )
    positions = getattr(model.config, "max_position_embeddings", None)
    if arguments.max_length is None or positions is None or arguments.max_length <= positions:
        return
    if any(
        isinstance(module, torch.nn.Embedding) and re.search(r"wpe$|position", name)
        for name, module in model.named_modules()
    ):
        raise ModelError(
            f"--model_args: max_length: expected at most {positions}, the positions that "
            f"{arguments.pretrained} has learnt, got {arguments.max_length}"
        )


def _on(model: Any, device: str) -> Any:
    """Raises ModelError for a device that is not there, or too small; InfraError where it fails."""
    try:
        return model.to(device)
    except (AssertionError, RuntimeError, NotImplementedError) as problem:
        reason = str(problem).partition("\n")[0]
        kind = InfraError if is_devices_fault(problem) else ModelError
        raise kind(f"--device {device}: the model cannot be put there: {reason}") from problem
