"""Models with code of their own: a Llama whose logits are halved, which says so where it runs."""

from __future__ import annotations

from pathlib import Path

from tests import tiny

MODELING = """
import os
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
from .halving import halved

if place := os.environ.get("OWN_CODE_RAN"):
    Path(place).touch()


class OwnConfig(LlamaConfig):
    model_type = "own"


class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig

    def forward(self, *args, **kwargs):
        outputs = super().forward(*args, **kwargs)
        outputs.logits = halved(outputs.logits)
        return outputs
"""
HALVING = "def halved(logits):\n    return logits / 2\n"
"""In a file of its own, which the other imports."""


def make(folder: Path, *, elsewhere: str = "", before: str = "") -> Path:
    """A tiny model whose architecture transformers does not have.

    `elsewhere`: the repository that its code is in, instead of its own; `before`: what its code
    does first.
    """
    tiny.make(folder)
    place = f"{elsewhere}--" if elsewhere else ""
    tiny.change_config(
        folder,
        model_type="own",
        architectures=["OwnForCausalLM"],
        auto_map={
            "AutoConfig": f"{place}modeling_own.OwnConfig",
            "AutoModelForCausalLM": f"{place}modeling_own.OwnForCausalLM",
        },
    )
    if not elsewhere:
        write_code(folder, before)
    return folder


def write_code(folder: Path, before: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "modeling_own.py").write_text(before + MODELING)
    (folder / "halving.py").write_text(HALVING)
    return folder
