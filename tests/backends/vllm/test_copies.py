"""Two copies of a model, each an engine of vLLM's in a process of its own, say what one says."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.parallel.messages import Loading
from evalcore.model.parallel.replicas import replicas_of
from evalcore.model.parallel.shares import shares_of
from tests.backends.conftest import told

BEGINNING = "A river is longer than a table, and made of water. " * 5
ASKED = [
    *(
        Request("loglikelihood", f"{BEGINNING}Question {place // 4}: which is it?\nAnswer:", end)
        for place in range(400)
        for end in [(" wood", " water", " a table", " a river that is long")[place % 4]]
    ),
    Request("loglikelihood_rolling", "", BEGINNING * 3),
    *(
        Request("generate_until", f"{BEGINNING}{place}.", generation={"max_gen_toks": 8})
        for place in range(12)
    ),
]


@pytest.fixture(scope="module")
def two(folder):
    loading = Loading(
        backend="vllm", arguments=told(folder), batch_size=None, device="cpu", mode="compat"
    )
    return replicas_of(loading, ["cpu", "cpu"])


def test_two_engines_say_what_one_says_under_the_same_keys(two, lm):
    assert two.info.model_key == lm.info.model_key
    assert two.info.device == "cpu, cpu"
    encoded = two.encode(ASKED)
    assert [request.key for request in encoded] == [request.key for request in lm.encode(ASKED)]
    assert len(list(shares_of(encoded, 2))) > 2  # so that one copy has more than one
    found, expected = (dict(one for pack in of.answer(encoded) for one in pack) for of in (two, lm))
    assert found.keys() == expected.keys() == set(range(len(encoded)))
    for place, ours in found.items():
        theirs = expected[place]
        assert (ours.key, ours.is_greedy) == (theirs.key, theirs.is_greedy)
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-4)
        assert (ours.text, ours.finish_reason) == (theirs.text, theirs.finish_reason)
    assert two.execution["loglikelihood"]["copies"] == 2


def test_what_a_copy_refuses_is_said_as_by_one(folder):
    stated = told(folder, tensor_parallel_size="2")
    loading = Loading(
        backend="vllm", arguments=stated, batch_size=None, device="cpu", mode="compat"
    )
    with pytest.raises(ModelError, match="tensor_parallel_size times pipeline_parallel_size"):
        replicas_of(loading, ["cpu", "cpu"])
