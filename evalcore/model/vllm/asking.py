"""How vLLM is asked for log-probabilities, and what of its answer counts.

A request feeds `tokens`; all of its targets but the last are among them, and the last is read off
the row that vLLM would write from. So nothing is fed that the model itself was not to read, and a
prompt may be as long as the model. A target is greedy where no token is likelier: of equals each
is, which vLLM's ranks would deny to all of them, as they count equals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from evalcore.errors import ModelError

MOST_IDS = 128
"""Tokens that vLLM tells the log-probabilities of after a prompt, at most."""

Said = tuple[float, bool]
"""Log-probability of a token, and whether none is likelier."""


@dataclass(frozen=True)
class Missing(Exception):
    """What was wanted is not in the answer."""

    position: int


def after(tokens: Iterable[int], *, within: bool, reuse: bool) -> Any:
    """SamplingParams for the log-probabilities of `tokens` after the prompt, and `within` it those
    of the prompt's own; `reuse`: whether what is kept of other prompts is read."""
    from vllm import SamplingParams

    params = SamplingParams(
        max_tokens=1,
        temperature=0.0,
        logprob_token_ids=sorted(set(tokens)),
        prompt_logprobs=1 if within else None,
        flat_logprobs=within,
        detokenize=False,
        ignore_eos=True,
        skip_clone=True,
    )
    params.skip_reading_prefix_cache = not reuse
    return params


def in_portions(tokens: Iterable[int]) -> list[list[int]]:
    """As many at once as vLLM tells of."""
    ids = sorted(set(tokens))
    return [ids[start : start + MOST_IDS] for start in range(0, len(ids), MOST_IDS)]


def said_after(output: Any, tokens: Iterable[int]) -> dict[int, Said]:
    """Of the tokens that were asked for after the prompt. Raises ModelError for what is no
    number."""
    found = output.outputs[0].logprobs[0]
    likeliest = max(entry.logprob for entry in found.values())
    return {token: _said(found[token].logprob, likeliest) for token in tokens}


def said_within(output: Any, positions: Sequence[int], tokens: Sequence[int]) -> list[Said]:
    """Of the prompt's own tokens at `positions`.

    Raises Missing for one that the answer does not have (which is computed with nothing kept),
    ModelError for what is no number.
    """
    flat = output.prompt_logprobs
    answers = []
    for position in positions:
        entries: Mapping[int, Any] = flat[position] or {}
        entry = entries.get(tokens[position])
        if entry is None:
            raise Missing(position)
        answers.append(_said(entry.logprob, max(other.logprob for other in entries.values())))
    return answers


def _said(logprob: float, likeliest: float) -> Said:
    if not isfinite(logprob):
        raise ModelError("the model's output is not a number (NaN or infinity): check its weights")
    return float(logprob), bool(logprob >= likeliest)
