"""What ends a text that a model writes, and what of it is the answer.

Source of the rules: lm-evaluation-harness 0.4.13, whose users compare their texts with ours: a stop
is looked for in the text of the last tokens, as many as it has itself and `LOOKBACK` more.
"""

from __future__ import annotations

from bisect import bisect_left
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
        self.thinks_until = plan.think_end if plan.stops_wait else None
        self.budget = plan.thinking_budget

    def stops_now(self, tokens: Sequence[int]) -> bool:
        """Whether a text ends with the last of its `tokens`: no token of the prompt is among them.

        What the row is still thinking is not searched, see `has_thought`.
        """
        return any(
            stop in text
            for size, stops in self._stops.items()
            for text in (self._shown(tokens, size),)
            for stop in stops
        )

    def _shown(self, tokens: Sequence[int], size: int) -> str:
        """The text of the last so many; where stops wait for the end of the thoughts `tokens` are
        the answer's, which begins with no white space."""
        text = str(self._tokenizer.decode(tokens[-size:]))
        waits = self.thinks_until is not None
        return text.lstrip() if waits and size >= len(tokens) else text

    def answer_from(self, tokens: Sequence[int]) -> int | None:
        """Where the answer begins, behind the first end of the thoughts and the white space that
        follows it; None while the row is still thinking."""
        if self.thinks_until is None:
            return 0
        if not self.has_thought(tokens):
            return None
        counts = range(len(tokens) + 1)
        start = bisect_left(counts, True, key=lambda count: self.has_thought(tokens[:count]))
        while start < len(tokens) and self.is_blank(tokens[start]):
            start += 1
        return start

    def has_thought(self, tokens: Sequence[int]) -> bool:
        """Whether the thinking ends within the tokens; true where nothing says how it ends."""
        if self.thinks_until is None:
            return True
        if isinstance(self.thinks_until, int):
            return self.thinks_until in tokens
        return str(self.thinks_until) in self._tokenizer.decode(tokens)

    def is_blank(self, token: int) -> bool:
        """Whether it is white space, which no answer keeps where it follows the thoughts."""
        return not self._tokenizer.decode([token], skip_special_tokens=True).strip()

    def stops_thinking_now(self, tokens: Sequence[int]) -> bool:
        """Whether the thinking ends with the last of the tokens; decodes no more than that."""
        if not isinstance(self.thinks_until, str):
            return self.has_thought(tokens[-1:])
        # A token is a byte at least.
        return self.has_thought(tokens[-len(self.thinks_until.encode()) - LOOKBACK :])


class Text:
    """A text while it is written: its tokens, and whether it is at its end."""

    __slots__ = ("_answer", "_ends", "_has_thought", "_most", "_rule", "stopped_after", "tokens")

    def __init__(self, rule: StopRule, ends: frozenset[int], most: int) -> None:
        """`most`: tokens after which it ends in any case."""
        self.tokens: list[int] = []
        self.stopped_after: int | None = None
        self._rule = rule
        self._ends = ends
        self._most = most
        self._has_thought = rule.has_thought(())
        self._answer = 0  # where the answer begins, as far as it is known

    @property
    def room(self) -> int:
        """Tokens that it can still get."""
        return self._most - len(self.tokens)

    @property
    def due(self) -> int | None:
        """The token that comes next whatever the model says: what ends its thinking, where the
        budget is used up. None where the model decides."""
        budget = self._rule.budget
        if budget is None or self._has_thought or len(self.tokens) < budget.tokens:
            return None
        return budget.end[len(self.tokens) - budget.tokens]

    def take(self, token: int) -> bool:
        """Whether the text ends with this token, or with the one that is due in its place."""
        due = self.due
        self.tokens.append(token if due is None else due)
        if self.tokens[-1] in self._ends:
            return True
        if not self._has_thought:
            self._has_thought = self._rule.stops_thinking_now(self.tokens)
            if self._has_thought:
                self._answer = len(self.tokens)
            if self._has_thought and self._rule.budget is not None:
                # What the thinking did not use is not the answer's.
                self._most += self._answer - self._rule.budget.most
        if self._has_thought and self._stops_now():
            self.stopped_after = len(self.tokens)
        return self.stopped_after is not None or self.room <= 0

    def _stops_now(self) -> bool:
        """Stops that wait are those of the answer alone, behind the white space that follows the
        thoughts: models put there just what ends many an answer, an empty line."""
        if self._rule.thinks_until is None:
            return self._rule.stops_now(self.tokens)
        if self._answer == len(self.tokens) - 1 and self._rule.is_blank(self.tokens[-1]):
            self._answer += 1
        return len(self.tokens) > self._answer and self._rule.stops_now(self.tokens[self._answer :])


def most_new_tokens(plan: Plan, prompt: int, model: Any) -> int:
    """How many tokens may be generated after a prompt of so many, thoughts among them.

    In compat a number of new tokens in the model's own configuration beats the task's.
    """
    if plan.thinking_budget is not None:
        return plan.most_tokens
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
    thought = thoughts_in(kept, plan, tokenizer)
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
        **(thought or unended(plan, reason)),
    )


def thoughts_in(tokens: Sequence[int], plan: Plan, tokenizer: Any) -> dict[str, Any]:
    """The fields of a response that say what was thought; none where no thoughts end."""
    if plan.think_end is None:
        return {}
    if isinstance(plan.think_end, int):
        ends = [place + 1 for place, token in enumerate(tokens) if token == plan.think_end]
        if not ends:
            return {}
        first, last = ends[0], ends[-1]
        thoughts = tokenizer.decode(tokens[: last - 1], skip_special_tokens=True)
    else:
        end = plan.think_end

        def found(count: int) -> int:
            return str(tokenizer.decode(tokens[:count], skip_special_tokens=True)).count(end)

        everywhere = found(len(tokens))
        if not everywhere:
            return {}
        counts = range(len(tokens) + 1)
        first, last = (bisect_left(counts, wanted, key=found) for wanted in (1, everywhere))
        whole = str(tokenizer.decode(tokens, skip_special_tokens=True))
        thoughts = whole.rpartition(end)[0]
    budget = plan.thinking_budget
    is_cut = budget is not None and first > budget.tokens
    return {
        "thoughts": thoughts,
        "n_thought_tokens": last,
        "thinking": "cut" if is_cut else "ended",
    }


def unended(plan: Plan, reason: str) -> dict[str, Any]:
    """What a response says of a text without an end of thoughts."""
    lost = reason == "length" and plan.think_end is not None and plan.may_think
    return {"thinking": "unended"} if lost else {}
