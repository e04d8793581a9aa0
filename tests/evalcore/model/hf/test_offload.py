"""A model whose layers no memory holds: read from disk for each pass, it says what it says in
memory."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf.choice import HuggingFace
from tests import tiny

BEGINNING = "A river is longer than a table, and made of water. " * 8
REQUESTS = [
    *(
        Request("loglikelihood", f"{BEGINNING}Question {place // 4}: which?\nAnswer:", end)
        for place in range(40)
        for end in [(" wood", " water", " a table", " a river")[place % 4]]
    ),
    Request("loglikelihood_rolling", "", BEGINNING * 3),
    *(
        Request("generate_until", f"{BEGINNING}{place}.", generation={"max_gen_toks": 8})
        for place in range(4)
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Its output embeddings are its own, so that they are offloaded, too."""
    tied = tiny.make(tmp_path_factory.mktemp("model") / "tied", positions=1024)
    model = AutoModelForCausalLM.from_pretrained(tied, dtype=torch.float32)
    model.config.tie_word_embeddings = False
    torch.manual_seed(0)
    own = torch.randn_like(model.lm_head.weight) * 0.3
    model.lm_head.weight = torch.nn.Parameter(own)
    place = tied.parent / "untied"
    model.save_pretrained(place)
    AutoTokenizer.from_pretrained(tied).save_pretrained(place)
    return place


def model_of(folder, **more):
    return HuggingFace.from_arguments({"pretrained": str(folder), **more}, device="cpu")


def answers_of(model):
    encoded = model.encode(REQUESTS)
    found = {place: response for pack in model.answer(encoded) for place, response in pack}
    return [found[place] for place in range(len(encoded))]


@pytest.mark.parametrize(("dtype", "memory"), [("float32", "240KB"), ("bfloat16", "120KB")])
def test_what_is_read_from_disk_says_what_it_says_in_memory(folder, dtype, memory):
    within = model_of(folder, dtype=dtype)
    without = model_of(folder, dtype=dtype, parallelize="True", max_cpu_memory=memory)
    assert without._model.lm_head.weight.is_meta
    assert without._model.model.layers[0].mlp.up_proj.weight.is_meta
    assert without.info.model_key == within.info.model_key
    assert without.accelerators == []
    for ours, theirs in zip(answers_of(without), answers_of(within), strict=True):
        assert ours.key == theirs.key
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-6)
        assert (ours.text, ours.is_greedy) == (theirs.text, theirs.is_greedy)


def test_a_memory_that_holds_no_layer_is_refused_with_what_to_state(folder):
    with pytest.raises(ModelError, match=r"not even its first layer has room.*max_cpu_memory"):
        model_of(folder, parallelize="True", max_cpu_memory="20KB")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_cpu_memory": "20GB"}, "max_cpu_memory needs parallelize=True"),
        (
            {"max_memory_per_gpu": "lots", "parallelize": "True"},
            "max_memory_per_gpu: expected a size such as 20GB or 500MiB, or a number of bytes",
        ),
    ],
)
def test_limits_of_memory_are_sizes_for_a_model_that_is_spread(folder, given, said):
    with pytest.raises(ModelError, match=said):
        model_of(folder, **given)
