"""Model repositories that go wrong, one way each, and the ones beside them that do not.

`build(folder)` writes `models/awkward/<name>` for every name in MODELS, and the data set
`datasets/awkward/looks-like-a-model`, for a local Hub to serve (tests/hub.py). The models have
random weights, a few ten thousand of them.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.tiny import change_config

ORGANISATION = "awkward"
DATASET = f"{ORGANISATION}/looks-like-a-model"
TEXT = ["The quick brown fox jumps over the lazy dog.", "Question: 1 + 2 = ?\nAnswer: 3", "A B C D"]


def build(folder: Path) -> Path:
    """Writes everything below `folder` and returns it, ready for `serve([folder])`."""
    fine = folder / "models" / ORGANISATION / "tiny-llama"
    write_tiny_llama(fine)
    for name, make in MODELS.items():
        if name != fine.name:
            make(fine, fine.with_name(name))
    old = fine / ".revisions" / "v1"
    shutil.copytree(fine, old, ignore=shutil.ignore_patterns(".revisions"))
    (old / "README.md").write_text("---\nlicense: mit\n---\nThe first version.\n")
    data = folder / "datasets" / DATASET
    data.mkdir(parents=True)
    (data / "test.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    return folder


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    return LlamaForCausalLM(config)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<bos>", "<eos>", "<pad>"]
    # Every byte is in the alphabet, so no text is unknown to it.
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>"
    )


def write_tiny_llama(folder: Path) -> None:
    tiny_llama().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    card = (
        "---\nlicense: apache-2.0\nlanguage: en\ntags: [tiny]\n---\n# Random weights, for tests\n"
    )
    (folder / "README.md").write_text(card)


def no_safetensors(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder)
    (folder / "model.safetensors").unlink()
    torch.save(tiny_llama().state_dict(), folder / "pytorch_model.bin")


def custom_code(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder)
    module = "modeling_awkward"
    change_config(
        folder,
        model_type="awkward",
        architectures=["AwkwardForCausalLM"],
        auto_map={
            "AutoConfig": f"{module}.AwkwardConfig",
            "AutoModelForCausalLM": f"{module}.AwkwardForCausalLM",
        },
    )
    (folder / f"{module}.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n\n\n"
        "class AwkwardConfig(LlamaConfig):\n    model_type = 'awkward'\n\n\n"
        "class AwkwardForCausalLM(LlamaForCausalLM):\n    config_class = AwkwardConfig\n"
    )


def broken_config(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder)
    (folder / "config.json").write_text('{"model_type": "llama", "architectures": [')


def no_tokenizer(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder, ignore=shutil.ignore_patterns("tokenizer*", "special_tokens*"))


def unknown_architecture(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder)
    change_config(folder, model_type="hexaflow", architectures=["HexaflowForCausalLM"])


def truncated_weights(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def nan_weights(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder)
    model = tiny_llama()
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.fill_(float("nan"))
    model.save_pretrained(folder)


def sharded(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder)
    (folder / "model.safetensors").unlink()
    model = tiny_llama()
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    model.save_pretrained(folder, max_shard_size=int(size * 0.6))


def huge(fine: Path, folder: Path) -> None:
    """What Llama-3 of 70 billion parameters says of itself, without the 141 GB behind it."""
    shutil.copytree(fine, folder, ignore=shutil.ignore_patterns("model*"))
    change_config(
        folder,
        vocab_size=128256,
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=128,
        dtype="bfloat16",
    )
    with torch.device("meta"):
        state = LlamaForCausalLM(LlamaConfig.from_pretrained(folder)).state_dict()
    names = list(state)
    half = len(names) // 2
    weight_map: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for number, part in enumerate((names[:half], names[half:]), start=1):
        shard = f"model-{number:05d}-of-00002.safetensors"
        shapes = {name: list(state[name].shape) for name in part}
        sizes[shard] = write_safetensors_header(folder / shard, shapes)
        weight_map |= dict.fromkeys(part, shard)
    total = sum(tensor.numel() for tensor in state.values()) * 2
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / ".hub.yaml").write_text(json.dumps({"sizes": sizes}))


def gguf_only(_fine: Path, folder: Path) -> None:
    folder.mkdir()
    # Magic, version, and the counts of tensors and of metadata entries: an empty GGUF file.
    (folder / "tiny-q4_0.gguf").write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, 0))
    (folder / "README.md").write_text("---\nlibrary_name: gguf\n---\n")


def encoder_decoder(fine: Path, folder: Path) -> None:
    shutil.copytree(fine, folder)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=300, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, pad_token_id=2
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)


def kept(**marker: object) -> Callable[[Path, Path], None]:
    """A fine model in a repository that is kept in some special way."""

    def make(fine: Path, folder: Path) -> None:
        shutil.copytree(fine, folder)
        (folder / ".hub.yaml").write_text(json.dumps(marker))

    return make


def write_safetensors_header(file: Path, shapes: dict[str, list[int]]) -> int:
    """A safetensors file of bfloat16 tensors that ends where its weights would begin.

    The bytes that it would have with them.
    """
    header: dict[str, object] = {}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * int(torch.tensor(shape).prod())
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    content = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(content)) + content)
    return 8 + len(content) + end


MODELS: dict[str, Callable[[Path, Path], None]] = {
    "tiny-llama": lambda _fine, folder: write_tiny_llama(folder),
    "sharded": sharded,
    "no-safetensors": no_safetensors,
    "custom-code": custom_code,
    "broken-config": broken_config,
    "no-tokenizer": no_tokenizer,
    "unknown-architecture": unknown_architecture,
    "truncated-weights": truncated_weights,
    "nan-weights": nan_weights,
    "huge": huge,
    "gguf-only": gguf_only,
    "encoder-decoder": encoder_decoder,
    "gated": kept(gated="manual"),
    "private": kept(private=True),
    "disabled": kept(disabled=True),
    "renamed": kept(renamed_to=f"{ORGANISATION}/tiny-llama"),
}
