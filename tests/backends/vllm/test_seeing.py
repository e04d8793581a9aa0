"""Models that see by vLLM (`vllm-vlm`), beside transformers and lm-evaluation-harness's own.

Idefics3 alone: vLLM's code for the other kinds that tests can make wants torchvision.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from bench.backends.asking import environment
from evalcore.errors import ModelError
from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.conformance import examine
from evalcore.model.pictures import Picture
from evalcore.model.registry import backend_of
from tests import tiny
from tests.backends.conftest import told
from tests.drawn import drawn
from tests.hub import ROOT
from tests.senses import make_seeing

SHORT = {"until": ["\n"], "max_gen_toks": 10, "do_sample": False}
ASKED = (
    ("<image>What is on it?\nAnswer:", (0,), SHORT, ""),
    ("<image>What is on it?\nAnswer:", (1,), SHORT, ""),
    ("Question: <image> or <image>?", (0, 1), SHORT, ""),
    ("<image> How many?", (1,), {"until": ["e", "s"], "max_gen_toks": 12, "do_sample": False}, ""),
    ("A. <image> B. <image>\nWhich?", (1, 2), SHORT, "Be brief."),
)
"""Prompt, images, generation arguments, and what the system says of a conversation."""


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeing")
    # One that writes few marks of images, in whose names a stop may be found and which are no text.
    return make_seeing(folder, architecture="idefics3", width=128, seed=1)


@pytest.fixture(scope="module")
def by_vllm(seeing):
    return backend_of("vllm-vlm").from_arguments(told(seeing))


@pytest.fixture(scope="module")
def by_transformers(seeing):
    stated = {"pretrained": str(seeing), "dtype": "float32"}
    return backend_of("hf-multimodal").from_arguments(stated, device="cpu")


def answers(model, requests):
    encoded = model.encode(requests)
    found = {index: response for pack in model.answer(encoded) for index, response in pack}
    return encoded, [found[index] for index in range(len(requests))]


def messages(text, system):
    return [{"role": "system", "content": system}, {"role": "user", "content": text}]


def requests_for(model):
    asked = []
    for text, numbers, generation, system in ASKED:
        prompt = text
        if system:
            turns = tuple(Turn(each["role"], each["content"]) for each in messages(text, system))
            prompt = Conversation(turns, answer_begins=True, template=model.chat_template())
        images = tuple(Picture(drawn(number)) for number in numbers)
        asked.append(Request("generate_until", prompt, generation=generation, images=images))
    return asked


def test_texts_and_numbers_are_those_of_transformers(by_vllm, by_transformers):
    scored = [
        Request("loglikelihood", "<image>What is on it?", end, images=(Picture(drawn(number)),))
        for number in (0, 1)
        for end in (" a line", " x")
    ]
    scored.append(Request("loglikelihood", "Without one:", " a line"))
    (ours, given), (theirs, expected) = (
        answers(
            model,
            [*requests_for(model), Request("generate_until", "No?", generation=SHORT), *scored],
        )
        for model in (by_vllm, by_transformers)
    )
    assert [each.tokens for each in ours] == [each.tokens for each in theirs]
    assert [each.key for each in ours] == [each.key for each in theirs]
    for one, other in zip(given, expected, strict=True):
        assert (one.text, one.finish_reason, one.images) == (
            other.text,
            other.finish_reason,
            other.images,
        )
        assert one.loglikelihood == pytest.approx(other.loglikelihood, abs=1e-4)
        assert one.is_greedy == other.is_greedy


def test_a_prompt_that_vllm_reads_otherwise_ends_the_run(by_vllm):
    images = (Picture(drawn(0)),)
    asked = [
        Request("generate_until", "<image>What?", generation=SHORT, images=images),
        Request("loglikelihood", "<image>What?", " x", images=images),
    ]
    for request in by_vllm.encode(asked):
        other = replace(request, text="More. " + request.text)
        with pytest.raises(ModelError, match="vLLM reads a prompt as "):
            list(by_vllm.answer([other]))


def test_it_conforms(by_vllm):
    report = examine(by_vllm)
    assert report.passed, str(report)


def test_prompts_and_texts_are_those_of_lm_evaluation_harness(seeing, by_vllm, tmp_path):
    for number in range(3):
        drawn(number).save(tmp_path / f"{number}.png")
    order = {
        "arguments": {
            "pretrained": str(seeing),
            "dtype": "float32",
            "enforce_eager": True,
            "block_size": 32,
            "max_model_len": 512,
        },
        "asked": [
            {
                "prompt": text,
                "messages": messages(text, system) if system else [],
                "images": [str(tmp_path / f"{number}.png") for number in numbers],
                "generation": generation,
            }
            for text, numbers, generation, system in ASKED
        ],
    }
    (tmp_path / "order.json").write_text(json.dumps(order))
    done = subprocess.run(
        [sys.executable, "-m", "tests.backends.vllm.seeing_side", str(tmp_path)],
        cwd=ROOT,
        env=environment("lm_eval", tmp_path) | {"TORCHDYNAMO_DISABLE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    asked = requests_for(by_vllm)
    ours = [
        [request.context, response.text]
        for request, response in zip(asked, answers(by_vllm, asked)[1], strict=True)
    ]
    assert ours == json.loads((tmp_path / "answers.json").read_text())


@pytest.mark.parametrize(
    ("made", "stated", "complaint"),
    [
        ("llava", {}, "vLLM's code for it cannot be imported (No module named 'torchvision'"),
        ("llava", {"lora_local_path": "some/adapter"}, "argument 'lora_local_path' is not taken"),
        ("llava", {"max_images": "some"}, "max_images: expected a count of images, got 'some'"),
        ("text", {}, "is no model of images and text that transformers knows (model_type: llama)"),
    ],
)
def test_what_vllm_cannot_run_is_refused_before_its_weights(tmp_path, made, stated, complaint):
    folder = tiny.make(tmp_path) if made == "text" else make_seeing(tmp_path, architecture=made)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(ModelError) as refused:
        backend_of("vllm-vlm").from_arguments(told(folder, **stated))
    assert complaint in str(refused.value)
