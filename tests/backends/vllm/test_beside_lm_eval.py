"""lm-evaluation-harness's own backend of vLLM on the same requests, in a process of its own."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from bench.backends import __main__ as bench
from tests.backends.vllm.test_runs import MODEL

WORKLOADS = ("arc_0_shot", "piqa_0_shot", "gsm8k_stops")
"""Short of the length of the model: of longer prompts theirs reads a token less."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    asks = {
        name: [asdict(ask) for ask in bench.asks_of(name, 3, work / name)] for name in WORKLOADS
    }
    return asks, {backend: bench.run(backend, MODEL, asks, work) for backend in ("vllm", "lm_eval")}


def test_the_numbers_and_texts_are_theirs(found):
    asks, by_backend = found
    for name in WORKLOADS:
        ours, theirs = (
            by_backend[backend]["workloads"][name]["answers"] for backend in ("vllm", "lm_eval")
        )
        assert len(ours) == len(theirs) == len(asks[name]) > 0
        far = bench.apart(ours, theirs)
        assert far["nats"] < 1e-4 or name == "gsm8k_stops"
        assert (far["beyond_bound"], far["different"]) == (0, 0), name


def test_a_difference_would_be_told():
    one = [{"loglikelihood": -1.0, "greedy": True, "text": None}]
    assert bench.apart(one, [{**one[0], "loglikelihood": -1.01}])["beyond_bound"] == 1
    assert bench.apart(one, [{**one[0], "greedy": False}])["different"] == 1


def test_a_backend_that_ends_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="nobody ended with 1"):
        bench.run("nobody", MODEL, {}, tmp_path)
