"""Models of `transformers` that hear, like Qwen2-Audio: the `hf-audiolm-qwen` backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from transformers import AutoModelForMultimodalLM, AutoProcessor

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import Mode
from evalcore.model.hf.arguments import number, values_of
from evalcore.model.hf.description import errors_named, load_configuration
from evalcore.model.hf.ears import Ears
from evalcore.model.hf.image_arguments import NOT_TAKEN_WITH_MEDIA, TYPES_WITH_MEDIA
from evalcore.model.hf.media_lm import MediaLM
from evalcore.model.hf.processor import place_of
from evalcore.model.hf.repository import PROCESSOR
from evalcore.model.hf.snapshot import Arguments, Snapshot, download, refuse_code

HEARS = ("qwen2_audio",)
"""What config.json calls the models whose marks this backend writes."""


@dataclass(frozen=True, kw_only=True)
class AudioArguments(Arguments):
    """The arguments of `hf-audiolm-qwen` (docs/models.md says what each does)."""

    max_audios: int = 5
    """At most so many in one prompt; lm-evaluation-harness fails at more."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        types = {**TYPES_WITH_MEDIA, "max_audios": number(1, "a count of sounds")}
        return cls(**values_of(given, types, NOT_TAKEN_WITH_MEDIA))


class AudioLM(MediaLM):
    """The `hf-audiolm-qwen` backend; satisfies `evalcore.model.base.LM`."""

    auto = AutoModelForMultimodalLM

    capabilities = replace(MediaLM.capabilities, backend="hf-audiolm-qwen", sounds=True)

    def __init__(
        self,
        arguments: AudioArguments,
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> None:
        """Raises ModelError, before weights are downloaded, for a model that hears nothing and for
        one without a processor; else as `HuggingFaceLM`."""
        files = download(arguments, weights=False)
        if arguments.trust_remote_code:
            refuse_code(files.model, "models that hear are computed by code of transformers alone")
        config = load_configuration(arguments, files.model)
        if config.model_type not in HEARS:
            raise ModelError(
                f"{arguments.pretrained} (model_type: {config.model_type}) is no model of sound "
                f"whose prompts are known here, which are {', '.join(HEARS)}: --model hf evaluates "
                "a text model on text, --model hf-multimodal one of images"
            )
        processor = _processor(files.tokenizer)
        super().__init__(
            arguments,
            processor,
            Ears(processor, config, arguments.max_audios, mode),
            _digest(processor, mode),
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
    ) -> AudioLM:
        stated = AudioArguments.of(arguments)
        return cls(stated, batch_size=batch_size, device=device, mode=mode, weights=weights)


def _processor(snapshot: Snapshot) -> Any:
    """Raises ModelError for a repository without one."""
    if not any((snapshot.folder / file).is_file() for file in PROCESSOR):
        raise ModelError(
            f"{snapshot.name} has no processor ({PROCESSOR[0]} or {PROCESSOR[1]}), so nobody can "
            "tell how it reads a sound: publish it with the model, or name the repository that "
            "has it as tokenizer"
        )
    with errors_named(snapshot):
        kind: Any = AutoProcessor
        place, pinned = place_of(snapshot)
        found: Any = kind.from_pretrained(place, trust_remote_code=False, **pinned)
    if not hasattr(found, "feature_extractor") or not hasattr(found, "tokenizer"):
        raise ModelError(
            f"{snapshot.name}: its processor ({type(found).__name__}) reads no sounds beside a "
            "text: --model hf evaluates the text model alone"
        )
    return found


def _digest(processor: Any, mode: Mode) -> str:
    """SHA-256 of all that is done to a sound before the model hears it."""
    features = processor.feature_extractor
    return digest_of(
        {
            "features": features.to_dict(),
            "computed_by": type(features).__name__,
            "brought_to_its_rate": mode == "strict",
        }
    )
