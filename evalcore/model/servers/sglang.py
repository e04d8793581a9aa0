"""Models behind SGLang's own interface: `sglang-generate`.

Source: SGLang's documentation of POST /generate and its tests of log-probabilities, version 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evalcore.model.servers.client import Dialect, Malformed
from evalcore.model.servers.completions import LocalCompletions
from evalcore.model.servers.scoring import INPUT_LOGPROBS

OF_SGLANG = frozenset(
    [
        *("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"),
        *("repetition_penalty", "min_new_tokens", "stop_token_ids", "ignore_eos"),
    ]
)
"""Generation arguments that its sampling parameters have."""


def _sent(body: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked in OpenAI's words, in its own. It draws by no seed."""
    prompt = body["prompt"]
    first = prompt[0] if isinstance(prompt, list) else prompt
    as_text = isinstance(first, str)
    sampling = {name: value for name, value in body.items() if name in OF_SGLANG | {"stop"}}
    asked: dict[str, Any] = {
        "text" if as_text else "input_ids": prompt,
        "sampling_params": {"max_new_tokens": body["max_tokens"], **sampling},
    }
    if "logprob_start_len" in body:
        start = body["logprob_start_len"]
        asked |= {"return_logprob": True, "logprob_start_len": start, "top_logprobs_num": 1}
    elif "logprobs" in body:
        asked |= {"return_logprob": True, "top_logprobs_num": body["logprobs"]}
    return asked


def _said(answer: Any) -> dict[str, Any]:
    """Its answer, one or a list in the order of the prompts, as OpenAI's interface has it."""
    each = answer if isinstance(answer, list) else [answer]
    metas = [one["meta_info"] for one in each if _has_meta(one)]
    if len(metas) != len(each):
        raise Malformed("it has no meta_info")
    choices = [_choice(place, one) for place, one in enumerate(each)]
    usage = {}
    for name in ("prompt_tokens", "completion_tokens"):
        counts = [meta.get(name) for meta in metas]
        if all(isinstance(count, int) for count in counts):
            usage[name] = sum(counts)
    version = {str(meta["weight_version"]) for meta in metas if meta.get("weight_version")}
    return {
        "choices": choices,
        "usage": usage,
        **({"model": f"weights {' '.join(sorted(version))}"} if version else {}),
    }


def _has_meta(one: Any) -> bool:
    return isinstance(one, Mapping) and isinstance(one.get("meta_info"), Mapping)


def _choice(place: int, one: Mapping[str, Any]) -> dict[str, Any]:
    meta = one["meta_info"]
    reason = meta.get("finish_reason")
    reason = reason if isinstance(reason, Mapping) else {}
    if reason.get("type") == "abort":
        raise Malformed(f"it gave up: {reason.get('message')}")
    matched = reason.get("matched")
    choice = {
        "index": place,
        "text": one.get("text"),
        "finish_reason": reason.get("type"),
        "stop_reason": matched if isinstance(matched, str) else None,
        "meta_info": meta,
    }
    if "output_ids" in one:
        choice["token_ids"] = one["output_ids"]
    tops = meta.get("output_top_logprobs")
    if isinstance(tops, Sequence) and tops and isinstance(tops[0], list):
        named = {f"token_id:{entry[1]}": entry[0] for entry in tops[0]}
        finite = {name: value for name, value in named.items() if _is_finite(value)}
        choice["logprobs"] = {"top_logprobs": [finite]}
    return choice


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


class SGLangGenerate(LocalCompletions):
    """A model that is sent tokens, and says how likely the last of them are."""

    example = "http://localhost:30000/generate"
    dialect = Dialect(_sent, _said)
    manners = (INPUT_LOGPROBS,)
    known = OF_SGLANG
    capabilities = replace(LocalCompletions.capabilities, backend="sglang-generate")
