"""How likely the tokens of a prompt are: the ways in which servers say it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evalcore.model.servers.client import Malformed

Token = tuple[float, bool]
"""Its log-probability after all that stands before it, in nats, and whether none is likelier."""


@dataclass(frozen=True)
class Manner:
    """One way to be told."""

    name: Literal["prompt_logprobs", "echo", "input_token_logprobs"]
    payload: Mapping[str, Any]

    def body(self, prompts: Sequence[Any], starts: Sequence[int]) -> dict[str, Any]:
        """What is asked of prompts, each from its own place on."""
        several = len(prompts) > 1
        body = {"prompt": [*prompts] if several else prompts[0], **self.payload}
        if self.name == "input_token_logprobs":
            # The first entry says nothing, and all that stands before it may be reused.
            before = [start - 1 for start in starts]
            body["logprob_start_len"] = before if several else before[0]
        return body

    def read(self, choice: Mapping[str, Any], tokens: Sequence[int], count: int) -> list[Token]:
        """The last `count` of a prompt's tokens. Raises Malformed where the answer is not about
        just these tokens, as far as it says so."""
        if self.name == "prompt_logprobs":
            return _by_number(choice, tokens)[-count:]
        if self.name == "input_token_logprobs":
            return _from_start(choice, tokens, count)
        return _by_place(choice, len(tokens), int(self.payload["max_tokens"]))[-count:]


PROMPT_LOGPROBS = Manner(
    "prompt_logprobs", {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
)
ECHO = Manner("echo", {"max_tokens": 0, "temperature": 0.0, "echo": True, "logprobs": 1})
ECHO_AND_ONE = Manner("echo", {**ECHO.payload, "max_tokens": 1})
"""Of servers that must write at least one token."""

MANNERS = (PROMPT_LOGPROBS, ECHO, ECHO_AND_ONE)
"""The surest first: numbers of tokens show that the answer is about what was asked."""

INPUT_LOGPROBS = Manner("input_token_logprobs", {"max_tokens": 1, "temperature": 0.0})
"""SGLang's own."""


def _by_number(choice: Mapping[str, Any], tokens: Sequence[int]) -> list[Token]:
    """From a list of mappings from numbers of tokens to what is known of them."""
    said = choice.get("prompt_logprobs")
    if not isinstance(said, list) or not said:
        raise Malformed("it has no prompt_logprobs")
    if len(said) != len(tokens):
        raise Malformed(f"it has prompt_logprobs of {len(said)} tokens, and {len(tokens)} were "
                        "asked about")  # fmt: skip
    found: list[Token] = []
    for place, token in enumerate(tokens[1:], start=1):
        of_place = said[place]
        entry = of_place.get(str(token)) if isinstance(of_place, dict) else None
        if not isinstance(entry, dict):
            raise Malformed(f"its prompt_logprobs are of other tokens than those asked about, at "
                            f"place {place}")  # fmt: skip
        found.append((number_of(entry.get("logprob")), entry.get("rank") == 1))
    return found


def _by_place(choice: Mapping[str, Any], count: int, written: int) -> list[Token]:
    """From lists with an entry for each token; `written`: tokens that may follow the prompt's."""
    said = choice.get("logprobs")
    if not isinstance(said, dict) or not isinstance(said.get("token_logprobs"), list):
        raise Malformed("it has no logprobs of tokens")
    logprobs, tops = said["token_logprobs"], said.get("top_logprobs")
    if not count <= len(logprobs) <= count + written:
        raise Malformed(f"it has logprobs of {len(logprobs)} tokens, and {count} were asked about")
    if not isinstance(tops, list) or len(tops) != len(logprobs):
        raise Malformed("it has no top_logprobs beside its logprobs")
    found: list[Token] = []
    for logprob, top in list(zip(logprobs, tops, strict=True))[1:count]:
        if not isinstance(top, dict) or not top:
            raise Malformed("it has no top_logprobs of a token")
        own = number_of(logprob)
        found.append((own, own >= max(map(number_of, top.values()))))
    return found


def _from_start(choice: Mapping[str, Any], tokens: Sequence[int], count: int) -> list[Token]:
    """From lists of (log-probability, number, text), of which the first is of what stands before,
    and has none."""
    meta = choice.get("meta_info")
    said, tops = (
        meta.get(name) if isinstance(meta, Mapping) else None
        for name in ("input_token_logprobs", "input_top_logprobs")
    )
    if not isinstance(said, list) or not isinstance(tops, list) or len(said) != len(tops):
        raise Malformed("it has no input_token_logprobs with input_top_logprobs beside them")
    if len(said) != count + 1:
        raise Malformed(f"it has input_token_logprobs of {len(said)} tokens, and {count + 1} were "
                        "asked about")  # fmt: skip
    found: list[Token] = []
    for token, entry, top in list(zip(tokens[-count:], said[1:], tops[1:], strict=True)):
        if not isinstance(entry, list) or len(entry) < 2 or entry[1] != token:
            raise Malformed("its input_token_logprobs are of other tokens than those asked about")
        if not isinstance(top, list) or not top or not isinstance(top[0], list):
            raise Malformed("it has no input_top_logprobs of a token")
        own = number_of(entry[0])
        found.append((own, own >= number_of(top[0][0])))
    return found


def number_of(said: Any) -> float:
    """A log-probability. Raises Malformed for what is none."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not math.isfinite(said):
        raise Malformed(f"a log-probability is {said!r}")
    if said > 1e-3:
        raise Malformed(f"a log-probability is {said!r}, which is above 0")
    return float(said)


def top_of(choice: Mapping[str, Any]) -> dict[str, float]:
    """The likeliest tokens after a prompt, as the server writes them. Raises Malformed."""
    said = choice.get("logprobs")
    tops = said.get("top_logprobs") if isinstance(said, dict) else None
    if not isinstance(tops, list) or not tops or not isinstance(tops[0], dict) or not tops[0]:
        raise Malformed("it has no top_logprobs of what it writes")
    return {str(text): number_of(logprob) for text, logprob in tops[0].items()}
