"""A LoRA adapter that vLLM puts on: every weight of it has its place, and it changes something.

vLLM looks at the kinds of layers that a file names and not at which they are, passes over what it
does not know in a configuration, and takes what is missing for zero. So the places are asked of
peft, on a model without weights, before vLLM is started; what is not a pair of matrices beside a
linear layer is refused, as `hf` computes it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

from evalcore.errors import ModelError
from evalcore.model.faults import models_fault
from evalcore.model.hf.snapshot import Arguments, Files
from evalcore.model.vllm.asking import after
from evalcore.model.vllm.engine import Engine

WEIGHTS = "adapter_model.safetensors"

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""For which vLLM makes room."""

PAIR = (".lora_A.weight", ".lora_B.weight")
"""How the names of the two matrices beside a linear layer end."""

HEAD = ".lm_head."
"""The last layer, over which vLLM puts an adapter for what it writes and not within a prompt."""

PLACES = 16
"""Tokens of the prompt that is asked with and without the adapter."""


def room_for(arguments: Arguments, files: Files, stated: int | None) -> int:
    """The rank that vLLM is to have room for. Raises ModelError for an adapter that does not fit
    the model, or that vLLM would not put on whole; `stated`: `max_lora_rank`."""
    assert files.adapter is not None  # noqa: S101  # the caller's condition
    name, folder = files.adapter.name, files.adapter.folder
    with models_fault(f"{name} cannot be read", folder=folder, name=name):
        expected = _expected(arguments, files)
        found = shapes_of(folder / WEIGHTS)
    others = sorted(key for key in expected if not key.endswith(PAIR) or HEAD in key)
    if others:
        raise ModelError(
            f"{name} holds more than pairs of LoRA matrices beside the linear layers below the "
            f"head, such as {others[0]}, which vLLM does not put on wherever they matter: evaluate "
            f"with --model hf and peft={name}"
        )
    if lacking := sorted(expected.keys() - found.keys()):
        raise _misfit(name, f"its file lacks {len(lacking)} weights, such as {lacking[0]}")
    if left := sorted(found.keys() - expected.keys()):
        raise _misfit(name, f"{len(left)} of its weights have no place, such as {left[0]}")
    for key, shape in expected.items():
        if found[key] != shape:
            raise _misfit(name, f"{key} is {found[key]}, and its place {shape}")
    rank = max((shape[0] for key, shape in found.items() if key.endswith(PAIR[0])), default=0)
    return _room(name, rank, stated)


def _room(name: str, rank: int, stated: int | None) -> int:
    if rank > RANKS[-1]:
        raise ModelError(
            f"{name} has rank {rank}, and vLLM room for {RANKS[-1]} at most: evaluate with --model "
            f"hf and peft={name}"
        )
    if stated is None:
        return next(room for room in RANKS if room >= rank)
    if stated not in RANKS or stated < rank:
        fits = ", ".join(str(room) for room in RANKS if room >= rank)
        raise ModelError(
            f"--model_args: max_lora_rank: expected one of {fits} (the rank of {name} is {rank}), "
            f"got {stated}"
        )
    return stated


def _misfit(name: str, problem: str) -> ModelError:
    return ModelError(
        f"{name} does not fit the model: {problem}: name the model that it was trained on, or "
        "publish it again with save_pretrained"
    )


def _expected(arguments: Arguments, files: Files) -> Mapping[str, list[int]]:
    """Shapes of the weights that peft would save of this adapter over this model."""
    import torch
    from peft import PeftConfig, PeftModel, get_peft_model_state_dict

    from evalcore.model.hf.loading import skeleton

    assert files.adapter is not None  # noqa: S101  # as above
    config = PeftConfig.from_pretrained(str(files.adapter.folder))
    if config.peft_type.value != "LORA":
        raise ModelError(
            f"{files.adapter.name} is an adapter of the kind {config.peft_type.value}, and vLLM "
            "puts on LoRA alone: evaluate with --model hf"
        )
    config.inference_mode = True
    config.init_lora_weights = False
    model = skeleton(arguments, files)
    own = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
    with torch.device("meta"):
        wrapped = PeftModel(model, config, adapter_name="default")
    saved = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    # What it would bring that peft's own saving may pass over, such as a trained bias.
    others = {
        key: tensor
        for key, tensor in wrapped.state_dict(keep_vars=True).items()
        if id(tensor) not in own and ".default" in key
    }
    found = {key.replace(".default", ""): list(tensor.shape) for key, tensor in others.items()}
    return {**found, **{key: list(tensor.shape) for key, tensor in saved.items()}}


def shapes_of(file: Path) -> dict[str, list[int]]:
    """Of every weight in a file, by its header. Raises OSError or ValueError for what is none."""
    return {name: shape for name, (_, shape) in header_of(file).items()}


def header_of(file: Path) -> dict[str, tuple[str, list[int]]]:
    """Type and shape of every weight in a file; raises as `shapes_of`."""
    with file.open("rb") as opened:
        (size,) = struct.unpack("<Q", opened.read(8))
        header = json.loads(opened.read(size))
    return {
        name: (weight["dtype"], list(weight["shape"]))
        for name, weight in header.items()
        if name != "__metadata__"
    }


def check_effective(engine: Engine, name: str, vocabulary: int) -> None:
    """Raises ModelError for an adapter that changes nothing of what vLLM says."""
    tokens = [*range(0, vocabulary, max(1, vocabulary // PLACES))][:PLACES]
    said = []
    for bare in (False, True):
        ((_, output),) = engine.outputs([(0, tokens, _everything())], bare=bare)
        said.append([list(output.prompt_logprobs.logprobs), output.outputs[0].logprobs[0][0]])
    if said[0] == said[1]:
        raise ModelError(
            f"{name} changes nothing of what the model says, as a LoRA whose B matrices are zero "
            "does: publish the adapter after its training, or evaluate the model without it"
        )


def _everything() -> object:
    return after([0], within=True, reuse=False)
