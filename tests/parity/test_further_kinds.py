"""Further models that see or have an encoder, and further arguments, against lm-eval."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity import NEEDS_LM_EVAL
from tests.parity.beside_hf import texts
from tests.parity.kinds import (
    CHAT,
    OTHER_MODES,
    PROMPTS,
    SCORED,
    WAYS_TO_DECODE,
    Case,
    Question,
    assert_same,
    both_answers,
    written,
)

pytestmark = [*NEEDS_LM_EVAL]

BRIEF = {"until": ["\n"], "max_gen_toks": 4}
LONG = [*written(BRIEF), *(Question(text, generation=BRIEF) for text in texts(60))]
MARK = "<|vision_start|><|image_pad|><|vision_end|>"
OWN_WAY = {"max_new_tokens": 5, "num_beams": 2, "no_repeat_ngram_size": 2}
EVERY_WAY, ONE_WAY = written(*WAYS_TO_DECODE), written(WAYS_TO_DECODE[0])
CASES = {
    "llava": Case("sees", "llava", (*PROMPTS, *CHAT, *OTHER_MODES)),
    "llava, images first": Case("sees", "llava", CHAT, {"interleave": False}),
    "llava, narrower": Case("sees", "llava", PROMPTS[:4], {"image_width": 20}),
    "idefics3, smaller": Case("sees", "idefics3", PROMPTS[:4], {"image_max_side": 30}),
    "idefics3 in bfloat16": Case("sees", "idefics3", PROMPTS[:2], {"dtype": "bfloat16"}),
    "qwen2_vl": Case("sees", "qwen2_vl", PROMPTS + CHAT),
    "qwen2_vl, mark of its own": Case("sees", "qwen2_vl", PROMPTS[:3], {"image_string": MARK}),
    "qwen2_vl, few pixels": Case("sees", "qwen2_vl", PROMPTS[:4], {"max_pixels": 1600}),
    "qwen2_vl within a frame": Case(
        "sees", "qwen2_vl", PROMPTS[:4], {"image_width": 30, "image_height": 20}
    ),
    "qwen2_vl, made RGB": Case("sees", "qwen2_vl", OTHER_MODES, {"convert_img_format": True}),
    "t5": Case("encodes", "t5", [*SCORED, *EVERY_WAY, *LONG]),
    "t5, own way of writing": Case("encodes", "t5", ONE_WAY, generation=OWN_WAY),
    "t5 of 20 tokens": Case(
        "encodes", "t5", SCORED + LONG, {"max_length": 20, "prefix_token_id": 5}
    ),
    "t5 that is told what it is": Case(
        "encodes", "t5", SCORED[:4], {"backend": "seq2seq", "truncation": True}
    ),
    "bart that forces its tokens": Case(
        "encodes",
        "bart",
        written(*WAYS_TO_DECODE[:3]),
        generation={"forced_bos_token_id": 0, "forced_eos_token_id": 1},
    ),
    "bart without special tokens": Case(
        "encodes", "bart", SCORED[12:] + ONE_WAY, {"add_bos_token": False}
    ),
    "bart with them": Case("encodes", "bart", SCORED + ONE_WAY, {"add_bos_token": True}),
    "bart in bfloat16": Case("encodes", "bart", SCORED[8:16], {"dtype": "bfloat16"}),
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return both_answers(CASES, tmp_path_factory.mktemp("kinds"))


@pytest.mark.parametrize("name", CASES)
def test_prompts_and_answers_are_those_of_lm_evaluation_harness(both: Any, name: str) -> None:
    assert_same(CASES[name], *both[name])


def test_long_prompts_are_truncated_and_texts_end_in_every_way(both: Any) -> None:
    answers = [
        response for name, case in CASES.items() if case.kind == "encodes"
        for _, response in both[name][0]
    ]  # fmt: skip
    assert {answer.finish_reason for answer in answers} >= {"stop", "length", "eos", None}
    assert any(answer.n_truncated for answer in answers if answer.kind == "loglikelihood")
    assert any(answer.n_truncated for answer in answers if answer.kind == "generate_until")
