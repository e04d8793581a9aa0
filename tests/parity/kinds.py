"""Models that see, that hear and that have an encoder: what each is asked in both engines.

fp32 on the CPU, lm-eval one request at a time and in a process of its own (`kinds_side.py`); models
made from their configurations, with their real processors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image

from evalcore.model.base import Conversation, Request, Response, Turn
from evalcore.model.pictures import Picture
from evalcore.model.registry import backend_of
from evalcore.model.sounds import Sound
from tests import tiny, warm
from tests.drawn import drawn
from tests.hub import ROOT
from tests.parity.beside_hf import POSITIONS, our_answers, texts
from tests.senses import RATE, make_hearing, make_seeing, tone

Kind = Literal["sees", "hears", "encodes"]
BACKENDS: dict[Kind, Any] = {"sees": "hf-multimodal", "hears": "hf-audiolm-qwen", "encodes": "hf"}

MODES = ("RGB", "RGB", "L", "RGBA", "P", "RGB")
"""Of the images, by their number."""
SECONDS, RATES = (0.5, 1.0, 1.9), (RATE, RATE, 22_050)
"""Of the sounds, by their number; the last has another rate, which lm-eval passes over."""


@dataclass(frozen=True)
class Question:
    """A prompt with the numbers of its images or sounds; or what a conversation is made of."""

    text: str
    media: tuple[int, ...] = ()
    generation: Mapping[str, Any] = field(default_factory=dict)
    continuation: str = ""
    """Scored, where there is one."""
    chat: bool = False
    system: str = ""

    @property
    def messages(self) -> list[dict[str, str]]:
        turns = [("system", self.system)] if self.system else []
        turns.append(("user", self.text))
        return [{"role": role, "content": content} for role, content in turns] if self.chat else []


@dataclass(frozen=True)
class Case:
    kind: Kind
    architecture: str
    questions: Sequence[Question]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] = field(default_factory=dict)
    """What the model's generation_config.json says besides."""


SHORT = {"until": ["\n"], "max_gen_toks": 10}
WAYS_TO_WRITE: tuple[Mapping[str, Any], ...] = (
    SHORT,
    {"until": ["e", "s"], "max_new_tokens": 12, "do_sample": False, "temperature": 0.0},
    {"until": [], "max_gen_toks": 6, "num_beams": 2},
    {"until": [], "max_gen_toks": 6, "repetition_penalty": 1.3},
)
PROMPTS = (
    Question("<image>What is on it?\nAnswer:", (0,), SHORT),
    Question("<image>What is on it?\nAnswer:", (1,), SHORT),
    Question("Question: <image> or <image>?", (0, 1), SHORT),
    Question("Look.\n<image>\nWhich is made of wood, and which is the larger one?", (5,), SHORT),
    Question("<image>a<image>b<image>", (1, 0, 1), SHORT),
    *(Question("<image> How many lines are on it?", (1,), how) for how in WAYS_TO_WRITE),
)
CHAT = (
    Question("<image>What is on it?", (0,), SHORT, chat=True),
    Question("A. <image> B. <image>\nWhich?", (1, 5), SHORT, chat=True, system="Be brief."),
)
OTHER_MODES = tuple(
    Question("<image>What is on it?", (number,), SHORT) for number in range(len(MODES))
)
HEARD = (
    Question("<audio>What is heard?\nAnswer:", (0,), SHORT),
    Question("<audio>What is heard?\nAnswer:", (1,), SHORT),
    Question("Question: <audio> or <audio>?", (0, 1), SHORT),
    Question("Listen.\n<audio>\nIs it slow?", (2,), SHORT),
    *(Question("<audio> How many tones?", (1,), how) for how in WAYS_TO_WRITE),
    Question("<audio>What is heard?", (0,), SHORT, chat=True),
    Question("A. <audio> B. <audio>\nWhich?", (1, 0), SHORT, chat=True, system="Be brief."),
)
SCORED = [
    Question(context, continuation=continuation)
    for context in ("", "  ", "Question: ", "<s>The", "é🙂", *texts(4, 30, 200))
    for continuation in (" a", " wood\n", "table", " 🙂")
]
WAYS_TO_DECODE: tuple[Mapping[str, Any], ...] = (
    {"until": ["\n"], "max_gen_toks": 8},
    {"until": ["s", ">", "le"], "max_new_tokens": 12, "do_sample": False},
    {"until": "es", "max_tokens": 6, "temperature": 0.0},
    {"until": ["a", "e"], "max_gen_toks": 4, "num_beams": 3},
    {"until": [], "max_gen_toks": 4, "repetition_penalty": 1.4},
    {"until": [], "max_gen_toks": 4, "encoder_repetition_penalty": 1.4},
    {"until": [], "max_length": 9, "max_gen_toks": 40},
    {"until": ["", "zzz"], "max_gen_toks": 8},
)


