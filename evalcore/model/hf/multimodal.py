"""Models of `transformers` that read images and text: the `hf-multimodal` backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from transformers import AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from evalcore.errors import ModelError
from evalcore.model.base import Mode
from evalcore.model.hf.description import load_configuration
from evalcore.model.hf.eyes import Eyes
from evalcore.model.hf.image_arguments import ImageArguments
from evalcore.model.hf.media_lm import MediaLM
from evalcore.model.hf.processor import load_processor, processor_digest
from evalcore.model.hf.snapshot import download, refuse_code


class MultimodalLM(MediaLM):
    """The `hf-multimodal` backend; satisfies `evalcore.model.base.LM`."""

    auto = AutoModelForImageTextToText

    capabilities = replace(MediaLM.capabilities, backend="hf-multimodal", images=True)

    def __init__(
        self,
        arguments: ImageArguments,
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> None:
        """Raises ModelError, before weights are downloaded, for a model that sees nothing and for
        one without a processor; else as `HuggingFaceLM`."""
        files = download(arguments, weights=False)
        if arguments.trust_remote_code:
            refuse_code(files.model, "models that see are computed by code of transformers alone")
        config = load_configuration(arguments, files.model)
        if config.model_type not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
            raise ModelError(
                f"{arguments.pretrained} is no model of images and text that transformers knows "
                f"(model_type: {config.model_type}): --model hf evaluates it on text"
            )
        processor = load_processor(arguments, files.tokenizer)
        super().__init__(
            arguments,
            processor,
            Eyes(processor, config, arguments),
            processor_digest(processor, arguments),
            batch_size=batch_size,
            device=device,
            mode=mode,
            weights=weights,
        )

    @classmethod
    def from_arguments(
        cls,
        arguments: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> MultimodalLM:
        stated = ImageArguments.of(arguments)
        return cls(stated, batch_size=batch_size, device=device, mode=mode, weights=weights)
