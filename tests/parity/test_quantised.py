"""Quantised models against lm-evaluation-harness: saved so, and quantised as they are loaded.

Its own `load_in_8bit` and `load_in_4bit` end in a TypeError under transformers 5, which takes only
an object of configuration; so it is given the model that transformers loads with that object.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from evalcore.model.base import Request
from tests import quantised
from tests.parity.test_model import our_answers, our_model, texts, their_answers, their_model

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

ON_THE_FLY: dict[str, dict[str, Any]] = {
    "bitsandbytes 8-bit": {"load_in_8bit": "True"},
    "bitsandbytes 4-bit": {"load_in_4bit": "True"},
    "bitsandbytes 4-bit nf4": {
        "load_in_4bit": "True",
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": "True",
    },
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return quantised.plain(tmp_path_factory.mktemp("whole"))


def compare(ours: Any, theirs: Any) -> None:
    pairs = [
        (context, continuation)
        for context in ("Question: ", *texts(4, 30))
        for continuation in (" a", " wood\n", " a table of")
    ]
    found = our_answers(ours, [Request("loglikelihood", *pair) for pair in pairs])
    expected = their_answers(theirs, "loglikelihood", pairs)
    for answer, (total, is_greedy) in zip(found, expected, strict=True):
        assert abs(answer.loglikelihood - total) <= 1e-4 + 1e-6 * abs(total)
        assert answer.is_greedy == is_greedy
    asked = [(context, {"until": ["\n\n"], "max_gen_toks": 6}) for context in texts(3, 9)]
    requests = [Request("generate_until", context, generation=how) for context, how in asked]
    written = their_answers(theirs, "generate_until", asked)
    assert [answer.text for answer in our_answers(ours, requests)] == written


@pytest.mark.parametrize("method", quantised.METHODS)
def test_a_quantised_repository_has_equal_answers(whole: Path, tmp_path: Path, method: str) -> None:
    folder = quantised.make(whole, tmp_path / "m", method)
    compare(our_model(folder), their_model(folder))


@pytest.mark.parametrize("method", ON_THE_FLY)
def test_weights_quantised_at_loading_have_equal_answers(whole: Path, method: str) -> None:
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, AutoTokenizer

    how: Any = {"quantization_config": quantised.configuration(method), "dtype": "float32"}
    model: Any = AutoModelForCausalLM.from_pretrained(whole, **how)
    tokenizer: Any = AutoTokenizer.from_pretrained(whole)
    theirs = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1)
    compare(our_model(whole, **ON_THE_FLY[method]), theirs)


def test_its_own_arguments_fail_under_this_transformers(whole: Path) -> None:
    """Whoever sees this fail: compare with them instead of with a model that is given."""
    with pytest.raises(TypeError, match="load_in_8bit"):
        their_model(whole, load_in_8bit=True)
