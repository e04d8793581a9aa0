"""Models that see, made in a second: random weights, real processors, images of a few patches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tiny import bytes_tokenizer

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
}
"""By kind of model its tokens for images; the first stands for one."""

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
    model: Any = AutoModelForImageTextToText.from_config(_config(architecture, tokenizer, width))
    for parameter in model.parameters():  # towers are drawn so small that images look alike
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    return folder


def _tokenizer(architecture: str) -> Any:
    """Bytes and the tokens for images; Llava's adds a BOS, as Llama's does."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = bytes_tokenizer(adds_bos=architecture == "llava")
    tokenizer.add_special_tokens([*MARKS[architecture], "<pad>"])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


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
