"""lm-evaluation-harness's own backend of vLLM on the same requests, in a process of its own."""

from __future__ import annotations

import pytest

from bench.backends import asking
from bench.workloads import WORKLOADS
from tests.backends.vllm.test_runs import MODEL

NAMES = ("arc_0_shot", "piqa_0_shot", "gsm8k_stops")
"""Short of the length of the model: of longer prompts theirs reads a token less."""


BACKENDS = ("vllm", "lm_eval", "lm_eval_hf")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    asks = {name: asking.asks_of(WORKLOADS[name].with_documents(3), work / name) for name in NAMES}
    order = asking.Order(asks, dict.fromkeys(asks, 1))
    return asks, {backend: asking.run(backend, MODEL, order, work) for backend in BACKENDS}


def test_the_numbers_and_texts_are_theirs(found):
    asks, by_backend = found
    for name in NAMES:
        ours, *others = (by_backend[backend]["workloads"][name]["answers"] for backend in BACKENDS)
        for theirs in others:
            assert len(ours) == len(theirs) == len(asks[name]) > 0
            far = asking.apart(ours, theirs)
            assert far["nats"] < 1e-4 or name == "gsm8k_stops"
            assert (far["beyond_bound"], far["different"]) == (0, 0), name


def test_a_difference_would_be_told():
    one = [{"loglikelihood": -1.0, "greedy": True, "text": None}]
    assert asking.apart(one, [{**one[0], "loglikelihood": -1.01}])["beyond_bound"] == 1
    assert asking.apart(one, [{**one[0], "greedy": False}])["different"] == 1


def test_a_backend_that_ends_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="nobody ended with 1"):
        asking.run("nobody", MODEL, asking.Order({}, {"any": 1}), tmp_path)
