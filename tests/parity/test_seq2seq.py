"""Models with an encoder against lm-evaluation-harness's own backend, request by request.

fp32 on the CPU, lm-eval one request at a time and in a process of its own; a T5-like and a
BART-like model, made from their configurations.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalcore.model.base import Request, Response
from evalcore.model.registry import backend_of
from tests import tiny, warm
from tests.hub import ROOT
from tests.parity.test_model import our_answers, texts

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

POSITIONS = 96
Asked = list[tuple[str, tuple[Any, ...]]]

SCORED: Asked = [
    ("loglikelihood", (context, continuation))
    for context in ("", "  ", "Question: ", "<s>The", "é🙂", *texts(4, 30, 200))
    for continuation in (" a", " wood\n", "table", " 🙂")
]
MANNERS: tuple[Mapping[str, Any], ...] = (
    {"until": ["\n"], "max_gen_toks": 8},
    {"until": ["s", ">", "le"], "max_new_tokens": 12, "do_sample": False},
    {"until": "es", "max_tokens": 6, "temperature": 0.0},
    {"until": ["a", "e"], "max_gen_toks": 4, "num_beams": 3},
    {"until": [], "max_gen_toks": 4, "repetition_penalty": 1.4},
    {"until": [], "max_gen_toks": 4, "encoder_repetition_penalty": 1.4},
    {"until": [], "max_length": 9, "max_gen_toks": 40},
    {"until": ["", "zzz"], "max_gen_toks": 8},
)


def written(*manners: Mapping[str, Any]) -> Asked:
    return [
        ("generate_until", (text, dict(how)))
        for how in manners
        for text in ("a", "Answer: ", "<s>Question:", *texts(5, 12))
    ]


@dataclass(frozen=True)
class Case:
    """A model, how it is loaded, and what it is asked."""

    made: Mapping[str, Any]
    asked: Asked
    arguments: Mapping[str, Any] | None = None
    generation: Mapping[str, Any] | None = None
    """What its generation_config.json says besides."""


LONG = written({"until": ["\n"], "max_gen_toks": 4}) + [
    ("generate_until", (text, {"until": ["\n"], "max_gen_toks": 4})) for text in texts(60)
]
CASES: dict[str, Case] = {
    "t5": Case({"architecture": "t5"}, SCORED + written(*MANNERS) + LONG),
    "bart": Case({"architecture": "bart"}, SCORED + written(*MANNERS)),
    "bart that forces its tokens": Case(
        {"architecture": "bart"},
        written(*MANNERS[:3]),
        generation={"forced_bos_token_id": 0, "forced_eos_token_id": 1},
    ),
    "t5 with its own manner of writing": Case(
        {"architecture": "t5"},
        written(MANNERS[0]),
        generation={"max_new_tokens": 5, "num_beams": 2, "no_repeat_ngram_size": 2},
    ),
    "bart without special tokens": Case(
        {"architecture": "bart"},
        SCORED[12:] + written(MANNERS[0]),
        arguments={"add_bos_token": False},
    ),
    "bart with them": Case(
        {"architecture": "bart"}, SCORED + written(MANNERS[0]), arguments={"add_bos_token": True}
    ),
    "t5 of 20 tokens": Case(
        {"architecture": "t5"}, SCORED + LONG, arguments={"max_length": 20, "prefix_token_id": 5}
    ),
    "t5 that is told what it is": Case(
        {"architecture": "t5"}, SCORED[:4], arguments={"backend": "seq2seq", "truncation": True}
    ),
    "bart in bfloat16": Case(
        {"architecture": "bart"}, SCORED[8:16], arguments={"dtype": "bfloat16"}
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, case in CASES.items():
        folder = tiny.make_seq2seq(
            tmp_path_factory.mktemp("model"), positions=POSITIONS, **case.made
        )
        settings = folder / "generation_config.json"
        own = {**json.loads(settings.read_text()), **(case.generation or {})}
        settings.write_text(json.dumps(own))
        made[name] = folder
    return made


def arguments_of(name: str, folder: Path) -> dict[str, Any]:
    return {"pretrained": str(folder), "dtype": "float32", **(CASES[name].arguments or {})}


@pytest.fixture(scope="module")
def theirs(
    folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Any]]:
    """lm-evaluation-harness's answers by case."""
    work = tmp_path_factory.mktemp("theirs")
    orders = [
        {"arguments": arguments_of(name, folder), "asked": CASES[name].asked}
        for name, folder in folders.items()
    ]
    (work / "order.json").write_text(json.dumps(orders))
    done = warm.run(
        ["-m", "tests.parity.seq2seq_side", work],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(folders, json.loads((work / "answers.json").read_text()), strict=True))


def request_of(kind: Any, stated: tuple[Any, ...]) -> Request:
    if kind == "loglikelihood":
        return Request(kind, *stated)
    return Request(kind, stated[0], generation=stated[1])


@pytest.fixture(scope="module")
def ours(folders: dict[str, Path]) -> dict[str, list[Response]]:
    """This engine's, all of a model asked at once."""
    return {
        name: our_answers(
            backend_of("hf").from_arguments(arguments_of(name, folder), device="cpu"),  # type: ignore[arg-type]
            [request_of(*asked) for asked in CASES[name].asked],
        )
        for name, folder in folders.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_answers_are_equal(
    name: str, ours: dict[str, list[Response]], theirs: dict[str, list[Any]]
) -> None:
    """Loglikelihoods and greedy flags; texts by stops, limits, beams, penalties, forced tokens."""
    is_half = (CASES[name].arguments or {}).get("dtype") == "bfloat16"
    for asked, found, expected in zip(CASES[name].asked, ours[name], theirs[name], strict=True):
        if found.kind == "generate_until":
            assert found.text == expected, asked
            continue
        total, is_greedy = expected
        # In half precision the rows of a batch are rounded otherwise than one by one.
        tolerated = 0.02 * abs(total) if is_half else 1e-4 + 1e-6 * abs(total)
        assert abs(found.loglikelihood - total) <= tolerated, asked
        assert found.is_greedy == is_greedy or is_half, asked


def test_what_is_compared_is_of_many_kinds(ours: dict[str, list[Response]]) -> None:
    answers = [answer for found in ours.values() for answer in found]
    assert {answer.finish_reason for answer in answers} >= {"stop", "length", "eos", None}
    assert any(answer.n_truncated for answer in answers if answer.kind == "loglikelihood")
    assert any(answer.n_truncated for answer in answers if answer.kind == "generate_until")
    texts_of_t5 = {answer.text for answer in ours["t5"] if answer.text is not None}
    assert len(texts_of_t5) > 20
    assert len({round(answer.loglikelihood, 3) for answer in ours["t5"]}) > 20
