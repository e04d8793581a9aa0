"""Whether the weights of a model's files have found their places: none is missing, and none that
belongs to what is computed was passed over.

`transformers` says what it did with each of them and goes on: what is missing is random then, and
what is left over was part of another model than the one that is computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from evalcore.errors import ModelError

COMPUTED = re.compile(
    r"(^|\.)((original_)?inv_freq|(cos|sin)_cached|masked_bias|causal_mask|position_ids"
    r"|relative_position_index)$"
)
"""What older versions wrote into files and newer ones compute, wherever a model has it."""

CAUSAL_MASK = re.compile(r"(^|\.)(attn|attention)\.bias$")
"""The same, of a module that has layers of its own: GPT-2 and its kin call their mask so."""


def check_placed(model: Any, report: Mapping[str, Any], name: str, *, quantised: bool) -> None:
    """Raises ModelError, with names, by the report of `from_pretrained`.

    Weights beside those that are computed are no concern: a vision tower, a head for another
    purpose.
    """
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"{name}: its files lack weights that its configuration asks for, "
            f"{len(missing)} in all, such as {missing[0]}: publish all of them"
        )
    if mismatched := sorted(report["mismatched_keys"]):
        key, own, asked = mismatched[0]
        raise ModelError(
            f"{name}: weights of its files have other shapes than its configuration asks for, "
            f"{len(mismatched)} in all, such as {key} ({_numbers(own)}, not {_numbers(asked)}): "
            "correct config.json"
        )
    unexpected = report["unexpected_keys"]
    left_out = _parts_left_out if quantised else _layers_left_out
    if left := left_out(model, unexpected):
        raise ModelError(
            f"{name}: its files hold layers that its configuration leaves out, "
            f"such as {left[0]}: correct config.json"
        )
    if left := _left_out_of_layers(model, unexpected, quantised):
        raise ModelError(
            f"{name}: its files hold weights of layers that are computed without them, "
            f"{len(left)} in all, such as {left[0]}: correct config.json, or publish the model "
            "that these weights are of"
        )


@contextmanager
def lack_named(name: str) -> Iterator[None]:
    """transformers cannot fill packed weights that are missing with random numbers either."""
    try:
        yield
    except (RuntimeError, NotImplementedError) as problem:
        if re.search(r"not implemented for '(Char|Byte)'", str(problem)) is None:
            raise
        raise ModelError(
            f"{name}: its files lack quantised weights that its configuration asks for: publish "
            "all of them"
        ) from problem


def _layers_left_out(model: Any, unexpected: Iterable[str]) -> list[str]:
    """Unused weights that differ from used ones by a number only: layers, experts."""
    used = {re.sub(r"\d+", "#", name) for name in model.state_dict()}
    return sorted(name for name in unexpected if re.sub(r"\d+", "#", name) in used)


def _parts_left_out(model: Any, unexpected: Iterable[str]) -> list[str]:
    """The same of quantised weights, of each of which files hold several parts: what belongs to a
    module that is not there, and differs by a number from one that is."""
    modules = {name for name, _ in model.named_modules() if name}
    used = {re.sub(r"\d+", "#", name) for name in modules}
    return sorted(
        name
        for name in unexpected
        if any(
            place not in modules and re.sub(r"\d+", "#", place) in used
            for place in _places_of(name)
        )
    )


def _left_out_of_layers(model: Any, unexpected: Iterable[str], quantised: bool) -> list[str]:
    """Unused weights within a layer that is used, such as a bias, a norm or an unmerged adapter.

    A layer is what has a number in its name, or no modules in it. What a module makes itself under
    that name is no weight; of quantised ones only whole weights are, not their parts.
    """
    modules = {name: module for name, module in model.named_modules() if name}
    left = []
    for name in unexpected:
        place = next((place for place in reversed(_places_of(name)) if place in modules), None)
        if place is None or COMPUTED.search(name):
            continue
        part, module = name[len(place) + 1 :], modules[place]
        if CAUSAL_MASK.search(name) and any(True for _ in module.children()):
            continue
        if isinstance(getattr(module, part, None), Tensor):
            continue
        if quantised and part not in ("weight", "bias"):
            continue
        if re.search(r"(^|\.)\d+(\.|$)", place) or not any(True for _ in module.children()):
            left.append(name)
    return sorted(left)


def _places_of(name: str) -> list[str]:
    """The modules that a weight's name may mean: `weight.absmax` is in the same as `weight`."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _numbers(shape: Iterable[int]) -> str:
    return " × ".join(map(str, shape))
