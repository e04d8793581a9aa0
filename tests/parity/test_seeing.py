"""Models that see against lm-evaluation-harness's own `hf-multimodal`: prompts and texts.

fp32 on the CPU, lm-eval one request at a time and in a process of its own; models like Llava,
Idefics3 (and SmolVLM) and Qwen2-VL, made from their configurations, with their real processors.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from evalcore.model.base import Conversation, Request, Response, Turn
from evalcore.model.pictures import Picture
from evalcore.model.registry import backend_of
from tests import warm
from tests.drawn import drawn
from tests.hub import ROOT
from tests.parity.test_model import our_answers
from tests.seeing import make_seeing

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

MODES = ("RGB", "RGB", "L", "RGBA", "P", "RGB")
"""Of the images, by their number."""


@dataclass(frozen=True)
class Asked:
    """A prompt with the numbers of its images; or what a conversation is made of."""

    text: str
    images: tuple[int, ...]
    generation: Mapping[str, Any]
    chat: bool = False
    system: str = ""

    @property
    def messages(self) -> list[dict[str, str]]:
        turns = [("system", self.system)] if self.system else []
        turns.append(("user", self.text))
        return [{"role": role, "content": content} for role, content in turns] if self.chat else []


SHORT = {"until": ["\n"], "max_gen_toks": 10}
MANNERS: tuple[Mapping[str, Any], ...] = (
    SHORT,
    {"until": ["e", "s"], "max_new_tokens": 12, "do_sample": False, "temperature": 0.0},
    {"until": [], "max_gen_toks": 6, "num_beams": 2},
    {"until": [], "max_gen_toks": 6, "repetition_penalty": 1.3},
)
PROMPTS = (
    Asked("<image>What is on it?\nAnswer:", (0,), SHORT),
    Asked("<image>What is on it?\nAnswer:", (1,), SHORT),
    Asked("Question: <image> or <image>?", (0, 1), SHORT),
    Asked(
        "Look.\n<image>\nWhich of these is made of wood, and which is the larger one?", (5,), SHORT
    ),
    Asked("<image>a<image>b<image>", (1, 0, 1), SHORT),
    *(Asked("<image> How many lines are on it?", (1,), how) for how in MANNERS),
)
CHAT = (
    Asked("<image>What is on it?", (0,), SHORT, chat=True),
    Asked("A. <image> B. <image>\nWhich?", (1, 5), SHORT, chat=True, system="Be brief."),
)
OTHER_MODES = tuple(
    Asked("<image>What is on it?", (number,), SHORT) for number in range(len(MODES))
)


@dataclass(frozen=True)
class Case:
    architecture: str
    asked: tuple[Asked, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {
    **{name: Case(name, PROMPTS) for name in ("llava", "idefics3", "qwen2_vl")},
    **{f"{name} in conversations": Case(name, CHAT) for name in ("llava", "idefics3", "qwen2_vl")},
    "llava, images first": Case("llava", CHAT, {"interleave": False}),
    "qwen2_vl with a mark of its own": Case(
        "qwen2_vl",
        PROMPTS[:3],
        {"image_string": "<|vision_start|><|image_pad|><|vision_end|>"},
    ),
    "qwen2_vl with few pixels": Case("qwen2_vl", PROMPTS[:4], {"max_pixels": 1600}),
    "idefics3, smaller": Case("idefics3", PROMPTS[:4], {"image_max_side": 30}),
    "llava, narrower": Case("llava", PROMPTS[:4], {"image_width": 20}),
    "qwen2_vl within a frame": Case(
        "qwen2_vl", PROMPTS[:4], {"image_width": 30, "image_height": 20}
    ),
    "qwen2_vl, made RGB": Case("qwen2_vl", OTHER_MODES, {"convert_img_format": True}),
    "llava in all modes": Case("llava", OTHER_MODES),
    "idefics3 in bfloat16": Case("idefics3", PROMPTS[:2], {"dtype": "bfloat16"}),
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("images")
    files = []
    for number, mode in enumerate(MODES):
        files.append(folder / f"{number}.png")
        drawn(number, mode=mode).save(files[-1])
    return files


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    names = {case.architecture for case in CASES.values()}
    return {
        name: make_seeing(tmp_path_factory.mktemp(name), architecture=name)
        for name in sorted(names)
    }


def arguments_of(name: str, folders: Mapping[str, Path]) -> dict[str, Any]:
    folder = folders[CASES[name].architecture]
    return {"pretrained": str(folder), "dtype": "float32", **CASES[name].arguments}


@pytest.fixture(scope="module")
def theirs(
    folders: dict[str, Path], images: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[list[str]]]:
    """lm-evaluation-harness's prompts and texts by case."""
    work = tmp_path_factory.mktemp("theirs")
    orders = [
        {
            "arguments": arguments_of(name, folders),
            "without_videos": case.architecture == "qwen2_vl",
            "asked": [
                {
                    "prompt": asked.text,
                    "messages": asked.messages,
                    "images": [str(images[number]) for number in asked.images],
                    "generation": dict(asked.generation),
                }
                for asked in case.asked
            ],
        }
        for name, case in CASES.items()
    ]
    (work / "order.json").write_text(json.dumps(orders))
    done = warm.run(
        ["-m", "tests.parity.seeing_side", work],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(CASES, json.loads((work / "answers.json").read_text()), strict=True))


@pytest.fixture(scope="module")
def ours(folders: dict[str, Path], images: list[Path]) -> dict[str, list[tuple[Request, Response]]]:
    """This engine's requests and answers, all of a case asked at once."""
    return {name: _asked(name, folders, images) for name in CASES}


def _asked(
    name: str, folders: Mapping[str, Path], images: list[Path]
) -> list[tuple[Request, Response]]:
    model: Any = backend_of("hf-multimodal").from_arguments(  # type: ignore[arg-type]
        arguments_of(name, folders), device="cpu"
    )
    requests = []
    for asked in CASES[name].asked:
        prompt: str | Conversation = asked.text
        if asked.chat:
            turns = tuple(Turn(turn["role"], turn["content"]) for turn in asked.messages)
            prompt = Conversation(turns, answer_begins=True, template=model.chat_template())
        seen = tuple(Picture(Image.open(images[number])) for number in asked.images)
        requests.append(
            Request("generate_until", prompt, generation=dict(asked.generation), images=seen)
        )
    return list(zip(requests, our_answers(model, requests), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_prompts_and_texts_are_equal(
    name: str,
    ours: dict[str, list[tuple[Request, Response]]],
    theirs: dict[str, list[list[str]]],
) -> None:
    for (request, response), (prompt, text) in zip(ours[name], theirs[name], strict=True):
        assert request.context == prompt
        assert response.text == text, prompt


def test_the_models_look_at_their_images(ours: dict[str, list[tuple[Request, Response]]]) -> None:
    """Else equal texts would prove nothing."""
    for name in ("llava", "idefics3", "qwen2_vl"):
        (_, first), (_, second), *_ = ours[name]
        assert first.text != second.text, name
