"""Delta weights: a repository of differences, added to the weights of the model that they are of.

As lm-evaluation-harness adds them, weight by weight in the model's precision; but a table that is
tied to another is added to once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from evalcore.errors import ModelError

REMEDY = "give the model that it is a difference to as pretrained"


def check_same_weights(model: Any, delta: Any, name: str) -> None:
    """Raises ModelError where the two, which may be without their weights, do not have the same
    ones: names and shapes. `name`: the delta's."""
    own, others = _shapes(model), _shapes(delta)
    problems = [
        f"it {what} {len(names)} weights {that}, such as {names[0]}"
        for what, names, that in (
            ("lacks", sorted(own.keys() - others.keys()), "of the model"),
            ("has", sorted(others.keys() - own.keys()), "that the model does not have"),
        )
        if names
    ]
    other_shapes = [key for key in sorted(own.keys() & others.keys()) if own[key] != others[key]]
    if other_shapes:
        key = other_shapes[0]
        problems.append(
            f"{len(other_shapes)} of its weights have other shapes, such as {key} "
            f"({_numbers(others[key])}, where the model has {_numbers(own[key])})"
        )
    if problems:
        raise ModelError(
            f"{name} cannot be added to the model as delta: {'; '.join(problems)}: {REMEDY}"
        )


@torch.no_grad()
def add(model: Any, delta: Any, name: str) -> None:
    """Adds the delta's weights to the model's, in place; raises ModelError where they are not the
    same ones, or nothing is added."""
    check_same_weights(model, delta, name)
    if any(weight.is_meta for weight in model.parameters()):
        raise ModelError(
            f"{name} cannot be added to weights that lie on disk: state more as max_memory_per_gpu "
            "or max_cpu_memory, or publish the sum"
        )
    differences: Mapping[str, Tensor] = delta.state_dict()
    added: set[int] = set()
    changed = False
    for key, weight in model.state_dict(keep_vars=True).items():
        if id(weight) in added:
            continue
        added.add(id(weight))
        difference = differences[key].to(weight.device)
        changed = changed or bool(difference.any())
        weight.data += difference
    if not changed:
        raise ModelError(
            f"{name} is zero in all its weights: evaluate the model without it, or publish it "
            "after its training"
        )


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    return {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}


def _numbers(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
