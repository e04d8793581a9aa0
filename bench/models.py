"""The models that are timed: random weights of a stated size behind a real byte-pair tokenizer.

Weights are drawn so wide that predictions are far from even, and every bias is not zero: with
transformers' own initialisation an engine that loses a bias or a context would still look right.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.texts import SYLLABLES

POSITIONS = 2048
"""The longest input of every model."""

ARCHITECTURES = ("llama", "gpt_neox")
"""Rotary positions both; grouped heads, a gated layer and BOS here; parallel layers there."""


@dataclass(frozen=True)
class Size:
    """Of a model without its vocabulary."""

    hidden: int
    layers: int
    heads: int
    key_heads: int
    """Heads of keys and values, of the Llama-like model."""
    inner: int
    """Width of the gated layer; the ungated one of the GPT-NeoX-like model is 1.5 times as wide."""


SIZES = {
    "tiny": Size(hidden=64, layers=2, heads=4, key_heads=2, inner=96),
    "30m": Size(hidden=384, layers=8, heads=6, key_heads=2, inner=1024),
    "125m": Size(hidden=768, layers=12, heads=12, key_heads=4, inner=2048),
    "1b": Size(hidden=2048, layers=16, heads=32, key_heads=8, inner=8192),
    "7b": Size(hidden=4096, layers=32, heads=32, key_heads=8, inner=14336),
}


@dataclass(frozen=True)
class Model:
    """What to build, by name."""

    architecture: str
    size: str
    vocabulary: int

    @property
    def name(self) -> str:
        thousands = f"{self.vocabulary // 1000}k" if self.vocabulary >= 1000 else "bytes"
        return f"{self.architecture.replace('_', '-')}-{self.size}-{thousands}"


def save_tokenizer(model: Model, texts: Iterable[str], folder: Path) -> None:
    """Trains on `texts` as many merges as they give, up to the vocabulary, and saves it all.

    What is then missing of the vocabulary is filled with words that no text is split into: the
    model can write them, and its head is as wide as it is said to be.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=model.vocabulary,
        min_frequency=2,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    _fill(trained, model.vocabulary)
    if model.architecture == "llama":
        trained.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=trained, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    ).save_pretrained(folder)


def _fill(tokenizer: Any, vocabulary: int) -> None:
    """Words of five syllables up to the vocabulary's size; no merge makes one."""
    import json

    from tokenizers import Tokenizer

    definition = json.loads(tokenizer.to_str())
    known = definition["model"]["vocab"]
    draw = random.Random(vocabulary)
    while len(known) < vocabulary:
        known.setdefault("Ġ" + "".join(draw.choices(SYLLABLES, k=5)), len(known))
    tokenizer.model = Tokenizer.from_str(json.dumps(definition)).model


def save_model(model: Model, folder: Path) -> None:
    """Saves the configuration and random weights in float32, the same at every call."""
    import torch

    save_config(model, folder)
    drawn(folder, "cpu", torch.float32).save_pretrained(folder)


def save_config(model: Model, folder: Path) -> None:
    """What `drawn` makes a model of."""
    from transformers import AutoConfig

    size = SIZES[model.size]
    own = {
        "llama": {
            "num_key_value_heads": size.key_heads,
            "intermediate_size": size.inner,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
        },
        "gpt_neox": {
            "intermediate_size": size.inner * 3 // 2,
            "attention_bias": True,
            "tie_word_embeddings": False,
        },
    }[model.architecture]
    AutoConfig.for_model(
        model.architecture,
        vocab_size=model.vocabulary,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        max_position_embeddings=POSITIONS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        **own,
    ).save_pretrained(folder)


def drawn(folder: Path, device: str, dtype: Any) -> Any:
    """The model of a saved configuration with random weights, the same in every process.

    Drawn where they are used and in their precision: seven billion would take minutes on a CPU.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    on_gpu = [device] if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=on_gpu), torch.device(device):
        torch.manual_seed(0)
        made: Any = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
        _widen(made, config.hidden_size)
    return made.eval()


def _widen(model: Any, hidden: int) -> None:
    """Every matrix, bias and norm anew: logits then spread by some 3 nats."""
    import torch

    embeddings = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith("bias"):
                weights.normal_(0, 0.1)
            elif weights.dim() == 1:
                weights.normal_(1, 0.1)
            else:
                spread = 3 if id(weights) in embeddings else 1.5
                weights.normal_(0, spread / hidden**0.5)
