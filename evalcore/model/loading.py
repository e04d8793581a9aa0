"""Tokenizer and weights from a snapshot: safetensors only, and no code of theirs is run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from evalcore.errors import ModelError
from evalcore.model.snapshot import Arguments, Snapshot

# Where a repository has no safetensors, transformers would send its name and the token to a service
# that converts it.
os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"

LONGEST_REASON = 400


def load_tokenizer(arguments: Arguments, snapshot: Snapshot) -> Any:
    with _errors_named(arguments, snapshot):
        bos = arguments.add_bos_token
        options = {} if bos is None else {"add_bos_token": bos}
        return AutoTokenizer.from_pretrained(snapshot.folder, trust_remote_code=False, **options)


def load_model(arguments: Arguments, snapshot: Snapshot, device: str) -> Any:
    dtype = arguments.dtype if arguments.dtype == "auto" else getattr(torch, arguments.dtype)
    with _errors_named(arguments, snapshot):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            snapshot.folder,
            dtype=dtype,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
        model, report = loaded
        model.to(device).eval()
    if missing := sorted(report["missing_keys"]):
        # transformers fills them with random numbers and goes on: the score would be of no model.
        raise ModelError(
            f"{arguments.pretrained}: its files lack weights that its configuration asks for, "
            f"{len(missing)} in all, such as {missing[0]}: publish all of them"
        )
    if left := _layers_left_out(model, report["unexpected_keys"]):
        raise ModelError(
            f"{arguments.pretrained}: its files hold layers that its configuration leaves out, "
            f"such as {left[0]}: correct config.json"
        )
    return model


def _layers_left_out(model: Any, unexpected: Iterable[str]) -> list[str]:
    """Unused weights that differ from used ones by a number only: layers, experts.

    Other unused weights are no concern: a vision tower, a head for another purpose.
    """
    used = {re.sub(r"\d+", "#", name) for name in model.state_dict()}
    return sorted(name for name in unexpected if re.sub(r"\d+", "#", name) in used)


@contextmanager
def _errors_named(arguments: Arguments, snapshot: Snapshot) -> Iterator[None]:
    """Whatever transformers raises for files it cannot read means: not loadable as it is."""
    try:
        yield
    except (
        torch.OutOfMemoryError,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RuntimeError,
        ImportError,
        SafetensorError,
    ) as problem:
        reason = " ".join(str(problem).split())[:LONGEST_REASON] or type(problem).__name__
        # A path of this machine would tell the reader nothing.
        reason = reason.replace(str(snapshot.folder), arguments.pretrained)
        what = f"{arguments.pretrained} at {arguments.revision}"
        raise ModelError(f"{what} cannot be loaded: {reason}") from problem
