"""What half precision changes: loglikelihoods of both engines on the demo's trained models."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evalcore.model.base import Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from tests.hub import ROOT

DEMO = ROOT / "demo" / "content" / "models" / "plumbline-demo"
MODELS = ("novice-llama", "storyteller-gpt2")
DTYPES = ("bfloat16", "float16")
QUESTIONS = 40

THINGS = ("table", "river", "chair", "dog", "boat", "kite", "stone", "cake")
Answer = tuple[float, bool]


def pairs() -> list[tuple[str, str]]:
    """Questions, each with eight letters and with eight texts to choose from."""
    draw, found = random.Random(14), []
    for number in range(QUESTIONS):
        things = draw.sample(THINGS, 8)
        listed = "".join(
            f"{letter}. {thing}\n" for letter, thing in zip("ABCDEFGH", things, strict=True)
        )
        asked = f"Question: Which has {draw.choice(THINGS)} and {draw.choice(THINGS)}?\n"
        found += [(f"{asked}{listed}Answer:", f" {letter}") for letter in "ABCDEFGH"]
        found += [(f"{asked}Answer:", f" the {thing} of {number}") for thing in things]
    return found


def theirs(model: str, dtype: str, asked: Sequence[tuple[str, str]], **how: Any) -> list[Answer]:
    """lm-evaluation-harness's answers, one request at a time."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=str(DEMO / model), dtype=dtype, device="cpu", batch_size=1, **how)
    requests = [
        Instance("loglikelihood", {}, copy.deepcopy(one), number)
        for number, one in enumerate(asked)
    ]
    return list(lm.loglikelihood(requests, disable_tqdm=True))


def ours(
    model: str,
    dtype: str,
    asked: Sequence[tuple[str, str]],
    path: Literal["auto", "plain"] = "auto",
    **how: Any,
) -> list[Answer]:
    """This engine's in compat: the way it takes by default, or plainly, one by one."""
    arguments = Arguments.of({"pretrained": str(DEMO / model), "dtype": dtype, **how})
    lm = HuggingFaceLM(
        arguments, device="cpu", path=path, batch_size=1 if path == "plain" else None
    )
    encoded = lm.encode([Request("loglikelihood", *arguments) for arguments in asked])
    found = dict(pair for pack in lm.answer(encoded) for pair in pack)
    return [(found[place].loglikelihood, found[place].is_greedy) for place in range(len(encoded))]


@dataclass(frozen=True)
class Found:
    """Largest differences in nats, and how many questions have another likeliest choice."""

    alone: float
    """Of this engine one by one from lm-evaluation-harness one by one."""
    flags: int
    """Greedy flags that differ there."""
    default: float
    """Of the way that this engine takes by default from lm-evaluation-harness one by one."""
    picks_by_default: int
    softmax: float
    """Of lm-evaluation-harness's default from its softmax in float32."""
    picks_by_softmax: int
    ties: int
    """Questions whose likeliest choice shares its loglikelihood, in lm-evaluation-harness."""


def measure(model: str, dtype: str) -> Found:
    asked = pairs()
    expected = theirs(model, dtype, asked)
    alone, default = (ours(model, dtype, asked, path) for path in ("plain", "auto"))
    wide = theirs(model, dtype, asked, softmax_dtype="float32")
    return Found(
        alone=_apart(alone, expected),
        flags=sum(one[1] != other[1] for one, other in zip(alone, expected, strict=True)),
        default=_apart(default, expected),
        picks_by_default=_other_picks(default, expected),
        softmax=_apart(wide, expected),
        picks_by_softmax=_other_picks(wide, expected),
        ties=sum(values.count(max(values)) > 1 for values in _questions(expected)),
    )


def _apart(some: Sequence[Answer], others: Sequence[Answer]) -> float:
    return max(abs(one[0] - other[0]) for one, other in zip(some, others, strict=True))


def _questions(answers: Sequence[Answer]) -> list[list[float]]:
    values = [value for value, _ in answers]
    return [values[first : first + 8] for first in range(0, len(values), 8)]


def _other_picks(some: Sequence[Answer], others: Sequence[Answer]) -> int:
    return sum(
        question.index(max(question)) != other.index(max(other))
        for question, other in zip(_questions(some), _questions(others), strict=True)
    )
