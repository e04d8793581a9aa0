"""The awkward repositories go wrong in exactly the way that their names say."""

from __future__ import annotations

import json
from pathlib import Path

from tests.awkward import MODELS
from tests.hub import run_client

LOADED = "loaded"
OUTCOMES = {
    # name: (what its tokenizer says, what its model says)
    "tiny-llama": (LOADED, LOADED),
    "sharded": (LOADED, LOADED),
    "no-safetensors": (LOADED, "does not appear to have a file named model.safetensors"),
    "custom-code": (LOADED, "contains custom code which must be executed"),
    "broken-config": ("is not a valid JSON file", "is not a valid JSON file"),
    "no-tokenizer": ("Couldn't instantiate the backend tokenizer", LOADED),
    "unknown-architecture": (LOADED, "model type `hexaflow`"),
    "truncated-weights": (LOADED, "incomplete metadata, file not fully covered"),
    "nan-weights": (LOADED, "loaded, and answers nan"),
    "huge": (LOADED, "too large to be downloaded"),
    "gguf-only": ("Couldn't instantiate the backend tokenizer", "Unrecognized model"),
    "encoder-decoder": (LOADED, "Unrecognized configuration class"),
    "gated": ("gated repo", "gated repo"),
    "private": ("is not a valid model identifier", "is not a valid model identifier"),
    "disabled": ("couldn't connect", "couldn't connect"),
    "renamed": (LOADED, LOADED),
}


def test_every_awkward_model_goes_wrong_in_its_own_way(hub: str, tmp_path: Path) -> None:
    code = f"""
import json
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

def outcome(load):
    try:
        loaded = load()
    except Exception as error:
        return str(error)
    if isinstance(loaded, torch.nn.Module) and loaded(torch.tensor([[5, 6]])).logits.isnan().any():
        return "loaded, and answers nan"
    return "loaded"

print(json.dumps({{
    name: [
        outcome(lambda: AutoTokenizer.from_pretrained("awkward/" + name, trust_remote_code=False)),
        outcome(lambda: AutoModelForCausalLM.from_pretrained(
            "awkward/" + name, use_safetensors=True, trust_remote_code=False
        )),
    ]
    for name in {sorted(OUTCOMES)!r}
}}))
"""
    seen = json.loads(run_client(code, hub, tmp_path).splitlines()[-1])
    assert OUTCOMES.keys() == MODELS.keys()
    for name, said in OUTCOMES.items():
        for expected, actual in zip(said, seen[name], strict=True):
            right = actual == LOADED if expected == LOADED else expected in actual
            assert right, f"{name}: expected {expected!r}, got {actual!r}"
