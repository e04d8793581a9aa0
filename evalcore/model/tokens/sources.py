"""From text to token ids for models with an encoder: the source is read, the answer is written.

Source of the rules: lm-evaluation-harness 0.4.13 (docs/engine.md, "Models with an encoder").
Context and continuation are tokenised apart: the context with the special tokens that the tokenizer
adds (T5: EOS at its end), the continuation without any, and each may be as long as the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.tokens.encoder import Encoder, without_trailing_space


class SourceEncoder(Encoder):
    """Encodes requests as the source, the token with which the decoder begins, and the targets but
    for the last: the last `len(targets)` tokens are the decoder's, those before the encoder's."""

    def __init__(
        self, tokenizer: Any, *, start: int | None, own_specials_in_prompts: bool, **how: Any
    ) -> None:
        """`start`: with which the decoder begins where an answer is scored, if that can be said.
        `own_specials_in_prompts`: a prompt to write after gets what the tokenizer adds by itself,
        whatever `add_bos_token` says, as lm-evaluation-harness has it."""
        super().__init__(tokenizer, **how)
        self._start = start
        self._own_specials_in_prompts = own_specials_in_prompts

    @property
    def specials_behind(self) -> tuple[str, ...]:
        """None that matters: a decoder begins with a token of its own."""
        return ()

    def pair(self, request: Request) -> EncodedRequest:
        """Raises ModelError for a continuation that is longer than the model, or of no token."""
        if self._start is None:
            raise ModelError("nothing says with which token its decoder begins an answer")
        context, continuation = without_trailing_space(request)
        if context is None:
            source, targets = self._without_context(continuation)
        else:
            source = self.text(context) or [self.prefix_token]
            targets = self._ids(continuation, False)
        if not targets:
            raise ModelError(f"the tokenizer makes no token of {continuation!r}")
        self._check_fits(targets, continuation)
        kept = source[-self.max_length :]
        written = [self._start, *targets[:-1]]
        return EncodedRequest(
            key=digest_of(
                {
                    "kind": "loglikelihood",
                    "encoder": kept,
                    "decoder": written,
                    "targets": list(targets),
                }
            ),
            tokens=(*kept, *written),
            targets=tuple(targets),
            n_context_tokens=len(kept) + 1,
            n_truncated=len(source) - len(kept),
        )

    def _texts_of_pair(self, request: Request) -> Iterator[tuple[bool | None, str]]:
        context, continuation = without_trailing_space(request)
        if context is not None:
            yield self._special(context, self._add_bos_token), context
        yield False, continuation

    def _special_of_prompt(self, text: str) -> bool | None:
        return None if self._own_specials_in_prompts else super()._special_of_prompt(text)
