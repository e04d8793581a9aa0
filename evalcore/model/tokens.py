"""From text to token ids, by the rules that make two engines score the same thing.

Source: docs/engine.md, "From text to tokens" (the rules are those of lm-evaluation-harness 0.4.13,
whose users compare their numbers with ours).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import EncodedRequest, Request


class Encoder:
    """Encodes requests with one tokenizer for one model length; each distinct text once."""

    def __init__(self, tokenizer: Any, *, max_length: int, add_bos_token: bool | None) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self._add_bos_token = add_bos_token
        self._known: dict[str, list[int]] = {}
        self._known_bare: dict[str, list[int]] = {}
        self.digest = self._digest()
        """SHA-256 of what the tokenizer does: its whole definition, or its vocabulary."""

    @cached_property
    def prefix_token(self) -> int:
        """Stands for an empty context: BOS, else EOS. Raises ModelError where there is neither."""
        for name in ("bos_token_id", "eos_token_id"):
            if (token := getattr(self.tokenizer, name)) is not None:
                return int(token)
        raise ModelError("the tokenizer has neither a BOS nor an EOS token to start a text with")

    @property
    def special_tokens(self) -> dict[str, tuple[str, int] | None]:
        """Text and id of bos, eos and pad; None for one that the tokenizer lacks."""
        found: dict[str, tuple[str, int] | None] = {}
        for name in ("bos", "eos", "pad"):
            text = getattr(self.tokenizer, f"{name}_token")
            number = getattr(self.tokenizer, f"{name}_token_id")
            found[name] = None if number is None else (str(text), int(number))
        return found

    @property
    def bos_policy(self) -> str:
        if self._add_bos_token is None:
            return "tokenizer"
        return "always" if self._add_bos_token else "never"

    def _digest(self) -> str:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            return digest_of(sorted(self.tokenizer.get_vocab().items()))
        definition = json.loads(backend.to_str())
        # State of the last call, not of the tokenizer.
        definition["truncation"] = definition["padding"] = None
        return digest_of(definition)

    def encode(self, requests: Sequence[Request]) -> list[EncodedRequest]:
        """Raises ModelError when a continuation alone is longer than the model."""
        pairs = [_without_trailing_space(request) for request in requests]
        joined = {context + continuation for context, continuation in pairs if context is not None}
        alone = {context for context, _ in pairs if context is not None}
        self._learn(joined | alone, self._known, self._add_bos_token)
        bare = {continuation for context, continuation in pairs if context is None}
        self._learn(bare, self._known_bare, False)
        return [self._encode_pair(*pair) for pair in pairs]

    def _encode_pair(self, context: str | None, continuation: str) -> EncodedRequest:
        context_ids, targets = self._split(context, continuation)
        if len(targets) > self.max_length:
            raise ModelError(
                f"a continuation of {len(targets)} tokens does not fit the model's length of "
                f"{self.max_length}: {continuation[:80]!r}"
            )
        whole = [*context_ids, *targets]
        kept = whole[-(self.max_length + 1) :]
        tokens = tuple(kept[:-1])
        return EncodedRequest(
            key=EncodedRequest.key_of(tokens, targets),
            tokens=tokens,
            targets=tuple(targets),
            n_context_tokens=len(kept) - len(targets),
            n_truncated=len(whole) - len(kept),
        )

    def _split(self, context: str | None, continuation: str) -> tuple[list[int], list[int]]:
        """Context and continuation tokens.

        Context and continuation are tokenised as one text, and what comes after as many tokens as
        the context has alone is the continuation. Where a token spans the join so that nothing is
        left, the spanning token is the continuation: the first that the context alone lacks.
        """
        if context is None:
            targets = self._known_bare[continuation]
            if not targets:
                raise ModelError(f"the tokenizer makes no token of {continuation!r}")
            if targets[0] == self.prefix_token and len(targets) > 1:
                return targets[:1], targets[1:]
            return [self.prefix_token], targets
        whole, alone = self._known[context + continuation], self._known[context]
        if len(alone) < len(whole):
            return alone or [self.prefix_token], whole[len(alone) :]
        shared = next(
            (
                place
                for place, pair in enumerate(zip(alone, whole, strict=False))
                if len(set(pair)) > 1
            ),
            len(whole) - 1,
        )
        return whole[:shared] or [self.prefix_token], whole[shared:]

    def _learn(self, texts: set[str], known: dict[str, list[int]], special: bool | None) -> None:
        """Tokenise the texts not seen yet, in one call for each choice of special tokens."""
        new = sorted(text for text in texts if text not in known)
        prefix = self.tokenizer.decode([self.prefix_token])
        marked = [text for text in new if prefix and text.startswith(prefix)]
        plain = [text for text in new if not (prefix and text.startswith(prefix))]
        # A text that already starts with BOS (a chat template wrote it) must not get a second one.
        for group, add in ((marked, False), (plain, special)):
            if group:
                options = {} if add is None else {"add_special_tokens": add}
                ids = self.tokenizer(group, return_attention_mask=False, **options)["input_ids"]
                known.update(zip(group, ids, strict=True))


def _without_trailing_space(request: Request) -> tuple[str | None, str]:
    """Whitespace at the end of the context belongs to the continuation; None for no context."""
    if not request.context:
        return None, request.continuation
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation
