"""Models of `transformers` that read images and text: the `hf-multimodal` backend.

Requests without images are read and written as of any other model; one with images is read by the
model's processor (`eyes.py`), and again when it is computed, as nobody has room for all pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from transformers import AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import ChatTemplate, EncodedRequest, Mode, Request
from evalcore.model.hf.conversation import chat_template_of
from evalcore.model.hf.description import load_configuration
from evalcore.model.hf.eyes import Eyes
from evalcore.model.hf.huggingface import HuggingFaceLM, ScoresAndSays
from evalcore.model.hf.image_arguments import ImageArguments
from evalcore.model.hf.processor import load_processor, processor_digest
from evalcore.model.hf.snapshot import download, refuse_code
from evalcore.model.loglikelihood.ladder import PathName
from evalcore.model.loglikelihood.scoring import Scorer
from evalcore.model.loglikelihood.seeing import SeeingPair, SeeingScorer
from evalcore.model.pictures import digests_of
from evalcore.model.tokens.encoder import join_of
from evalcore.model.writing.generation import GenerationRequest, Plan
from evalcore.model.writing.plan import Writer
from evalcore.model.writing.seeing import SeeingRequest, SeeingWriter


class MultimodalLM(HuggingFaceLM):
    """The `hf-multimodal` backend; satisfies `evalcore.model.base.LM`."""

    auto = AutoModelForImageTextToText

    capabilities = replace(
        HuggingFaceLM.capabilities,
        backend="hf-multimodal",
        rolling=False,
        images=True,
        adapters=False,
        quantised=False,
        copies=False,
    )

    _arguments: ImageArguments

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
        self._eyes = Eyes(processor, config, arguments)
        self._processor_digest = processor_digest(processor, arguments)
        super().__init__(
            arguments,
            batch_size=batch_size,
            device=device,
            mode=mode,
            weights=weights,
            tokenizer=processor.tokenizer,
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

    def _computing(
        self,
        tokenizer: Any,
        batch_size: int | None,
        path: Literal["auto"] | PathName,  # noqa: ARG002  # there is one way
    ) -> tuple[ScoresAndSays, Writer]:
        eyes = self._eyes
        writer = SeeingWriter(
            self._model,
            tokenizer,
            batch_size=batch_size,
            inputs=lambda requests: eyes.batch(
                [request.text for request in requests], [request.images for request in requests]
            ),
        )
        # Packs are made of rows that are read from their tokens alone.
        texts = Scorer(self._model, batch_size=batch_size, path="plain", softmax=self._softmax)
        scorer = SeeingScorer(
            self._model,
            texts,
            inputs=lambda request: eyes.batch([request.text], [request.images]),
            softmax=self._softmax,
        )
        return scorer, writer

    @property
    def reads_ahead(self) -> bool:
        """Not while a batch is read: to pad is a state of the tokenizer."""
        return False

    @property
    def pins(self) -> dict[str, Any]:
        return {**super().pins, "processor": self._processor_digest}

    def _pair(self, request: Request) -> EncodedRequest:
        """A continuation begins where the tokens of both no longer are the context's."""
        if not request.images:
            return super()._pair(request)
        images, text = request.images, self._text(request)
        context = text.rstrip()
        both = text + request.continuation
        whole, alone = self._eyes.tokens(both, images), self._eyes.tokens(context, images)
        place = join_of(alone, whole)
        tokens, targets = tuple(whole[:-1]), tuple(whole[place:])
        if len(tokens) > self.encoder.max_length:
            raise ModelError(self._too_long(len(tokens), len(images), self.encoder.max_length))
        asked = {"kind": "loglikelihood", "tokens": list(tokens), "targets": list(targets)}
        return SeeingPair(
            key=digest_of({**asked, "images": digests_of(images)}),
            tokens=tokens,
            targets=targets,
            n_context_tokens=place,
            text=both,
            images=images,
        )

    def _generations(self, request: Request, seed: int) -> list[GenerationRequest]:
        plain = super()._generations(request, seed)
        if not request.images:
            return plain
        text = self._text(request)
        return [
            SeeingRequest(**_fields(generation), text=text, images=request.images)
            for generation in plain
        ]

    def _text(self, request: Request) -> str:
        """As the processor takes it. In compat a BOS that a chat template wrote may be doubled, as
        in lm-evaluation-harness."""
        text = self._eyes.text(request)
        bos = self.tokenizer.bos_token
        if self._mode == "strict" and bos and self._adds_bos:
            text = text.removeprefix(bos)
        return text

    @property
    def _adds_bos(self) -> bool:
        return list(self.tokenizer("")["input_ids"][:1]) == [self.tokenizer.bos_token_id]

    def _prompt(self, request: Request, plan: Plan) -> tuple[list[int], int]:
        """A prompt with images is never cut: what stands for an image would be."""
        if not request.images:
            return super()._prompt(request, plan)
        tokens = self._eyes.tokens(self._text(request), request.images)
        room = self._room_beside(plan)
        if len(tokens) > room:
            raise ModelError(self._too_long(len(tokens), len(request.images), room))
        return tokens, 0

    def _too_long(self, count: int, images: int, room: int) -> str:
        return (
            f"a prompt with {images} images has {count} tokens, and the model's length of "
            f"{self.encoder.max_length} leaves room for {room}: lower max_gen_toks, make images "
            "smaller (image_max_side), or leave the document out"
        )

    def _fed(self, request: Request, tokens: Sequence[int]) -> dict[str, Any]:
        seen = {"images": digests_of(request.images)} if request.images else {}
        return {**super()._fed(request, tokens), **seen}

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        """The processor's, which writes what stands for an image; raises as `Reader`'s."""
        return chat_template_of(
            self._eyes, name, dict(self._arguments.chat_template_args), self._mode
        )


def _fields(generation: GenerationRequest) -> dict[str, Any]:
    return {name: getattr(generation, name) for name in GenerationRequest.__dataclass_fields__}
