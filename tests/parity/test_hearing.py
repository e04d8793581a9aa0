"""A model that hears against lm-evaluation-harness's own `hf-audiolm-qwen`: prompts and texts.

fp32 on the CPU, lm-eval one request at a time and in a process of its own (`hearing_side.py` says
what of it had to be mended); a model like Qwen2-Audio made from its configuration.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.registry import backend_of
from evalcore.model.sounds import Sound
from tests import warm
from tests.hearing import RATE, make_hearing, tone
from tests.hub import ROOT
from tests.parity.test_model import our_answers
from tests.parity.test_seeing import MANNERS, SHORT, Asked

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

LENGTHS = (0.5, 1.0, 1.9)
"""Seconds of the sounds, by their number; the last has another rate, which lm-eval passes over."""
RATES = (RATE, RATE, 22_050)
ASKED = (
    Asked("<audio>What is heard?\nAnswer:", (0,), SHORT),
    Asked("<audio>What is heard?\nAnswer:", (1,), SHORT),
    Asked("Question: <audio> or <audio>?", (0, 1), SHORT),
    Asked("Listen.\n<audio>\nIs it slow?", (2,), SHORT),
    *(Asked("<audio> How many tones?", (1,), how) for how in MANNERS),
    Asked("<audio>What is heard?", (0,), SHORT, chat=True),
    Asked("A. <audio> B. <audio>\nWhich?", (1, 0), SHORT, chat=True, system="Be brief."),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_hearing(tmp_path_factory.mktemp("hearing"))


def arguments(folder: Path) -> dict[str, Any]:
    return {"pretrained": str(folder), "dtype": "float32"}


def heard(number: int) -> Any:
    seconds, rate = LENGTHS[number], RATES[number]
    return tone(number, seconds=seconds * RATE / rate, rate=rate)


@pytest.fixture(scope="module")
def theirs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    work = tmp_path_factory.mktemp("theirs")
    for number in range(len(LENGTHS)):
        np.save(work / f"{number}.npy", heard(number))
    order = {
        "arguments": arguments(folder),
        "asked": [
            {
                "prompt": asked.text,
                "messages": asked.messages,
                "sounds": [str(work / f"{number}.npy") for number in asked.images],
                "generation": dict(asked.generation),
            }
            for asked in ASKED
        ],
    }
    (work / "order.json").write_text(json.dumps(order))
    done = warm.run(
        ["-m", "tests.parity.hearing_side", work],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[list[str]] = json.loads((work / "answers.json").read_text())
    return found


def test_prompts_and_texts_are_those_of_lm_evaluation_harness(
    folder: Path, theirs: list[list[str]]
) -> None:
    model: Any = backend_of("hf-audiolm-qwen").from_arguments(  # type: ignore[arg-type]
        arguments(folder), device="cpu"
    )
    requests = []
    for asked in ASKED:
        prompt: str | Conversation = asked.text
        if asked.chat:
            turns = tuple(Turn(turn["role"], turn["content"]) for turn in asked.messages)
            prompt = Conversation(turns, answer_begins=True, template=model.chat_template())
        sounds = tuple(
            Sound({"array": heard(number), "sampling_rate": RATES[number]})
            for number in asked.images
        )
        requests.append(
            Request("generate_until", prompt, generation=dict(asked.generation), sounds=sounds)
        )
    ours = [
        [request.context, response.text]
        for request, response in zip(requests, our_answers(model, requests), strict=True)
    ]
    assert ours == [
        [prompt, _ended(text, asked)] for asked, (prompt, text) in zip(ASKED, theirs, strict=True)
    ]
    assert len({text for _, text in theirs}) > len(ASKED) // 2  # the sounds are heard


def _ended(text: str, asked: Asked) -> str:
    """Its text without its stop: of this backend alone lm-eval leaves the stop in the text."""
    for stop in asked.generation["until"]:
        text = text.split(stop)[0]
    return text
