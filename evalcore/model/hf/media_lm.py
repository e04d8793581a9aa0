"""Models of `transformers` that read text with images, or with sounds: what both have in common.

Requests without either are read and written as of any other model; one with them is read by the
model's processor (`eyes.py`, `ears.py`), and again when it is computed, as nobody has room for all
pixels and samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from evalcore.model.base import Mode
from evalcore.model.hf.huggingface import HuggingFaceLM, ScoresAndSays
from evalcore.model.hf.media_reading import MediaReader, Sense
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.loglikelihood.ladder import PathName
from evalcore.model.loglikelihood.scoring import Scorer
from evalcore.model.loglikelihood.seeing import SeeingScorer
from evalcore.model.writing.plan import Writer
from evalcore.model.writing.seeing import SeeingWriter


class MediaLM(MediaReader, HuggingFaceLM):
    """A model with a processor; satisfies `evalcore.model.base.LM`."""

    capabilities = replace(
        HuggingFaceLM.capabilities, rolling=False, adapters=False, quantised=False, copies=False
    )

    def __init__(
        self,
        arguments: Arguments,
        processor: Any,
        sense: Sense,
        processor_digest: str,
        *,
        batch_size: int | None,
        device: str | None,
        mode: Mode,
        weights: bool,
    ) -> None:
        """Raises as `HuggingFaceLM`."""
        self._sense = sense
        self._processor_digest = processor_digest
        super().__init__(
            arguments,
            batch_size=batch_size,
            device=device,
            mode=mode,
            weights=weights,
            tokenizer=processor.tokenizer,
        )

    def _computing(
        self,
        tokenizer: Any,
        batch_size: int | None,
        path: Literal["auto"] | PathName,  # noqa: ARG002  # there is one way
    ) -> tuple[ScoresAndSays, Writer]:
        sense = self._sense
        writer = SeeingWriter(
            self._model,
            tokenizer,
            batch_size=batch_size,
            inputs=lambda requests: sense.batch(
                [request.text for request in requests], [request.media for request in requests]
            ),
        )
        # Packs are made of rows that are read from their tokens alone.
        texts = Scorer(self._model, batch_size=batch_size, path="plain", softmax=self._softmax)
        scorer = SeeingScorer(
            self._model,
            texts,
            inputs=lambda request: sense.batch([request.text], [request.media]),
            softmax=self._softmax,
        )
        return scorer, writer
