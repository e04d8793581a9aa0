"""Tokenizer and weights from a snapshot: safetensors only, and no code of theirs is run."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


def load_tokenizer(arguments: Arguments, snapshot: Snapshot) -> Any:
    with _errors_named(arguments, snapshot):
        return AutoTokenizer.from_pretrained(snapshot.folder, trust_remote_code=False)


def load_model(arguments: Arguments, snapshot: Snapshot) -> Any:
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
    if missing := sorted(report["missing_keys"]):
        # transformers fills them with random numbers and goes on: the score would be of no model.
        raise ModelError(
            f"{arguments.pretrained}: {len(missing)} weights are missing from its files, "
            f"such as {missing[0]}: publish all of them"
        )
    return model


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
        lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
        reason = lines[0] if lines else type(problem).__name__
        # A path of this machine would tell the reader nothing.
        reason = reason.replace(str(snapshot.folder), arguments.pretrained)
        what = f"{arguments.pretrained} at {arguments.revision}"
        raise ModelError(f"{what} cannot be loaded: {reason}") from problem
