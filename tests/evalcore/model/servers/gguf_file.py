"""A model of `served_model` in llama.cpp's file format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def write(folder: Path, into: Path) -> Path:
    """In float32, with its tokenizer; rotary halves are laid out as llama.cpp rotates them."""
    import gguf
    from safetensors.numpy import load_file

    stated = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    layers = stated["num_hidden_layers"]
    heads = {"q_proj": stated["num_attention_heads"], "k_proj": stated["num_key_value_heads"]}
    file: Any = gguf.GGUFWriter(into, "llama")
    file.add_context_length(stated["max_position_embeddings"])
    file.add_embedding_length(stated["hidden_size"])
    file.add_block_count(layers)
    file.add_feed_forward_length(stated["intermediate_size"])
    file.add_head_count(stated["num_attention_heads"])
    file.add_head_count_kv(stated["num_key_value_heads"])
    file.add_layer_norm_rms_eps(stated["rms_norm_eps"])
    file.add_rope_dimension_count(stated["head_dim"])
    file.add_rope_freq_base(stated["rope_parameters"]["rope_theta"])
    file.add_vocab_size(stated["vocab_size"])
    numbers = tokenizer["model"]["vocab"]
    special = {token["content"] for token in tokenizer["added_tokens"]}
    vocabulary = sorted(numbers, key=numbers.__getitem__)
    kinds = gguf.TokenType
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list(vocabulary)
    file.add_token_types(
        [kinds.CONTROL if token in special else kinds.NORMAL for token in vocabulary]
    )
    file.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    file.add_bos_token_id(stated["bos_token_id"])
    file.add_eos_token_id(stated["eos_token_id"])
    file.add_add_bos_token(True)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
    for name, weight in load_file(folder / "model.safetensors").items():
        count = heads.get(name.split(".")[-2])
        if count is not None:
            rows = weight.reshape(count, 2, len(weight) // count // 2, weight.shape[1])
            weight = rows.swapaxes(1, 2).reshape(weight.shape)
        place = names.get_name(name, try_suffixes=(".weight",))
        file.add_tensor(place, np.ascontiguousarray(weight, dtype=np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return into
