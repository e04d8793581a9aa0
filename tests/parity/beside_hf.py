"""The `hf` backend of both engines: fp32 on the CPU, lm-eval one request at a time; and what half
precision changes of loglikelihoods on the demo's trained models."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from evalcore.model.base import Request, Response
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny
from tests.hub import ROOT

POSITIONS = 96
WORDS = [*tiny.TEXTS[0].split(" "), "\n", "é🙂", "7 + 4 ="]


def our_model(
    folder: Path, *, path: Literal["auto", "plain"] = "auto", **arguments: Any
) -> HuggingFaceLM:
    """Taking the way that it takes by default, or plainly, one by one."""
    stated = Arguments.of({"pretrained": str(folder), "dtype": "float32", **arguments})
    rows = 1 if path == "plain" else None
    return HuggingFaceLM(stated, device="cpu", path=path, batch_size=rows)


def their_model(folder: Path, **arguments: Any) -> Any:
    from lm_eval.models.huggingface import HFLM

    stated = {"pretrained": str(folder), "dtype": "float32", **arguments}
    return HFLM(**stated, device="cpu", batch_size=1)


def our_answers(model: HuggingFaceLM, requests: Sequence[Request]) -> list[Response]:
    encoded = model.encode(requests)
    found = dict(pair for pack in model.answer(encoded) for pair in pack)
    return [found[index] for index in range(len(encoded))]


def their_answers(model: Any, kind: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    from lm_eval.api.instance import Instance

    # lm-eval writes into the generation arguments that it is given.
    instances = [
        Instance(kind, {}, copy.deepcopy(argument), number)
        for number, argument in enumerate(arguments)
    ]
    return list(getattr(model, kind)(instances, disable_tqdm=True))


def texts(*lengths: int) -> Iterator[str]:
    draw = random.Random(7)
    for length in lengths:
        yield " ".join(draw.choice(WORDS) for _ in range(length))


def compare_loglikelihoods(
    ours: HuggingFaceLM, theirs: Any, asked: Sequence[tuple[Any, ...]]
) -> list[Response]:
    """But where a token spans the join: lm-eval has nothing to score then, and we that token."""
    asked = [pair for pair in asked if not pair[0] or theirs._encode_pair(*pair)[1]]
    assert asked
    found = our_answers(ours, [Request("loglikelihood", *pair) for pair in asked])
    for answer, (expected, is_greedy) in zip(
        found, their_answers(theirs, "loglikelihood", asked), strict=True
    ):
        assert answer.loglikelihood == pytest.approx(expected, rel=1e-6, abs=1e-4)
        assert answer.is_greedy == is_greedy
    return found


def compare_texts(
    ours: HuggingFaceLM, theirs: Any, asked: Sequence[tuple[str, dict[str, Any]]]
) -> list[Response]:
    requests = [Request("generate_until", context, generation=how) for context, how in asked]
    found = our_answers(ours, requests)
    expected = their_answers(theirs, "generate_until", asked)
    assert [answer.text for answer in found] == expected
    return found


# What half precision changes


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
    return their_answers(their_model(DEMO / model, dtype=dtype, **how), "loglikelihood", asked)


def ours(model: str, dtype: str, asked: Sequence[tuple[str, str]], **how: Any) -> list[Answer]:
    """This engine's in compat."""
    lm = our_model(DEMO / model, dtype=dtype, **how)
    answers = our_answers(lm, [Request("loglikelihood", *arguments) for arguments in asked])
    return [(answer.loglikelihood, answer.is_greedy) for answer in answers]


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
    alone, default = (ours(model, dtype, asked, path=path) for path in ("plain", "auto"))
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
