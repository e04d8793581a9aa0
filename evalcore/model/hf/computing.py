"""A causal language model of `transformers` at work: the half that computes.

It is given tokens and gives tokens and numbers; it has a tokenizer only to see stops in texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch

from evalcore.model.base import EncodedRequest, Mode, Response
from evalcore.model.faults import libraries_fault
from evalcore.model.forward.plain import dtype_of_logits
from evalcore.model.hf.first_pass import FirstPass
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.hf.whole_texts import scored
from evalcore.model.loglikelihood.ladder import PathName
from evalcore.model.loglikelihood.scoring import Scorer
from evalcore.model.writing.encoded import GenerationRequest
from evalcore.model.writing.plan import Writer

FLOAT32_BYTES = torch.float32.itemsize


class Computation:
    """Answers encoded requests with an initialised model."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        softmax: torch.dtype,
        batch_size: int | None,
        path: Literal["auto"] | PathName,
    ) -> None:
        """`softmax` is the precision of the log-softmax; the others as in `HuggingFaceLM`."""
        self.model = model
        self._first_pass: FirstPass | None = None
        self._scorer = Scorer(model, batch_size=batch_size, path=path, softmax=softmax)
        self._writer = Writer(model, tokenizer, batch_size=batch_size, path=path)

    @property
    def vocabulary(self) -> int:
        """How many tokens the model has."""
        return len(self.model.get_input_embeddings().weight)

    @property
    def generation_defaults(self) -> dict[str, Any]:
        """The model's own generation arguments. Raises ModelError for values that none can have."""
        return self._writer.defaults

    @property
    def first_forward(self) -> float | None:
        """When it was first run, by `time.monotonic`."""
        return self._first_pass.at if self._first_pass else None

    @property
    def execution(self) -> dict[str, Any]:
        kinds = {
            "loglikelihood": self._scorer.execution,
            "generate_until": self._writer.execution,
        }
        return {kind: how for kind, how in kinds.items() if how}

    @property
    def accelerators(self) -> list[str]:
        """UUIDs of the NVIDIA GPUs that hold it; an empty text for any other accelerator."""
        places = {parameter.device for parameter in self.model.parameters()}
        return [
            f"GPU-{torch.cuda.get_device_properties(place).uuid}"
            if place.type == "cuda" and torch.version.cuda
            else ""
            for place in sorted(places, key=str)
            if place.type != "cpu"
        ]

    def answer(self, requests: Sequence[EncodedRequest]) -> Iterator[list[tuple[int, Response]]]:
        """Raises ModelError for a model that sees what follows, or does not fit the memory."""
        writing = [(i, one) for i, one in enumerate(requests) if isinstance(one, GenerationRequest)]
        self._first_pass = self._first_pass or FirstPass(self.model)
        with libraries_fault("it fails when it is computed"), self._evaluating():
            yield from scored(requests, self._scorer.answers)
            yield from self._writer.answers(writing)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Dropout and the like are off meanwhile, and then on again where they were."""
        training = [module for module in self.model.modules() if module.training]
        self.model.eval()
        try:
            yield
        finally:
            for module in training:
                module.training = True


def softmax_of(model: Any, arguments: Arguments, mode: Mode) -> torch.dtype:
    """The precision of the log-softmax: float32 but in compat, where it is what is stated, and
    where nothing is, that of the model's logits."""
    stated = arguments.softmax_dtype
    if mode == "strict" or (stated is None and model.dtype.itemsize >= FLOAT32_BYTES):
        return torch.float32
    return getattr(torch, stated) if stated else dtype_of_logits(model)
