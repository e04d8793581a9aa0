"""The `--model_args` of the `hf-multimodal` backend: those of `hf`, and how images are shown.

The names are lm-evaluation-harness's. What of its own is not here says why, or what does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from evalcore.errors import ModelError
from evalcore.model.hf.arguments import NOT_TAKEN, TYPES, flag, number, values_of
from evalcore.model.hf.snapshot import Arguments

_OF_TEXT = "models that see or hear are {}: leave it out"
NOT_TAKEN_WITH_MEDIA = {
    **NOT_TAKEN,
    "backend": "what kind of model it is, its config.json says",
    "gguf_file": _OF_TEXT.format("read from safetensors"),
    "peft": _OF_TEXT.format("evaluated as they are published, without an adapter"),
    "delta": _OF_TEXT.format("evaluated as they are published"),
    "load_in_8bit": _OF_TEXT.format("not quantised as they are loaded"),
    "load_in_4bit": _OF_TEXT.format("not quantised as they are loaded"),
    "code_revision": _OF_TEXT.format("computed by code of transformers alone"),
    "tp_plan": _OF_TEXT.format("not divided among processes"),
    "add_bos_token": "the processor adds what the model was trained with",
    "use_fast_tokenizer": "the processor brings its tokenizer",
    "rolling_stride": "models that see or hear are not asked about whole texts",
    "truncation": "a prompt with images or sounds is never cut",
}

TYPES_WITH_MEDIA: Mapping[str, Callable[[Any], Any]] = {
    name: kind
    for name, kind in TYPES.items()
    if name not in NOT_TAKEN_WITH_MEDIA and not name.startswith("bnb_")
}
"""What of `hf`'s arguments a model with a processor takes."""

_PIXELS = number(1, "a count of pixels")
OF_IMAGES: Mapping[str, Callable[[Any], Any]] = {
    "max_images": number(1, "a count of images"),
    "interleave": flag,
    "image_string": str,
    "image_token_id": number(0, "the number of a token"),
    "convert_img_format": flag,
    "image_width": _PIXELS,
    "image_height": _PIXELS,
    "image_max_side": _PIXELS,
    "min_pixels": _PIXELS,
    "max_pixels": _PIXELS,
}
"""How images are shown."""


@dataclass(frozen=True, kw_only=True)
class ImageArguments(Arguments):
    """The arguments of `hf-multimodal` (docs/models.md says what each does)."""

    max_images: int = 999
    """At most so many in one prompt; lm-evaluation-harness leaves out those beyond."""
    interleave: bool = True
    """Whether a conversation has its images where the text has them; else all come first."""
    image_string: str | None = None
    """What stands for an image in a plain prompt; by default the token of `image_token_id`."""
    image_token_id: int | None = None
    """By default as config.json says."""
    convert_img_format: bool = False
    """Whether images are made RGB before the processor sees them."""
    image_width: int | None = None
    """Images that are wider are made smaller, in their shape, before the processor sees them."""
    image_height: int | None = None
    image_max_side: int | None = None
    min_pixels: int | None = None
    """Told to the processor, as of Qwen2-VL."""
    max_pixels: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        values = values_of(given, {**TYPES_WITH_MEDIA, **OF_IMAGES}, NOT_TAKEN_WITH_MEDIA)
        sides = [name for name in ("image_width", "image_height") if name in values]
        if "image_max_side" in values and sides:
            raise ModelError(
                f"--model_args: image_max_side and {sides[0]}: an image is made smaller in one "
                "way: give one of them"
            )
        return cls(**values)

    @property
    def pixels(self) -> dict[str, int]:
        stated = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        return {name: value for name, value in stated.items() if value is not None}
