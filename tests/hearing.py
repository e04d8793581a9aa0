"""A model that hears, made in a second, and sounds that tests make themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tests.tiny import bytes_tokenizer

RATE = 16_000
MARKS = ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")


def make_hearing(folder: Path, *, seed: int = 0) -> Path:
    """A model like Qwen2-Audio, whose ears take two seconds at 16 kHz: random weights, its real
    processor with the chat template that it has by default."""
    import torch
    import transformers

    tokenizer = bytes_tokenizer(adds_bos=False)
    tokenizer.add_special_tokens([*MARKS, "<pad>"])
    whole = transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    ears = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=2)
    transformers.Qwen2AudioProcessor(ears, whole).save_pretrained(folder)
    config: Any = transformers.AutoConfig.for_model(
        "qwen2_audio",
        audio_config={
            "model_type": "qwen2_audio_encoder", "num_mel_bins": 16, "d_model": 32,
            "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64,
            "max_source_positions": 100,
        },
        text_config={
            "model_type": "qwen2", "vocab_size": len(whole), "hidden_size": 64,
            "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": 0,
            "eos_token_id": 1, "pad_token_id": whole.pad_token_id,
        },
        audio_token_id=whole.convert_tokens_to_ids(MARKS[0]),
    )  # fmt: skip
    torch.manual_seed(seed)
    model: Any = transformers.Qwen2AudioForConditionalGeneration(config)
    for parameter in model.parameters():  # drawn so small otherwise that sounds are alike
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    return folder


def tone(number: int, *, seconds: float = 0.5, rate: int = RATE) -> Any:
    """A chord and a little noise: no two numbers sound alike."""
    time = np.arange(int(seconds * rate)) / rate
    chord = np.sin(2 * np.pi * 110 * (number + 2) * time) + np.sin(2 * np.pi * 97 * time)
    noise = np.random.default_rng(number).normal(0, 0.02, len(time))
    return (0.3 * chord + noise).astype(np.float32)


def sound_file(samples: Any, *, rate: int = RATE, format: str = "WAV") -> bytes:
    import soundfile

    file = BytesIO()
    soundfile.write(file, samples, rate, format=format)
    return file.getvalue()


def write_sounds(path: Path, rows: Sequence[Mapping[str, Any]], *columns: str) -> Path:
    """A parquet file with these rows, as the Hub has sounds; `columns`: their files."""
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    stored = [
        {
            name: {"bytes": value, "path": None} if name in columns and value else value
            for name, value in row.items()
        }
        for row in rows
    ]
    # Described by hand: `datasets` writes sounds anew, by a library that is not there.
    plain = datasets.Dataset.from_list(stored)
    features = datasets.Features(
        {name: datasets.Audio() if name in columns else plain.features[name] for name in rows[0]}
    )
    table = pa.Table.from_pylist(stored, schema=features.arrow_schema)
    pq.write_table(table, path)
    return path


def sound_keys(folder: Path, rows: Sequence[Mapping[str, Any]], *columns: str) -> dict[str, Any]:
    """What a task says of such data in this folder."""
    file = write_sounds(folder / "test.parquet", rows, *columns)
    return {
        "dataset_path": "parquet",
        "dataset_kwargs": {
            "data_files": {"test": str(file), "train": str(file)},
            "cache_dir": str(folder / "cache"),
        },
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "<audio>{{question}}",
        "doc_to_target": "answer",
        "doc_to_audio": ["clip"],
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match"}],
    }
