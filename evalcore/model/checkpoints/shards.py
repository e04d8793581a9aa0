"""The files of a training checkpoint: which layers there are, and each layer's shards.

DeepSpeed writes one file for each layer and tensor-parallel rank where the training ran in a
pipeline (`layer_03-model_01-model_states.pt`), and else one file for each rank with all layers in
it (`mp_rank_01_model_states.pt`, of which `module` is the model). Both are pickles: they are read
by `torch.load(weights_only=True)`, which makes tensors and plain containers and calls nothing.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evalcore.errors import ModelError

OF_A_LAYER = re.compile(r"layer_(\d+)-model_(\d+)-model_states\.pt")
OF_A_RANK = re.compile(r"mp_rank_(\d+)_model_states\.pt")
OF_MEGATRON_LM = "mp_rank_00*/model_optim_rng.pt"
PREFIX = re.compile(r"sequential\.(\d+)\.(.+)")
"""How a layer's weights are called in a file with all layers: `sequential.3.mlp.linear1.weight`."""

REMAKES_AN_ARRAY: Any = np.empty(0).__reduce__()[0]
HARMLESS: list[Any] = [
    REMAKES_AN_ARRAY,
    (REMAKES_AN_ARRAY, "numpy.core.multiarray._reconstruct"),  # its name before numpy 2
    np.ndarray,
    np.dtype,
    type(np.dtype(np.uint32)),
]
"""What the state of numpy's random numbers is made of, which lies beside the weights."""

REMEDY = "copy the whole folder of the step"

Shard = Mapping[str, Tensor]
"""The weights of one layer that one rank holds, by the names of the training program."""


@dataclass(frozen=True)
class Checkpoint:
    """The shards of one step of a training."""

    folder: Path
    """The folder of the step, such as `global_step143000`."""
    ranks: int
    """Among how many processes each layer is divided."""
    layers: tuple[int, ...]
    """The numbers of the layers that have weights."""
    by_layer: bool
    """Whether each layer has files of its own."""

    def shards(self, layer: int) -> Sequence[Shard]:
        """A layer's shards by rank. Raises ModelError for files that cannot be read, and for ranks
        that hold weights of different names."""
        if self.by_layer:
            names = [f"layer_{layer:02d}-model_{rank:02d}-model_states.pt" for rank in self._all]
            found = [_tensors(_read(self.folder / name), name) for name in names]
        else:
            found = [by_layer[layer] for by_layer in self._modules]
        for rank, shard in enumerate(found):
            if shard.keys() != found[0].keys():
                other = min(shard.keys() ^ found[0].keys())
                raise ModelError(
                    f"{self.folder}: layer {layer}: shards 0 and {rank} hold weights of different "
                    f"names, such as {other}: they are not of the same step"
                )
        return found

    @property
    def _all(self) -> range:
        return range(self.ranks)

    @cached_property
    def _modules(self) -> list[dict[int, dict[str, Tensor]]]:
        return [_module(self.folder / f"mp_rank_{rank:02d}_model_states.pt") for rank in self._all]


def find(folder: Path) -> Checkpoint:
    """The checkpoint in a folder. Raises ModelError for another layout, and for missing shards."""
    if not folder.is_dir():
        raise ModelError(f"{folder}: no folder is there: name the folder of one step")
    names = [file.name for file in folder.iterdir()]
    if pairs := [
        tuple(map(int, found.groups())) for found in map(OF_A_LAYER.fullmatch, names) if found
    ]:
        layers = sorted({layer for layer, _ in pairs})
        ranks = 1 + max(rank for _, rank in pairs)
        for layer in layers:
            for rank in range(ranks):
                if (layer, rank) not in pairs:
                    file = f"layer_{layer:02d}-model_{rank:02d}-model_states.pt"
                    raise ModelError(f"{folder}: {file} is missing: {REMEDY}")
        return Checkpoint(folder, ranks, tuple(layers), by_layer=True)
    if numbers := sorted(int(found[1]) for found in map(OF_A_RANK.fullmatch, names) if found):
        if numbers != list(range(len(numbers))):
            rank = min(set(range(numbers[-1])) - {*numbers})
            raise ModelError(f"{folder}: mp_rank_{rank:02d}_model_states.pt is missing: {REMEDY}")
        whole = Checkpoint(folder, len(numbers), (), by_layer=False)
        held = [{*module} for module in whole._modules]
        for rank, layers_of_it in enumerate(held):
            if layers_of_it != held[0]:
                raise ModelError(
                    f"{folder}: mp_rank_00 and mp_rank_{rank:02d} hold different layers: {REMEDY}"
                )
        return Checkpoint(folder, len(numbers), tuple(sorted(held[0])), by_layer=False)
    raise ModelError(f"{folder}: {_other_layout(folder)}")


