"""From text to token ids, by the rules that make two engines score the same thing.

Source: docs/engine.md, "From text to tokens" (the rules are those of lm-evaluation-harness 0.4.13,
whose users compare their numbers with ours).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.faults import libraries_fault
from evalcore.model.tokens.specials import AddedTokens, added_tokens
from evalcore.model.tokens.texts import Texts


class Encoder:
    """Encodes requests with one tokenizer for one model length; those that were `learnt` together
    have each distinct text tokenised once."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        max_length: int,
        add_bos_token: bool | None = None,
        prefix_token: int | None = None,
        truncation: bool = False,
        keeps_behind: bool = True,
    ) -> None:
        """`prefix_token`: another one than the tokenizer's BOS or EOS. `truncation`: whether
        prompts of generations are first cut to the tokenizer's own limit, on its own side.
        `keeps_behind`: whether special tokens that the tokenizer puts behind a text stay there."""
        self.tokenizer = tokenizer
        self.max_length = max_length
        self._add_bos_token = add_bos_token
        self._prefix_token = prefix_token
        self._truncation = truncation
        self._keeps_behind = keeps_behind
        self._texts = Texts(tokenizer)
        self._keys = RequestKeys()
        self._known: dict[bool | None, dict[str, list[int]]] = {}
        self._fed: tuple[int, ...] = ()

    @cached_property
    def prefix_token(self) -> int:
        """Stands for an empty context: the one that was asked for, else BOS, else EOS.

        Raises ModelError where there is none.
        """
        if self._prefix_token is not None:
            return self._prefix_token
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

    @cached_property
    def added(self) -> AddedTokens:
        """What the tokenizer adds to every text, by the policy on BOS."""
        with libraries_fault("its tokenizer fails"):
            return added_tokens(self.tokenizer, self._add_bos_token)

    @property
    def specials_behind(self) -> tuple[str, ...]:
        """The special tokens that the tokenizer puts behind every text, or within it."""
        tokens = self.added.behind or self.added.within
        return tuple(str(self.tokenizer.convert_ids_to_tokens(token)) for token in tokens)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what the tokenizer does: its whole definition, or its vocabulary."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            return digest_of(sorted(self.tokenizer.get_vocab().items()))
        definition = json.loads(backend.to_str())
        # State of the last call, not of the tokenizer.
        definition["truncation"] = definition["padding"] = None
        return digest_of(definition)

    @cached_property
    def eos_text(self) -> str | None:
        """How the tokenizer writes the end of a text; None where it has no token for it."""
        token = self.tokenizer.eos_token_id
        return None if token is None else str(self.tokenizer.decode([token]))

    @contextmanager
    def learnt(self, requests: Sequence[Request]) -> Iterator[None]:
        """Meanwhile every distinct text of the requests is known, tokenised in a few calls."""
        wanted: dict[bool | None, set[str]] = defaultdict(set)
        for request in requests:
            if request.media:
                continue  # which whoever sees or hears reads together with them
            for special, text in self._texts_of(request):
                wanted[False if self._drops_behind else special].add(text)
        try:
            for special, texts in wanted.items():
                self._known[special] = self._texts.tokens(texts, special)
            yield
        finally:
            self._known = {}  # the next requests have other texts

    def _texts_of(self, request: Request) -> Iterator[tuple[bool | None, str]]:
        """The texts that are tokenised for it, each with whether special tokens are added."""
        if request.kind == "loglikelihood":
            yield from self._texts_of_pair(request)
        elif request.kind == "loglikelihood_rolling":
            yield self._special(request.continuation, self._add_bos_token), request.continuation
        else:
            yield self._special_of_prompt(request.context), request.context

    def _texts_of_pair(self, request: Request) -> Iterator[tuple[bool | None, str]]:
        context, continuation = without_trailing_space(request)
        if context is None:
            yield self._special(continuation, False), continuation
            return
        for text in (context, context + continuation):
            yield self._special(text, self._add_bos_token), text

    @cached_property
    def _drops_behind(self) -> bool:
        """Raises ModelError for special tokens within a text, which nobody can leave off."""
        if self._keeps_behind:
            return False
        if self.added.within:
            raise ModelError(
                f"its tokenizer puts special tokens within a text ({self.specials_behind}), so no "
                "answer follows its question: save it without them"
            )
        return bool(self.added.behind)

    def _ids(self, text: str, special: bool | None) -> list[int]:
        if special is not False and self._drops_behind:
            return [*self.added.before, *self._ids(text, False)]
        known = self._known.get(special, {})
        return known[text] if text in known else self._texts.tokens([text], special)[text]

    def _special(self, text: str, asked: bool | None) -> bool | None:
        """Whether the tokenizer may add its special tokens.

        A text that already starts with BOS (a chat template wrote it) must not get a second one.
        """
        return False if self._prefix and text.startswith(self._prefix) else asked

    @cached_property
    def _prefix(self) -> str:
        return str(self.tokenizer.decode([self.prefix_token]))

    def _special_of_prompt(self, text: str) -> bool | None:
        bos = self.tokenizer.bos_token
        return False if bos is not None and text.startswith(bos) else self._add_bos_token

    def text(self, text: str) -> list[int]:
        """The tokens of a whole text, with what the tokenizer adds."""
        return self._ids(text, self._special(text, self._add_bos_token))

    def without_bos(self, tokens: list[int]) -> list[int]:
        """The tokens of a text but for a BOS at its beginning, which is not of the text."""
        bos = self.tokenizer.bos_token_id
        return tokens[1:] if bos is not None and tokens[:1] == [bos] else tokens

    def prompt(self, text: str, room: int) -> tuple[list[int], int]:
        """The tokens of a prompt, cut from the left to `room`, and how many were cut.

        A prompt that is written with BOS gets none; an empty one is the prefix token.
        """
        special = self._special_of_prompt(text)
        whole = self._ids(text, special) or [self.prefix_token]
        kept = whole
        if self._truncation:
            options = {} if special is None else {"add_special_tokens": special}
            kept = self.tokenizer(text, truncation=True, **options)["input_ids"] or whole
            if special is not False and self._drops_behind:
                kept = kept[: -len(self.added.behind)] or whole
        kept = kept[-room:]
        return kept, len(whole) - len(kept)

    def pair(self, request: Request) -> EncodedRequest:
        """A context with a continuation.

        Raises ModelError when a continuation alone is longer than the model.
        """
        context, continuation = without_trailing_space(request)
        context_ids, targets = self._split(context, continuation)
        self._check_fits(targets, continuation)
        whole = [*context_ids, *targets]
        kept = whole[-(self.max_length + 1) :]
        fed = tuple(kept[:-1])
        if fed == self._fed:
            fed = self._fed  # the four letters of a question are read off tokens that are held once
        self._fed = fed
        return EncodedRequest(
            key=self._keys.key_of(fed, targets),
            tokens=fed,
            targets=tuple(targets),
            n_context_tokens=len(kept) - len(targets),
            n_truncated=len(whole) - len(kept),
        )

    def _check_fits(self, targets: Sequence[int], continuation: str) -> None:
        if len(targets) > self.max_length:
            raise ModelError(
                f"a continuation of {len(targets)} tokens does not fit the model's length of "
                f"{self.max_length}: {continuation[:80]!r}"
            )

    def _split(self, context: str | None, continuation: str) -> tuple[list[int], list[int]]:
        """Context and continuation tokens.

        Context and continuation are tokenised as one text, and what comes after as many tokens as
        the context has alone is the continuation. Where a token spans the join so that nothing is
        left, the spanning token is the continuation: the first that the context alone lacks.
        """
        if context is None:
            return self._without_context(continuation)
        whole, alone = self.text(context + continuation), self.text(context)
        place = join_of(alone, whole)
        kept = alone if len(alone) < len(whole) else whole[:place]
        return kept or [self.prefix_token], whole[place:]

    def _without_context(self, continuation: str) -> tuple[list[int], list[int]]:
        """The prefix token and the continuation, which may bring that token itself."""
        targets = self._ids(continuation, self._special(continuation, False))
        if not targets:
            raise ModelError(f"the tokenizer makes no token of {continuation!r}")
        if targets[0] == self.prefix_token and len(targets) > 1:
            return targets[:1], targets[1:]
        return [self.prefix_token], targets


