"""Models of images and text that vLLM computes: the `vllm-vlm` backend.

It reads as `hf-multimodal` does, by the model's own processor: the same requests under the same
keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self, cast

from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from evalcore.errors import ModelError
from evalcore.model.base import Mode
from evalcore.model.hf.eyes import Eyes
from evalcore.model.hf.image_arguments import OF_IMAGES, ImageArguments
from evalcore.model.hf.media_reading import MediaReader
from evalcore.model.hf.processor import load_processor, processor_digest
from evalcore.model.hf.snapshot import Files
from evalcore.model.vllm.arguments import VllmArguments
from evalcore.model.vllm.backend import VllmLM
from evalcore.model.vllm.engine import check_installed
from evalcore.model.vllm.seeing import SeeingVllmScorer, SeeingVllmWriter
from evalcore.model.vllm.writing import VllmWriter

_OF_ADAPTERS = ("lora_local_path", "enable_lora", "max_lora_rank")


class VllmVLM(MediaReader, VllmLM):
    """The `vllm-vlm` backend; satisfies `evalcore.model.base.LM`."""

    capabilities = replace(
        VllmLM.capabilities,
        backend="vllm-vlm",
        rolling=False,
        images=True,
        adapters=False,
        copies=False,
    )

    _sense: Eyes
    _arguments: ImageArguments

    def __init__(
        self,
        arguments: VllmArguments,
        *,
        batch_size: int | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> None:
        """Raises ModelError, before weights are downloaded, for a model that sees nothing, for one
        without a processor, and for one whose code in vLLM cannot be imported here."""
        if weights:
            check_installed()
            type(self)(arguments, mode=mode, weights=False)._check_known()
        super().__init__(arguments, batch_size=batch_size, mode=mode, weights=weights)
        if weights:
            self._scorer = SeeingVllmScorer(self._engine, self._scorer, self._sense.shown)

    @classmethod
    def from_arguments(
        cls,
        arguments: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> Self:
        """Raises as that of `vllm`, and for adapters."""
        cls._check_device(device)
        if adapters := [name for name in _OF_ADAPTERS if name in arguments]:
            raise ModelError(
                f"--model_args: argument {adapters[0]!r} is not taken: models that see are "
                "evaluated as they are published, without an adapter: leave it out"
            )
        others = {name: value for name, value in arguments.items() if name not in OF_IMAGES}
        stated = VllmArguments.of(others)
        reading = {name: getattr(stated.reading, name) for name in vars(stated.reading)}
        seen = {name: value for name, value in arguments.items() if name in OF_IMAGES}
        shown = ImageArguments.of({"pretrained": stated.reading.pretrained, **seen})
        images = {name: getattr(shown, name) for name in OF_IMAGES}
        stated = replace(stated, reading=ImageArguments(**reading, **images))
        return cls(stated, batch_size=batch_size, mode=mode, weights=weights)

    def _tokenizer_of(self, files: Files) -> Any:
        arguments = cast(ImageArguments, self._stated.reading)
        if self._config.model_type not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
            raise ModelError(
                f"{arguments.pretrained} is no model of images and text that transformers knows "
                f"(model_type: {self._config.model_type}): --model vllm evaluates it on text"
            )
        processor = load_processor(arguments, files.tokenizer)
        self._sense = Eyes(processor, self._config, arguments)
        self._processor_digest = processor_digest(processor, arguments)
        return processor.tokenizer

    def _check_known(self) -> None:
        """Whether vLLM's code for this architecture can be imported.

        It says so only when it has the weights, and in forty lines. Most of this code imports what
        transformers has for videos, too, which wants torchvision."""
        if find_spec("torchvision") is not None:
            return
        from vllm import ModelRegistry

        name = str((getattr(self._config, "architectures", None) or ["unknown"])[0])
        module = getattr(ModelRegistry.models.get(name), "module_name", None)
        if module is None:
            return
        try:
            import_module(module)
        except ImportError as problem:
            raise ModelError(
                f"{name}: vLLM's code for it cannot be imported ({problem}): install torchvision "
                "for the torch of this environment, or evaluate with --model hf-multimodal"
            ) from problem

    def _writer_of(self, configured: Any, defaults: Mapping[str, Any]) -> VllmWriter:
        shown = self._sense.shown
        return SeeingVllmWriter(self._engine, self.tokenizer, configured, defaults, shown)

    def _options(self, batch_size: int | None, adapters_rank: int | None) -> dict[str, Any]:
        pixels = self._arguments.pixels
        return {
            **super()._options(batch_size, adapters_rank),
            "skip_tokenizer_init": False,  # its processor has the tokenizer
            # All of a prompt that is scored is read, its last token, too.
            "max_model_len": self.encoder.max_length + 2,
            "limit_mm_per_prompt": {"image": self._arguments.max_images},
            **({"mm_processor_kwargs": pixels} if pixels else {}),
        }
