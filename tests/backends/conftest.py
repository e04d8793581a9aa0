"""What vLLM is told before it is imported; the model and the engine that its tests share."""

from __future__ import annotations

import os

os.environ |= {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # What it compiles on a processor takes a minute, for a count of tokens.
    "TORCHDYNAMO_DISABLE": "1",
}

import pytest

from evalcore.model.registry import backend_of
from tests import tiny

BLOCK = 32
"""Tokens that are kept together: the fewest that vLLM's build for processors takes."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A llama of 512 positions, two of whose tokens are always equally likely: see `TWINS`."""
    made = tmp_path_factory.mktemp("tiny")
    tiny.make(made, adds_bos=True, positions=512, width=128, chat_template=tiny.CHAT)
    _make_twins(made)
    return made


TWINS = (70, 71)


def _make_twins(folder):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"][TWINS[1]] = weights["lm_head.weight"][TWINS[0]]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def told(folder, **arguments):
    stated = {"pretrained": str(folder), "dtype": "float32", "enforce_eager": "True"}
    return {**stated, "block_size": str(BLOCK), **arguments}


@pytest.fixture(scope="session")
def lm(folder):
    return backend_of("vllm").from_arguments(told(folder))


@pytest.fixture(scope="session")
def hf(folder):
    stated = {"pretrained": str(folder), "dtype": "float32"}
    return backend_of("hf").from_arguments(stated, device="cpu")
