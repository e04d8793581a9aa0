"""A model that real servers take: heads of 32 numbers, as vLLM's kernels for the CPU want them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import tiny

POSITIONS = 128


def make(folder: Path, *, adds_bos: bool = True, seed: int = 0) -> Path:
    """A Llama of two layers with the tokenizer and the chat template of `tests.tiny`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tiny.make(folder, adds_bos=adds_bos, positions=POSITIONS, chat_template=tiny.CHAT)
    stated = AutoConfig.from_pretrained(folder).to_dict()
    sizes = {"hidden_size": 128, "head_dim": 32, "num_attention_heads": 4}
    config = AutoConfig.for_model(**{**stated, **sizes})
    torch.manual_seed(seed)
    model: Any = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    return folder
