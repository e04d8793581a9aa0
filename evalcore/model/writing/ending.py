"""What ends a text that a model writes, and what of it is the answer.

Source of the rules: lm-evaluation-harness 0.4.13, whose users compare their texts with ours: a stop
is looked for in the text of the last tokens, as many as it has itself and `LOOKBACK` more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from evalcore.model.base import Response
from evalcore.model.writing.generation import GenerationRequest, Plan, answer_within

LOOKBACK = 2
"""Tokens looked at beyond those of a stop: a text may be cut into tokens in more than one way."""


class StopRule:
    """Whether a stop of the plan is in what a row ends with; decodes no more than that."""

    def __init__(self, tokenizer: Any, plan: Plan) -> None:
        self._tokenizer = tokenizer
        sizes = [len(tokenizer.encode(stop, add_special_tokens=False)) for stop in plan.until]
        self._stops: dict[int, list[str]] = {}
        for stop, size in zip(plan.until, sizes, strict=True):
            self._stops.setdefault(size + LOOKBACK, []).append(stop)
        # compat looks for stops in the thinking, too.
        self.thinks_until = plan.think_end if plan.mode == "strict" else None

    def stops_now(self, tokens: Sequence[int]) -> bool:
        """Whether a text ends with the last of its `tokens`: no token of the prompt is among them.

        What the row is still thinking is not searched, see `has_thought`.
        """
        return any(
            stop in text
            for size, stops in self._stops.items()
            for text in (self._tokenizer.decode(tokens[-size:]),)
            for stop in stops
        )

    def has_thought(self, tokens: Sequence[int]) -> bool:
        """Whether the thinking ends within the tokens; true where nothing says how it ends."""
        if self.thinks_until is None:
            return True
        if isinstance(self.thinks_until, int):
            return self.thinks_until in tokens
        return str(self.thinks_until) in self._tokenizer.decode(tokens)

    def stops_thinking_now(self, tokens: Sequence[int]) -> bool:
        """Whether the thinking ends with the last of the tokens; decodes no more than that."""
        if not isinstance(self.thinks_until, str):
            return self.has_thought(tokens[-1:])
        # A token is a byte at least.
        return self.has_thought(tokens[-len(self.thinks_until.encode()) - LOOKBACK :])


class Text:
    """A text while it is written: its tokens, and whether it is at its end."""

    __slots__ = ("_ends", "_has_thought", "_most", "_rule", "stopped_after", "tokens")

    def __init__(self, rule: StopRule, ends: frozenset[int], most: int) -> None:
        """`most`: tokens after which it ends in any case."""
        self.tokens: list[int] = []
        self.stopped_after: int | None = None
        self._rule = rule
        self._ends = ends
        self._most = most
        self._has_thought = rule.has_thought(())

    @property
    def room(self) -> int:
        """Tokens that it can still get."""
        return self._most - len(self.tokens)

    def take(self, token: int) -> bool:
        """Whether the text ends with this token."""
        self.tokens.append(token)
        if token in self._ends:
            return True
        if not self._has_thought:
            self._has_thought = self._rule.stops_thinking_now(self.tokens)
        if self._has_thought and self._rule.stops_now(self.tokens):
            self.stopped_after = len(self.tokens)
        return self.stopped_after is not None or self.room <= 0


def most_new_tokens(plan: Plan, prompt: int, model: Any) -> int:
    """How many tokens may be generated after a prompt of so many.

    In compat a number of new tokens in the model's own configuration beats the task's.
    """
    own = model.generation_config.max_new_tokens
    if plan.mode == "compat" and own is not None:
        return int(own)
    total = plan.max_length or prompt + plan.max_new_tokens
    return max(1, total - prompt)


def ends_of(plan: Plan, model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a text: the tokenizer's EOS, the model's and the task's own."""
    stated = dict(plan.options).get("eos_token_id", model.generation_config.eos_token_id)
    several = stated if isinstance(stated, list | tuple) else [stated]
    return frozenset(
        int(token) for token in (*several, tokenizer.eos_token_id) if token is not None
    )


def response_of(
    request: GenerationRequest,
    tokens: Sequence[int],
    *,
    stopped_after: int | None,
    ends: frozenset[int],
    tokenizer: Any,
    path: Literal["packed", "plain"],
    stops_unseen: bool = False,
) -> Response:
    """The response to a request for which `tokens` were generated.

    `stopped_after`: how many there were when a stop came, if one did. `stops_unseen`: nobody
    looked for stops after each token (beams), so that they are looked for in the text.
    """
    plan = request.plan
    eos = next((place for place, token in enumerate(tokens) if token in ends), None)
    kept = list(
        tokens[: min(eos + 1 if eos is not None else len(tokens), stopped_after or len(tokens))]
    )
    spoken = kept
    if isinstance(plan.think_end, int) and plan.think_end in kept:
        spoken = kept[len(kept) - kept[::-1].index(plan.think_end) :]
    whole = tokenizer.decode(spoken, skip_special_tokens=True)
    stopped = stopped_after is not None or (
        stops_unseen and any(stop and stop in whole for stop in plan.until)
    )
    reason: Literal["eos", "stop", "length"] = "stop" if stopped else "length"
    if kept and kept[-1] in ends:
        reason = "eos"
    return Response(
        key=request.key,
        kind="generate_until",
        loglikelihood=0.0,
        is_greedy=not plan.sampled,
        token_ids=tuple(kept),
        token_logprobs=(),
        n_context_tokens=request.n_context_tokens,
        n_truncated=request.n_truncated,
        text=answer_within(whole, plan),
        finish_reason=reason,
        path=path,
    )
