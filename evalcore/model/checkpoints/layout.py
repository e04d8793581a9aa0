"""From the weights of a checkpoint's layers to those of transformers' model, by a table.

A layout says for each layer which names its shards have, how they are joined, and what the results
are called. What a shard holds beyond that is refused, and so is what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evalcore.errors import ModelError
from evalcore.model.checkpoints.joining import Copies, Parts, columns, joined, rows, total
from evalcore.model.checkpoints.shards import Checkpoint

Split = Callable[[Tensor], Sequence[Tensor]]


@dataclass(frozen=True)
class Weight:
    """Where one weight of a checkpoint goes."""

    to: tuple[str, ...]
    """Its names in transformers' model; several where that keeps apart what is one here."""
    how: Callable[[Parts], Tensor] | None
    """How shards are joined; None for what every rank has a copy of."""
    split: Split | None = None
    """Takes the joined weight apart, into as many as there are names."""


def by_rows(to: str) -> Weight:
    return Weight((to,), rows)


def by_columns(to: str) -> Weight:
    return Weight((to,), columns)


def copied(to: str) -> Weight:
    return Weight((to,), None)


def summed(to: str) -> Weight:
    return Weight((to,), total)


Layer = Mapping[str, Weight]

Named = tuple[str, Tensor, torch.dtype]
"""A weight's name, the weight, and the precision in which the checkpoint has it."""


@dataclass(frozen=True)
class Layout:
    """One checkpoint as a model of transformers."""

    config: Any
    """transformers' configuration of the model."""
    layers: Mapping[int, Layer]
    """By the number of the layer in the checkpoint."""
    tables: tuple[str, ...]
    """The weights whose rows are tokens."""
    is_computed: Callable[[str, str, Tensor], bool] | None = None
    """Whether a tensor is no weight but something computed, after looking that it is what the
    settings say; of a place in words, a name and the tensor. None where there is no such thing."""
    remarks: tuple[str, ...] = ()
    """What the user has to know of the conversion."""


def weights_of(checkpoint: Checkpoint, layout: Layout, copies: Copies) -> Iterator[Named]:
    """Every weight of the model, joined, by transformers' names.

    Raises ModelError for layers and weights that are missing, or that the layout does not know.
    """
    for layer in checkpoint.layers:
        if layer not in layout.layers:
            raise ModelError(
                f"{checkpoint.folder}: it holds a layer {layer}, and the settings ask for "
                f"{_ranges(layout.layers)}: they are of another model"
            )
    for layer, wanted in layout.layers.items():
        if layer not in checkpoint.layers:
            raise ModelError(
                f"{checkpoint.folder}: layer {layer} is missing, of {_ranges(layout.layers)} that "
                "the settings ask for: copy all files of the step, or give its own settings"
            )
        shards = checkpoint.shards(layer)
        where = f"{checkpoint.folder}: layer {layer}"
        for name in wanted:
            if name not in shards[0]:
                raise ModelError(
                    f"{where}: {name} is missing, which the settings ask for: they are of another "
                    "model, or of a version of the program that is not known here"
                )
        for name in shards[0]:
            parts = [shard[name] for shard in shards]
            place = f"{where}: {name}"
            if name in wanted:
                yield from _placed(place, wanted[name], parts, copies)
            elif layout.is_computed is None or not layout.is_computed(place, name, parts[0]):
                raise ModelError(
                    f"{place} is no weight of the model that the settings describe: models with it "
                    "are not converted"
                )


def _placed(place: str, weight: Weight, parts: Parts, copies: Copies) -> Iterator[Named]:
    how = weight.how or (lambda copied: copies.one(place, copied))
    one = joined(place, how, parts)
    if weight.split is None:
        yield weight.to[0], one, parts[0].dtype
        return
    try:
        several = weight.split(one)
    except RuntimeError as problem:
        raise ModelError(
            f"{place}: {len(one)} rows cannot be taken apart as the settings ask for: they are of "
            "another model"
        ) from problem
    for name, part in zip(weight.to, several, strict=True):
        yield name, part, parts[0].dtype


def _ranges(numbers: Mapping[int, Any]) -> str:
    return f"layers {min(numbers)} to {max(numbers)}"
