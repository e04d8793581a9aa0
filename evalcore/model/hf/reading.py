"""What a causal language model is asked, read by its tokenizer: the half that needs no weights.

Every backend that feeds tokens to a model of the Hub reads by this, whatever computes it, so that
two of them are asked the same under the same keys. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import ChatTemplate, EncodedRequest, Mode, Request
from evalcore.model.faults import libraries_fault
from evalcore.model.hf.conversation import chat_template_of
from evalcore.model.hf.description import load_configuration, max_length_of
from evalcore.model.hf.snapshot import Arguments, download
from evalcore.model.hf.tokenizer_rules import load_with_notes
from evalcore.model.tokens.encoder import Encoder
from evalcore.model.tokens.spelling import Spelling
from evalcore.model.tokens.windows import rolling_windows
from evalcore.model.writing.defaults import stated_in
from evalcore.model.writing.generation import (
    GenerationRequest,
    Plan,
    RollingRequest,
    ThinkingBudget,
    plan_of,
)


class Reader:
    """Requests to tokens, tokens to text and conversations to prompts."""

    def __init__(
        self,
        arguments: Arguments,
        tokenizer: Any,
        *,
        mode: Mode,
        max_length: int,
        vocabulary: Callable[[], int],
        generation_arguments: Collection[str],
        generation_defaults: Callable[[], dict[str, Any]] = dict,
        tokenizer_notes: Sequence[str] = (),
    ) -> None:
        """`max_length`: what the model itself says; the arguments may state another one.

        `vocabulary`: how many tokens the model has; `generation_arguments`: what whoever computes
        it can be told besides the stops and the number of tokens; `generation_defaults`: the
        model's own of these. The two functions are asked when a request needs them.
        `tokenizer_notes`: what is to be said of the tokenizer.
        """
        self.tokenizer = tokenizer
        self._arguments = arguments
        self._mode = mode
        self.encoder = self._encoder(
            tokenizer,
            max_length=arguments.max_length or max_length,
            add_bos_token=arguments.add_bos_token,
            prefix_token=arguments.prefix_token_id,
            truncation=arguments.truncation,
            keeps_behind=mode == "compat",
        )
        self._vocabulary = vocabulary
        self._generation_arguments = generation_arguments
        self._generation_defaults = generation_defaults
        self._spelling = Spelling(tokenizer)
        self._tokenizer_notes = tuple(tokenizer_notes)

    def _encoder(self, tokenizer: Any, **how: Any) -> Encoder:
        return Encoder(tokenizer, **how)

    @property
    def reads_ahead(self) -> bool:
        """Not where it tells its tokenizer to cut, which is a state of the tokenizer."""
        return not self._arguments.truncation

    @property
    def pins(self) -> dict[str, Any]:
        """The fields of `ModelInfo` that say how it reads."""
        return {
            "max_length": self.encoder.max_length,
            "tokenizer_digest": self.encoder.digest,
            "bos_policy": self.encoder.bos_policy,
            "prefix_token": self.encoder.prefix_token,
            "special_tokens": self.encoder.special_tokens,
            "specials_behind": self.encoder.specials_behind,
            "generation": self._own_generation,
            "tokenizer_notes": self._tokenizer_notes,
        }

    @cached_property
    def _own_generation(self) -> dict[str, Any]:
        """What the model's repository says of how it writes; empty where it cannot be asked to."""
        try:
            return stated_in(self._generation_defaults(), self._generation_arguments)
        except ModelError:
            return {}

    def encode(self, requests: Sequence[Request], *, seed: int = 1234) -> list[EncodedRequest]:
        """Raises ModelError also for a tokenizer whose tokens the model does not have, and
        TaskError for generation arguments that have no meaning."""
        encoded: list[EncodedRequest] = []
        with libraries_fault("its tokenizer fails"), self.encoder.learnt(requests):
            for request in requests:
                if request.kind == "loglikelihood":
                    encoded += [self._pair(request)] * request.repeats
                elif request.kind == "loglikelihood_rolling":
                    encoded += [self._rolling(request.continuation)] * request.repeats
                else:
                    encoded += self._generations(request, seed)
        scored = any(request.kind == "loglikelihood" for request in requests)
        if scored and self._arguments.thinks:
            raise ModelError(
                "with enable_thinking a model thinks before it answers, so it cannot be asked how "
                "likely an answer is: leave it out, or choose tasks that generate"
            )
        self._check_tokens(encoded)
        return encoded

    def _pair(self, request: Request) -> EncodedRequest:
        return self.encoder.pair(request)

    def _rolling(self, text: str) -> RollingRequest:
        """Windows over the text. compat scores a BOS that the tokenizer adds; strict never does."""
        tokens = self.encoder.text(text)
        if self._mode == "strict":
            tokens = self.encoder.without_bos(tokens)
        try:
            windows = rolling_windows(
                tokens,
                prefix=self.encoder.prefix_token,
                length=self.encoder.max_length,
                stride=self._arguments.rolling_stride,
            )
        except ValueError as problem:
            raise ModelError(f"--model_args: rolling_stride: {problem}") from None
        encoded = [EncodedRequest.scoring(*window) for window in windows]
        shown = [[list(request.tokens), list(request.targets)] for request in encoded]
        return RollingRequest(
            key=digest_of({"kind": "loglikelihood_rolling", "windows": shown}),
            tokens=tuple(tokens),
            windows=tuple(encoded),
            n_context_tokens=sum(request.n_context_tokens for request in encoded),
        )

    def _generations(self, request: Request, seed: int) -> list[GenerationRequest]:
        plan = plan_of(
            request.generation or {},
            eos=self.encoder.eos_text,
            think_end=self._think_end,
            known=self._generation_arguments,
            mode=self._mode,
            thinking_budget=self._thinking_budget,
            may_think=self._arguments.thinks is not False,
        )
        tokens, cut = self._prompt(request, plan)
        asked = {
            "kind": "generate_until",
            **self._fed(request, tokens),
            "plan": plan.as_json(),
            "model_defaults": self._generation_defaults(),
        }
        # To an answer that is not sampled seed and repeat do not matter.
        drawn = [{"seed": seed, "repeat": repeat} for repeat in range(request.repeats)]
        return [
            GenerationRequest(
                key=digest_of({**asked, **request} if plan.sampled else asked),
                tokens=tuple(tokens),
                plan=plan,
                n_context_tokens=len(tokens),
                n_truncated=cut,
            )
            for request in drawn
        ]

    def _prompt(self, request: Request, plan: Plan) -> tuple[list[int], int]:
        """What is fed before the answer, and how many tokens of the prompt were cut for it."""
        tokens, cut = self.encoder.prompt(request.context, self._room_beside(plan))
        if plan.max_length is not None and plan.max_length <= len(tokens):
            raise ModelError(
                f"max_length {plan.max_length} leaves no room after a prompt of {len(tokens)} "
                "tokens: state max_gen_toks instead, which counts new tokens only"
            )
        return tokens, cut

    def _room(self, plan: Plan) -> int:
        """Tokens that a prompt may have."""
        return self.encoder.max_length - plan.most_tokens

    def _room_beside(self, plan: Plan) -> int:
        """The same. Raises ModelError where there is none."""
        room = self._room(plan)
        if room < 1:
            remedy = "max_gen_toks"
            if plan.thinking_budget is not None:
                remedy = f"thinking_budget ({plan.thinking_budget.tokens}) or max_gen_toks"
            raise ModelError(
                f"its length of {self.encoder.max_length} tokens leaves no room for a prompt and "
                f"{plan.most_tokens} new tokens: lower {remedy}"
            )
        return room

    def _fed(self, request: Request, tokens: Sequence[int]) -> dict[str, Any]:  # noqa: ARG002
        """What is fed before the answer, as the key of a generation has it."""
        return {"tokens": list(tokens)}

    @cached_property
    def _think_end(self) -> str | int | None:
        """Text or token at which the thinking ends.

        A special token is not part of the decoded text, where compat looks for it in vain (unless
        there is a budget, by which it is put).
        """
        stated = self._arguments.think_end_token
        searches = self._mode == "compat" and self._arguments.thinking_budget is None
        if isinstance(stated, str) and not searches:
            token = self.tokenizer.convert_tokens_to_ids(stated)
            if token in self.tokenizer.all_special_ids:
                return int(token)
        return stated

    @cached_property
    def _thinking_budget(self) -> ThinkingBudget | None:
        """Raises ModelError for an end of the thinking that its tokenizer cannot write."""
        tokens, end = self._arguments.thinking_budget, self._think_end
        if tokens is None or end is None:
            return None
        if isinstance(end, int):
            return ThinkingBudget(tokens, (end,))
        with libraries_fault("its tokenizer fails"):
            written = self.tokenizer.encode(end, add_special_tokens=False)
            if end not in self.tokenizer.decode(written):
                raise ModelError(
                    f"--model_args: think_end_token: its tokenizer cannot write {end!r}, which a "
                    "thinking_budget puts behind the thoughts: state the token by its number"
                )
        return ThinkingBudget(tokens, tuple(written))

    def _check_tokens(self, encoded: Sequence[EncodedRequest]) -> None:
        parts = (part for request in encoded for part in (request.tokens, request.targets))
        highest = max((max(part) for part in parts if part), default=0)
        known = self._vocabulary()
        if highest >= known:
            raise ModelError(
                f"its tokenizer makes the token {highest}, and the model has {known} tokens: "
                "publish the tokenizer that the model was trained with"
            )

    def token_texts(self, tokens: Sequence[int]) -> list[str | None]:
        with libraries_fault("its tokenizer fails"):
            return [self._spelling.of(token) for token in tokens]

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        """Raises ModelError where the tokenizer has no such template, naming those it has."""
        arguments = dict(self._arguments.chat_template_args)
        if self._arguments.enable_thinking is not None:
            arguments["enable_thinking"] = self._arguments.enable_thinking
        return chat_template_of(self.tokenizer, name, arguments, self._mode)


def reader_of(
    arguments: Arguments,
    *,
    mode: Mode = "compat",
    generation_arguments: Collection[str] = (),
    generation_defaults: Callable[[], dict[str, Any]] = dict,
) -> Reader:
    """The reader of a model that another program computes: its weights are not downloaded.

    Raises ModelError for a repository that cannot be read as it is, InfraError where the Hub cannot
    be reached.
    """
    files = download(arguments, weights=False)
    tokenizer, notes = load_with_notes(arguments, files.tokenizer)
    config = load_configuration(arguments, files.model)
    if config.is_encoder_decoder:
        raise ModelError(
            f"{arguments.pretrained} is an encoder-decoder model, which --model hf alone computes"
        )
    return Reader(
        arguments,
        tokenizer,
        mode=mode,
        max_length=max_length_of(config, tokenizer),
        vocabulary=lambda: int(config.get_text_config().vocab_size),
        generation_arguments=generation_arguments,
        generation_defaults=generation_defaults,
        tokenizer_notes=notes,
    )
