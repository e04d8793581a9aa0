"""The text of each scored token: what readers of a sample see instead of a number."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from evalcore.cli import main
from evalcore.library import evaluate
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.tokens.spelling import Spelling
from evalcore.record import read_samples
from tests import tiny
from tests.evalcore.toys import write_run, write_toys

NAMES = ["toy_choice", "toy_likely", "toy_rolling"]


@pytest.fixture(scope="module", params=["bytes", "words"])
def tokenizer(request, tmp_path_factory):
    folder = tiny.make(tmp_path_factory.mktemp("tokenizer"), words=request.param == "words")
    return AutoTokenizer.from_pretrained(folder)


LETTERS = sorted(set("".join(tiny.TEXTS)))


@given(st.text(st.sampled_from(LETTERS), min_size=1))
@settings(max_examples=200, deadline=None)
def test_the_texts_of_an_answers_tokens_are_the_answer(tokenizer, text):
    spelling = Spelling(tokenizer)
    read = "".join(spelling.of(token) for token in tokenizer(text)["input_ids"])
    assert read in (text, f" {text}")  # the one that marks words puts a space before them


def test_a_part_of_a_character_is_written_by_its_bytes(tokenizer):
    spelling = Spelling(tokenizer)
    if (
        "<0xE2>" in tokenizer.get_vocab()
    ):  # a vocabulary that has bytes for what it has no words for
        tokens = tokenizer.convert_tokens_to_ids(["<0xE2>", "<0x82>", "<0xAC>"])
    else:
        tokens = tokenizer("€")["input_ids"]
    assert "".join(map(spelling.of, tokens)).replace(" ", "") == "<0xE2><0x82><0xAC>"


def test_a_special_token_has_its_name_and_a_number_without_token_nothing(tokenizer):
    spelling = Spelling(tokenizer)
    assert spelling.of(tokenizer.eos_token_id) == "</s>"
    assert spelling.of(10**6) is None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tiny.make(tmp_path_factory.mktemp("model"))
    return HuggingFaceLM(Arguments(pretrained=str(folder), dtype="float32"), device="cpu")


def responses_in(folder):
    return {
        (sample["task"], response["kind"]): (sample, response)
        for path in folder.glob("samples_*.parquet")
        for sample in read_samples(path)
        for response in sample["responses"]
    }


def test_samples_have_the_text_of_each_token_of_a_continuation_and_no_others(model, tmp_path):
    tasks = write_toys(tmp_path)
    write_run(tmp_path / "run", evaluate(model, NAMES, include_path=tasks, bootstrap_iters=0))
    found = responses_in(tmp_path / "run")
    for task in ("toy_choice", "toy_likely"):
        sample, response = found[task, "loglikelihood"]
        assert len(response["token_texts"]) == len(response["token_ids"])
        assert "".join(response["token_texts"]) == sample["arguments"][-1]["continuation"]
    assert found["toy_rolling", "loglikelihood_rolling"][1]["token_texts"] is None
    assert main(["verify", str(tmp_path / "run"), "--level", "rescore"]) == 0


def test_tokens_of_a_withheld_text_have_no_text(model, tmp_path):
    tasks = write_toys(tmp_path)
    for file in tasks.glob("*.yaml"):
        keys = yaml.safe_load(file.read_text())
        about = {"version": 1, **keys.get("metadata", {}), "benchmark": file.stem}
        keys["metadata"] = {**about, "publish_samples": "ids"}
        file.write_text(yaml.safe_dump(keys))
    write_run(tmp_path / "run", evaluate(model, NAMES, include_path=tasks, bootstrap_iters=0))
    found = responses_in(tmp_path / "run")
    assert len(found) == len(NAMES)
    assert all(response["token_texts"] is None for _, response in found.values())