def _other_layout(folder: Path) -> str:
    steps = sorted(path.name for path in folder.glob("global_step*") if path.is_dir())
    if steps:
        return f"it holds steps ({', '.join(steps[:3])}), not one: name the folder of one step"
    if list(folder.glob(OF_MEGATRON_LM)) or list(folder.glob(f"*/{OF_MEGATRON_LM}")):
        return (
            "this is Megatron-LM's own layout (model_optim_rng.pt), whose files hold objects of "
            "its code beside the weights and are not read: convert it with Megatron-LM's tools, or "
            "evaluate it behind its server"
        )
    if list(folder.glob("*.distcp")):
        return (
            "this is a distributed checkpoint of torch (.distcp), as Megatron-Core and NeMo write: "
            "evaluate the model behind their OpenAI-compatible server"
        )
    if (folder / "config.json").is_file():
        return "this is a folder of the Hub's form already: give it as pretrained"
    return (
        "no file layer_XX-model_YY-model_states.pt or mp_rank_XX_model_states.pt is in it: name "
        "the folder of one step of GPT-NeoX or Megatron-DeepSpeed"
    )


def _module(file: Path) -> dict[int, dict[str, Tensor]]:
    """All layers of one rank, by number."""
    held = _read(file)
    module = held.get("module") if isinstance(held, Mapping) else None
    if not isinstance(module, Mapping) or not module:
        raise ModelError(
            f"{file}: it holds no model (module): with a pipeline the weights lie in files "
            f"layer_XX-model_YY-model_states.pt, and those are missing: {REMEDY}"
        )
    layers: dict[int, dict[str, Tensor]] = {}
    for name, weight in _tensors(module, file.name).items():
        found = PREFIX.fullmatch(name)
        if found is None:
            raise ModelError(
                f"{file}: unknown layout: a weight is called {name}, where GPT-NeoX's are called "
                "sequential.N.…"
            )
        layers.setdefault(int(found[1]), {})[found[2]] = weight
    return layers


def _tensors(held: Any, file: str) -> dict[str, Tensor]:
    if not isinstance(held, Mapping) or not all(isinstance(name, str) for name in held):
        raise ModelError(f"{file}: unknown layout: expected weights by name")
    # What is no tensor is state of the program's libraries, such as Transformer Engine's.
    return {name: weight for name, weight in held.items() if isinstance(weight, Tensor)}


def _read(file: Path) -> Any:
    """What lies in one file; weights stay on the disk until they are looked at."""
    try:
        with torch.serialization.safe_globals(HARMLESS):
            try:
                return torch.load(file, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:  # written before torch 1.6, when there were no zip files
                return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        named = re.search(r"GLOBAL ([\w.]+)", str(problem))
        what = f"an object of the class {named[1]}" if named else "something that is no weight"
        raise ModelError(
            f"{file}: it holds {what}, and only weights are unpickled, as anything else can run "
            "code: save the file again with its weights alone"
        ) from problem
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as problem:
        reason = str(problem).partition("\n")[0]
        raise ModelError(f"{file} cannot be read: {reason}: copy it again") from problem
