"""Models that see or hear, made in a second: random weights, real processors, images of a few
patches; and sounds that tests make themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tests.tiny import bytes_tokenizer

RATE = 16_000
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 2, "patch_size": 14, "image_size": 28}  # fmt: skip
TEXT = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 1,
        "pad_token_id": 1}  # fmt: skip
MARKS = {
    "llava": ("<image>",),
    "idefics3": ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"),
    "qwen2_vl": ("<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>"),
    "qwen2_audio": ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"),
}
"""By kind of model its tokens for images or sounds; the first stands for one."""

CONVERSATION = (
    "{% for message in messages %}<|{{ message.role }}|>"
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}MARK{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make_seeing(
    folder: Path, *, architecture: str = "llava", seed: int = 0, width: int = 64
) -> Path:
    """A model like Llava (one image of fixed size), Idefics3 and SmolVLM (cut into tiles), or
    Qwen2-VL (as many tokens as the image has patches). `width`: of its rows (see `tiny.make`)."""
    import torch
    from transformers import AutoModelForImageTextToText

    tokenizer = _tokenizer(architecture)
    _save_processor(architecture, tokenizer, folder)
    torch.manual_seed(seed)
    config = _config(architecture, tokenizer, width)
    return _save_spread(AutoModelForImageTextToText.from_config(config), folder)


def make_hearing(folder: Path, *, seed: int = 0) -> Path:
    """A model like Qwen2-Audio, whose ears take two seconds at 16 kHz: random weights, its real
    processor with the chat template that it has by default."""
    import torch
    import transformers

    whole = _tokenizer("qwen2_audio")
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
        audio_token_id=whole.convert_tokens_to_ids(MARKS["qwen2_audio"][0]),
    )  # fmt: skip
    torch.manual_seed(seed)
    return _save_spread(transformers.Qwen2AudioForConditionalGeneration(config), folder)


def _tokenizer(architecture: str) -> Any:
    """Bytes and the tokens for images or sounds; Llava's adds a BOS, as Llama's does."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = bytes_tokenizer(adds_bos=architecture == "llava")
    tokenizer.add_special_tokens([*MARKS[architecture], "<pad>"])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def _save_spread(model: Any, folder: Path) -> Path:
    """With larger numbers than towers are drawn with: images would look alike, and sounds."""
    import torch

    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    return folder


def _save_processor(architecture: str, tokenizer: Any, folder: Path) -> None:
    import transformers

    mark = MARKS[architecture][0]
    if architecture == "qwen2_vl":
        mark = f"<|vision_start|>{mark}<|vision_end|>"
    chat = CONVERSATION.replace("MARK", mark)
    if architecture == "llava":
        images = transformers.CLIPImageProcessorPil(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        )
        transformers.LlavaProcessor(
            images,
            tokenizer,
            patch_size=14,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
            chat_template=chat,
        ).save_pretrained(folder)
    elif architecture == "idefics3":
        images = transformers.Idefics3ImageProcessorPil(
            size={"longest_edge": 56}, max_image_size={"longest_edge": 28}
        )
        transformers.Idefics3Processor(
            images, tokenizer, image_seq_len=1, chat_template=chat
        ).save_pretrained(folder)
    else:
        # As the Hub has it: the processor itself wants torchvision, for videos.
        images = transformers.Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 6)
        images.save_pretrained(folder)
        file = folder / "preprocessor_config.json"
        own = json.loads(file.read_text())
        file.write_text(json.dumps({**own, "processor_class": "Qwen2VLProcessor"}))
        tokenizer.chat_template = chat
        tokenizer.save_pretrained(folder)


def _config(architecture: str, tokenizer: Any, width: int) -> Any:
    from transformers import AutoConfig

    image, *others = [tokenizer.convert_tokens_to_ids(mark) for mark in MARKS[architecture]]
    text = {**TEXT, "vocab_size": len(tokenizer), "hidden_size": width}
    if architecture == "llava":
        return AutoConfig.for_model(
            "llava",
            text_config={"model_type": "llama", **text},
            vision_config={"model_type": "clip_vision_model", **VISION},
            image_token_id=image,
            image_seq_length=4,
            vision_feature_layer=-1,
        )
    if architecture == "idefics3":
        return AutoConfig.for_model(
            "idefics3",
            text_config={"model_type": "llama", **text},
            vision_config=VISION,
            image_token_id=image,
            scale_factor=2,
            pad_token_id=tokenizer.pad_token_id,
        )
    start, end, video = others
    return AutoConfig.for_model(
        "qwen2_vl",
        text_config={
            **text,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [width // 32, 3 * width // 64, 3 * width // 64],
            },
        },
        vision_config={
            "depth": 2, "embed_dim": 32, "hidden_size": width, "num_heads": 2, "mlp_ratio": 2,
        },
        image_token_id=image,
        vision_start_token_id=start,
        vision_end_token_id=end,
        video_token_id=video,
    )  # fmt: skip


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
