"""Models of `transformers` with an encoder and a decoder (T5, BART): the `hf` backend for them.

What is read is the source, what is scored or written the target; see `tokens/sources.py`. They say
nothing of whole texts: the encoder would be given no text, and the decoder one that nobody asked
for, of which a second window would know nothing of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import torch
from transformers import AutoModelForSeq2SeqLM

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.capabilities import Capabilities
from evalcore.model.hf.huggingface import HuggingFaceLM, PlainReference, ScoresAndSays, evaluating
from evalcore.model.loglikelihood.ladder import PathName
from evalcore.model.loglikelihood.sources import SourceScorer, dtype_of_decoder
from evalcore.model.tokens.encoder import Encoder
from evalcore.model.tokens.sources import SourceEncoder
from evalcore.model.writing.generation import Plan
from evalcore.model.writing.plan import Writer
from evalcore.model.writing.sources import SourceWriter

AT_MOST = replace(
    HuggingFaceLM.capabilities,
    backend="hf with an encoder-decoder model",
    rolling=False,
    encoder=True,
)
"""What such a model can be asked, before it is known with what its decoder begins."""


class Seq2SeqLM(HuggingFaceLM):
    """The `hf` backend for models with an encoder; satisfies `evalcore.model.base.LM`."""

    auto = AutoModelForSeq2SeqLM

    @cached_property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Of a model whose decoder begins with a token of the answer (mBART: its language) nobody
        can say how likely the answer is without having told it."""
        return replace(AT_MOST, loglikelihood=self._start is not None)

    @cached_property
    def _start(self) -> int | None:
        """The token with which the decoder begins where an answer is scored; None where that
        depends on the answer, or is not said."""
        config = self._model.config.get_text_config(decoder=True)
        shift = getattr(self._model, "prepare_decoder_input_ids_from_labels", None)
        if shift is None:
            token = getattr(config, "decoder_start_token_id", None)
            return None if token is None else int(token)
        try:
            starts = {
                int(shift(labels=torch.tensor([labels]))[0, 0]) for labels in ([5, 6], [7, 8])
            }
        except (AttributeError, ValueError, TypeError):  # as they say that they were not told
            return None
        return starts.pop() if len(starts) == 1 else None

    def _start_of(self, plan: Plan) -> int:
        """The token with which the decoder begins where an answer is written."""
        config = self._model.generation_config
        for token in (
            dict(plan.options).get("decoder_start_token_id"),
            config.decoder_start_token_id,
            config.bos_token_id,
        ):
            if isinstance(token, int):
                return token
        raise ModelError(
            "nothing says with which token its decoder begins: state decoder_start_token_id in "
            "generation_config.json"
        )

    def _encoder(self, tokenizer: Any, **how: Any) -> Encoder:
        how["keeps_behind"] = True  # an encoder's text ends as it was trained
        return SourceEncoder(
            tokenizer, start=self._start, own_specials_in_prompts=self._mode == "compat", **how
        )

    def _prompt(self, request: Request, plan: Plan) -> tuple[list[int], int]:
        if plan.max_length is not None and plan.max_length < 2:
            raise ModelError(
                f"max_length {plan.max_length} leaves no room for an answer: state max_gen_toks "
                "instead, which counts new tokens only"
            )
        tokens, cut = self.encoder.prompt(request.context, self.encoder.max_length)
        return [*tokens, self._start_of(plan)], cut

    def _fed(self, request: Request, tokens: Sequence[int]) -> dict[str, Any]:  # noqa: ARG002
        return {"encoder": list(tokens[:-1]), "decoder": list(tokens[-1:])}

    def _dtype_of_logits(self) -> torch.dtype:
        return dtype_of_decoder(self._model)

    def _computing(
        self,
        tokenizer: Any,
        batch_size: int | None,
        path: Literal["auto"] | PathName,  # noqa: ARG002  # there is one way
    ) -> tuple[ScoresAndSays, Writer]:
        model, kept = self._model, self._checks
        scorer = SourceScorer(model, batch_size=batch_size, softmax=self._softmax, kept=kept)
        return scorer, SourceWriter(model, tokenizer, batch_size=batch_size, kept=kept)

    @property
    def _first_read(self) -> Any:
        return self._model.get_encoder()

    @property
    def reference(self) -> SourceReference:
        """The same model in the plainest way, for `evalcore.model.conformance`."""
        return SourceReference(self._model, self.tokenizer, self._arguments.add_bos_token)


class SourceReference(PlainReference):
    """The same of a model whose encoder reads the context: `tokens` are its source, with what the
    tokenizer adds."""

    @torch.inference_mode()
    def teacher_forced(
        self, tokens: Sequence[int], targets: Sequence[int]
    ) -> tuple[list[float], bool]:
        """Log-probability of each target after what is fed, in float64, and whether each is the
        likeliest token."""
        n_written = len(targets)
        device = self._model.device
        source = torch.tensor([list(tokens[:-n_written])], device=device)
        written = torch.tensor([list(tokens[-n_written:])], device=device)
        with evaluating(self._model):
            output = self._model(input_ids=source, decoder_input_ids=written, use_cache=False)
        logits = output.logits[0].double()
        chosen = torch.tensor(list(targets), device=logits.device)
        logprobs = logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]
        return logprobs.tolist(), bool((logits.argmax(-1) == chosen).all())
