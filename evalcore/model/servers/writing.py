"""What a server is told of a text that it shall write, and what of its answer is the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from evalcore.model.base import Response
from evalcore.model.servers.client import Malformed
from evalcore.model.writing.ending import response_of, unended
from evalcore.model.writing.generation import GenerationRequest, Plan, answer_within

OF_OPENAI = frozenset(
    ["temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias"]
)
"""Generation arguments that the interface itself has; a server may have more."""

OF_SERVERS = OF_OPENAI | {
    "top_k", "min_p", "repetition_penalty", "length_penalty", "min_tokens", "ignore_eos",
    "typical_p", "skip_special_tokens", "stop_token_ids", "bad_words", "chat_template_kwargs",
    "reasoning_effort", "include_reasoning", "thinking_token_budget",
}  # fmt: skip

MOST_STOPS = 4
"""That the interface takes; a text that runs past another is cut here, by the same rule."""

SEEDS = 2**31


def payload_of(plan: Plan, seed: int, *, limit: str = "max_tokens") -> dict[str, Any]:
    """The request but for the prompt. `limit`: how the number of new tokens is called."""
    options = dict(plan.options)
    # To compat an empty stop is found after the first token, whatever it is.
    most = 1 if "" in plan.until else plan.max_new_tokens
    payload: dict[str, Any] = {limit: most, "temperature": 0.0, **options}
    # In strict a stop within the thinking is none, which a server does not know.
    searches = plan.think_end is None or plan.mode == "compat"
    if stops := [stop for stop in plan.until if stop][:MOST_STOPS] if searches else []:
        payload["stop"] = stops
    if plan.sampled:
        payload["seed"] = seed % SEEDS
    return payload


Ending = Literal["stop", "eos", "length"]


def ending_of(choice: Mapping[str, Any]) -> Ending:
    """What ended a text; where a server does not tell a stop from the model's own end, stop."""
    if choice.get("finish_reason") == "length":
        return "length"
    says = "stop_reason" in choice and choice.get("finish_reason") == "stop"
    return "eos" if says and choice["stop_reason"] is None else "stop"


def tokens_of(choice: Mapping[str, Any]) -> list[int]:
    """The tokens that were written, where the server shows them. Raises Malformed."""
    tokens = choice.get("token_ids")
    if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
        raise Malformed("it has no token_ids")
    return tokens


def response_by_tokens(
    request: GenerationRequest, choice: Mapping[str, Any], tokenizer: Any, ends: frozenset[int]
) -> Response:
    """The text that our own tokenizer makes of the tokens, cut where the `hf` backend cuts it."""
    tokens, ending = tokens_of(choice), ending_of(choice)
    response = response_of(
        request,
        tokens,
        stopped_after=len(tokens) if ending == "stop" else None,
        ends=ends,
        tokenizer=tokenizer,
        path="plain",
        stops_unseen=True,
    )
    # A server may leave out the token by which the model ended the text.
    return replace(response, finish_reason="eos") if ending == "eos" else response


def response_by_text(
    request: GenerationRequest, text: Any, ending: Ending, *, thoughts: Any = None
) -> Response:
    """From a text alone. A service that withholds its answer says nothing, which is the answer.

    `thoughts`: what the server itself keeps apart from its answer.
    """
    if text is not None and not isinstance(text, str):
        raise Malformed("its text is none")
    whole = text or ""
    stopped = any(stop and stop in whole for stop in request.plan.until)
    reason: Ending = "stop" if stopped else ending
    return Response(
        key=request.key,
        kind="generate_until",
        loglikelihood=0.0,
        is_greedy=not request.plan.sampled,
        token_ids=(),
        token_logprobs=(),
        n_context_tokens=request.n_context_tokens,
        n_truncated=request.n_truncated,
        text=answer_within(whole, request.plan),
        finish_reason=reason,
        **_thought(request.plan, whole, reason, thoughts),
    )


def _thought(plan: Plan, whole: str, reason: Ending, apart: Any) -> dict[str, Any]:
    """The fields of a response that say what was thought; its tokens are not known."""
    if isinstance(apart, str) and apart:
        is_lost = reason == "length" and not whole
        return {"thoughts": apart, "thinking": "unended" if is_lost else "ended"}
    if isinstance(plan.think_end, str) and plan.think_end in whole:
        return {"thoughts": whole.rpartition(plan.think_end)[0], "thinking": "ended"}
    return unended(plan, reason)