def written(*ways: Mapping[str, Any]) -> list[Question]:
    return [
        Question(text, generation=how)
        for how in ways
        for text in ("a", "Answer: ", "<s>Question:", *texts(5, 12))
    ]


def both_answers(
    cases: Mapping[str, Case], work: Path
) -> dict[str, tuple[list[tuple[Request, Response]], list[Any]]]:
    """By case this engine's requests and answers, all asked at once, and lm-evaluation-harness's
    prompts and texts, or loglikelihoods and greedy flags."""
    files = _media_files(work)
    arguments = {name: _arguments(case, work / f"model-{name}") for name, case in cases.items()}
    orders = [
        {
            "kind": case.kind,
            "arguments": arguments[name],
            "without_videos": case.architecture == "qwen2_vl",
            "questions": [
                {
                    "prompt": question.text,
                    "messages": question.messages,
                    "media": [str(files[case.kind][number]) for number in question.media],
                    "generation": dict(question.generation),
                    "continuation": question.continuation,
                }
                for question in case.questions
            ],
        }
        for name, case in cases.items()
    ]
    (work / "order.json").write_text(json.dumps(orders))
    done = warm.run(
        ["-m", "tests.parity.kinds_side", work],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = json.loads((work / "answers.json").read_text())
    ours = [_our_answers(case, arguments[name], files) for name, case in cases.items()]
    return dict(zip(cases, zip(ours, theirs, strict=True), strict=True))


def _media_files(work: Path) -> dict[Kind, list[Path]]:
    images = [work / f"{number}.png" for number in range(len(MODES))]
    for number, file in enumerate(images):
        drawn(number, mode=MODES[number]).save(file)
    sounds = [work / f"{number}.npy" for number in range(len(RATES))]
    for file, seconds, rate in zip(sounds, SECONDS, RATES, strict=True):
        np.save(file, tone(int(file.stem), seconds=seconds * RATE / rate, rate=rate))
    return {"sees": images, "hears": sounds, "encodes": []}


def _arguments(case: Case, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    if case.kind == "sees":
        make_seeing(folder, architecture=case.architecture)
    elif case.kind == "hears":
        make_hearing(folder)
    else:
        tiny.make_seq2seq(folder, positions=POSITIONS, architecture=case.architecture)
        settings = folder / "generation_config.json"
        settings.write_text(json.dumps({**json.loads(settings.read_text()), **case.generation}))
    return {"pretrained": str(folder), "dtype": "float32", **case.arguments}


def _our_answers(
    case: Case, arguments: dict[str, Any], files: Mapping[Kind, Sequence[Path]]
) -> list[tuple[Request, Response]]:
    model: Any = backend_of(BACKENDS[case.kind]).from_arguments(  # type: ignore[arg-type]
        arguments, device="cpu"
    )
    requests = [_request(model, case.kind, question, files) for question in case.questions]
    return list(zip(requests, our_answers(model, requests), strict=True))


def _request(
    model: Any, kind: Kind, question: Question, files: Mapping[Kind, Sequence[Path]]
) -> Request:
    if question.continuation:
        return Request("loglikelihood", question.text, question.continuation)
    prompt: str | Conversation = question.text
    if question.chat:
        turns = tuple(Turn(turn["role"], turn["content"]) for turn in question.messages)
        prompt = Conversation(turns, answer_begins=True, template=model.chat_template())
    media = [(number, files[kind][number]) for number in question.media]
    seen: dict[str, Any] = {}
    if kind == "sees":
        seen["images"] = tuple(Picture(Image.open(file)) for _, file in media)
    elif kind == "hears":
        seen["sounds"] = tuple(
            Sound({"array": np.load(file), "sampling_rate": RATES[number]})
            for number, file in media
        )
    return Request("generate_until", prompt, generation=dict(question.generation), **seen)


def assert_same(
    case: Case, ours: Sequence[tuple[Request, Response]], theirs: Sequence[Any]
) -> None:
    """Prompts and texts; loglikelihoods within rounding, and greedy flags."""
    is_half = case.arguments.get("dtype") == "bfloat16"
    for question, (request, response), (first, second) in zip(
        case.questions, ours, theirs, strict=True
    ):
        if question.continuation:
            # In half precision the rows of a batch are rounded otherwise than one by one.
            exact = {"rel": 1e-6, "abs": 1e-4}
            tolerance = {"rel": 0.02} if is_half and case.kind == "encodes" else exact
            assert response.loglikelihood == pytest.approx(first, **tolerance), question
            assert response.is_greedy == second or is_half, question
            continue
        text = second
        if case.kind == "hears":  # of this backend alone lm-eval leaves the stop in the text
            for stop in question.generation["until"]:
                text = text.split(stop)[0]
        assert (request.context, response.text) == (first, text)