def join_of(alone: Sequence[int], whole: Sequence[int]) -> int:
    """Where the continuation begins in the tokens of both, by those of the context alone."""
    if len(alone) < len(whole):
        return len(alone)
    pairs = enumerate(zip(alone, whole, strict=False))
    return next((place for place, pair in pairs if len(set(pair)) > 1), len(whole) - 1)


def without_trailing_space(request: Request) -> tuple[str | None, str]:
    """Whitespace at the end of the context belongs to the continuation; None for no context."""
    if not request.context:
        return None, request.continuation
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


class _Numbers(dict[int, str]):
    """Each number as text, written when it is first asked for."""

    def __missing__(self, number: int) -> str:
        self[number] = text = str(number)
        return text

    def text(self, numbers: Sequence[int]) -> str:
        return ",".join(map(self.__getitem__, numbers))


class RequestKeys:
    """Makes the keys of loglikelihood requests, many at once.

    A key is the SHA-256 of a request's canonical JSON (`EncodedRequest.key_of`). Writing thousands
    of token numbers as text costs more than tokenising them did, so each number is written once (of
    a vocabulary at most), and so is a context that several continuations follow.
    """

    def __init__(self) -> None:
        self._numbers = _Numbers()
        self._context: tuple[Sequence[int], str] = ((), "")

    def key_of(self, tokens: Sequence[int], targets: Sequence[int]) -> str:
        """What `EncodedRequest.key_of` gives. The context is what is fed before all targets."""
        text = self._numbers.text
        n_context = len(tokens) + 1 - len(targets)
        context, rest = tokens[:n_context], tokens[n_context:]
        if context != self._context[0]:
            self._context = (context, text(context))
        fed = ",".join(part for part in (self._context[1], text(rest)) if part)
        request = f'{{"kind":"loglikelihood","targets":[{text(targets)}],"tokens":[{fed}]}}'
        return hashlib.sha256(request.encode()).hexdigest()
