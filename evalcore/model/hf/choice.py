"""Which of the two backends of `transformers` computes a model: what its config.json says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from transformers import CONFIG_MAPPING, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from evalcore.errors import ModelError
from evalcore.model.base import LM, Mode
from evalcore.model.capabilities import Capabilities
from evalcore.model.hf.description import load_configuration
from evalcore.model.hf.gguf import check_readable
from evalcore.model.hf.huggingface import HuggingFaceLM, default_device
from evalcore.model.hf.precheck import precheck
from evalcore.model.hf.quantisation import quantisation_of
from evalcore.model.hf.seq2seq import AT_MOST, Seq2SeqLM
from evalcore.model.hf.shared import SharedWeights
from evalcore.model.hf.snapshot import Arguments, Snapshot, download


class TextOfSeeingLM(HuggingFaceLM):
    """A model of images and text of which transformers has no class for texts alone: the whole of
    it, asked without images."""

    auto = AutoModelForImageTextToText


class HuggingFace:
    """`--model hf`: a causal model, or one with an encoder; a `Backend`."""

    capabilities = HuggingFaceLM.capabilities

    @classmethod
    def capabilities_of(cls, arguments: Mapping[str, Any]) -> Capabilities:
        """What the model can be asked at most, by its config.json; raises as `from_arguments`."""
        stated = Arguments.of(arguments)
        kind = kind_of(stated)
        return AT_MOST if kind is Seq2SeqLM else cls.capabilities

    @classmethod
    def from_arguments(
        cls,
        arguments: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> LM:
        """Raises ModelError, before weights are downloaded, for a `backend` that the model is not
        of."""
        stated = Arguments.of(arguments)
        kind = kind_of(stated)
        return kind(stated, batch_size=batch_size, device=device, mode=mode, weights=weights)

    @classmethod
    def with_adapters(
        cls,
        arguments: Mapping[str, Any],
        adapters: Sequence[str],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
    ) -> list[Callable[[], LM]]:
        """For each adapter what loads the model with it; the model's weights are loaded once.

        Raises as `from_arguments`, for any adapter, before these are downloaded.
        """
        if "peft" in arguments:
            raise ModelError("--model_args: peft: --adapters names the adapters: give one of them")
        shared = SharedWeights()
        loaders: list[Callable[[], LM]] = []
        for name in dict.fromkeys(adapters):
            stated = Arguments.of({**arguments, "peft": name})
            kind = kind_of(stated)
            precheck(stated, device=device or default_device(), mode=mode, kind=kind.auto)
            loaders.append(
                partial(
                    kind, stated, batch_size=batch_size, device=device, mode=mode, shared=shared
                )
            )
        return loaders

    @classmethod
    def lasting(cls) -> Callable[..., LM]:
        """A `from_arguments` whose next model has the weights of the last, if they are the same.

        Weights are the same by their commit: those of a folder are read each time.
        """
        kept: dict[str, Any] = {}

        def from_arguments(
            arguments: Mapping[str, Any],
            *,
            batch_size: int | None = None,
            device: str | None = None,
            mode: Mode = "compat",
        ) -> LM:
            stated = Arguments.of(arguments)
            kind = kind_of(stated)
            commit = download(stated, weights=False).model.commit
            may_change = stated.peft is not None or stated.delta is not None
            wanted = (replace(stated, peft=None), commit, device, may_change)
            if commit is None or kept.get("wanted") != wanted:
                kept.clear()  # before others are loaded beside them
                kept.update(wanted=wanted, weights=SharedWeights(may_change=may_change))
            how: dict[str, Any] = {"batch_size": batch_size, "device": device, "mode": mode}
            return kind(stated, **how, shared=kept["weights"])

        return from_arguments


def kind_of(arguments: Arguments) -> type[HuggingFaceLM]:
    """By the repository's configuration, which is downloaded where it is not there. Raises
    ModelError for arguments that a model of its kind does not take."""
    if arguments.gguf_file is not None:
        check_readable(arguments.pretrained)
    snapshot = download(arguments, weights=False).model
    name, config = arguments.pretrained, _configuration(arguments, snapshot)
    named = config.get("architectures") or [config.get("model_type")]
    architecture = named[0] if isinstance(named, list) else named
    if arguments.tp_plan is not None and not _can_be_divided(config):
        raise ModelError(
            f"--model_args: tp_plan=auto: {name} ({architecture}) is none of the models of which "
            "transformers says how they are divided: leave it out; parallelize=True spreads whole "
            "layers"
        )
    if not has_encoder(config):
        if arguments.backend == "seq2seq":
            raise ModelError(
                f"--model_args: backend=seq2seq: {name} is no encoder-decoder model "
                f"({architecture}): leave backend out"
            )
        return TextOfSeeingLM if _only_sees(config.get("model_type")) else HuggingFaceLM
    if arguments.backend == "causal":
        raise ModelError(
            f"--model_args: backend=causal: {name} is an encoder-decoder model ({architecture}), "
            "of which the decoder alone was never trained: leave backend out"
        )
    for stated, why in (
        ("peft", "over which no adapter is put: merge it into the model"),
        ("delta", "to which no differences are added: publish the sum"),
    ):
        if getattr(arguments, stated) is not None:
            raise ModelError(
                f"--model_args: {stated}: {name} is an encoder-decoder model ({architecture}), "
                f"{why} and evaluate that"
            )
    if arguments.thinking_budget is not None:
        raise ModelError(
            f"--model_args: thinking_budget: {name} is an encoder-decoder model ({architecture}), "
            "whose thoughts are not ended: leave it out"
        )
    if snapshot.file or quantisation_of(config) or arguments.load_in_8bit or arguments.load_in_4bit:
        raise ModelError(
            f"{name} is a quantised encoder-decoder model ({architecture}), whose answers were "
            "compared with nobody's: evaluate the model that it was made of"
        )
    return Seq2SeqLM


def has_encoder(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is of an encoder-decoder model: it says so, or its model type does."""
    stated = config.get("is_encoder_decoder")
    if stated is None and config.get("model_type") in CONFIG_MAPPING:
        stated = getattr(CONFIG_MAPPING[config["model_type"]], "is_encoder_decoder", False)
    return stated is True


def _only_sees(model_type: object) -> bool:
    """Whether transformers knows models of this type as those of images and text alone."""
    return (
        isinstance(model_type, str)
        and model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        and model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    )


def _can_be_divided(config: Mapping[str, Any]) -> bool:
    """Whether each layer can be computed in parts; weights that are packed are not cut."""
    kind = str(config.get("model_type"))
    if kind not in CONFIG_MAPPING:  # whose classes are imported when they are asked for
        return False
    planned = getattr(CONFIG_MAPPING[kind], "base_model_tp_plan", None)
    return bool(planned) and not has_encoder(config) and not quantisation_of(config)


def _configuration(arguments: Arguments, snapshot: Snapshot) -> Mapping[str, Any]:
    """Empty where there is none that can be read: loading says what is wrong with it."""
    if snapshot.file:
        return dict(load_configuration(arguments, snapshot).to_dict())
    try:
        found = json.loads((snapshot.folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
