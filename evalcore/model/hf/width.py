"""Adapters over another number of tokens than their model has: tokens were added in their training.

The tables are resized as lm-evaluation-harness does it, whose number is that of the tokenizer's
tokens. Rows that are added must be the adapter's: transformers would draw them at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from evalcore.errors import ModelError
from evalcore.model.base import Mode
from evalcore.model.hf.snapshot import Files


def width_of(
    model: Any, weights: Mapping[str, Tensor], files: Files, *, tokens: int, mode: Mode
) -> int | None:
    """How many tokens the model's tables are to have, or None where they stay as they are.

    As many as the adapter's own. Where it has none compat leaves out the rows of which the
    tokenizer has no token, as lm-evaluation-harness does whenever there is an adapter.

    `weights`: the adapter's, as they are named in the model; `tokens`: what the tokenizer makes.
    Raises ModelError where the adapter's tables do not fit one another, or the tokenizer.
    """
    assert files.adapter is not None  # noqa: S101  # whoever asks has one
    rows, name = len(model.get_input_embeddings().weight), files.adapter.name
    widths = sorted(set(_widths(model, weights)))
    if not widths:
        return tokens if mode == "compat" and tokens < rows else None
    if len(widths) > 1:
        raise ModelError(
            f"{name} has tables of {widths[0]} and of {widths[-1]} tokens: publish it again with "
            "save_pretrained"
        )
    (width,) = widths
    if tokens > width or width > rows >= tokens:
        raise ModelError(
            f"{name} has tables of {width} tokens over a model of {rows}, and the tokenizer of "
            f"{files.tokenizer.name} makes {tokens}: give the one that it was trained with as "
            f"tokenizer, such as tokenizer={name}"
        )
    return None if width == rows else width


def resize(model: Any, width: int) -> None:
    """Gives the model's tables as many rows; those that are added are no numbers, for
    `check_filled` to find."""
    rows = len(model.get_input_embeddings().weight)
    # Not by the others' mean, which would be drawn.
    model.resize_token_embeddings(width, mean_resizing=False)
    with torch.no_grad():
        for table in (model.get_input_embeddings(), model.get_output_embeddings()):
            for tensor in (table.weight, getattr(table, "bias", None)) if table else ():
                if tensor is not None:
                    tensor[rows:] = math.nan


@torch.inference_mode()
def check_filled(model: Any, logits: Tensor, rows: int, name: str) -> None:
    """Raises ModelError where an added token is read, or written, by a row that is not the
    adapter's. `logits`: what the model says, shape (…, tokens); `rows`: what it had before."""
    embeddings = model.get_input_embeddings()
    added = torch.arange(rows, logits.shape[-1], device=logits.device)
    lacking = [
        what
        for what, numbers in (("input", embeddings(added)), ("output", logits[..., rows:]))
        if numbers.isnan().any()
    ]
    if lacking:
        raise ModelError(
            f"{name} adds {len(added)} tokens to the model, and brings the "
            f"{' and '.join(lacking)} embeddings of only some, or none, of them: the others would "
            "be made up: publish it again with save_pretrained(save_embedding_layers=True)"
        )


def _widths(model: Any, weights: Mapping[str, Tensor]) -> Iterator[int]:
    """The number of tokens that each of the adapter's weights says there are."""
    tables = [model.get_input_embeddings(), model.get_output_embeddings()]
    names = {name for name, module in model.named_modules() if any(module is t for t in tables)}
    for key, weight in weights.items():
        name = next((name for name in names if f".{name}." in key), None)
        if name is None:
            continue
        part = key.rpartition(f".{name}.")[2]
        if part.endswith("lora_embedding_A"):
            yield weight.shape[1]
        elif part == "lora_B.weight" or (part.endswith("weight") and "lora_" not in part):
            yield weight.shape[0]
