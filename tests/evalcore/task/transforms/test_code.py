"""HumanEval and MBPP: from responses to programs, and from verdicts to pass@k."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import pass_at_k
from evalcore.task.transforms.code import (
    humaneval_programs,
    humaneval_programs_of_chat,
    humaneval_results,
    mbpp_programs_of_chat,
    mbpp_results,
)
from tests.hub import ROOT

ADD: dict[str, Any] = {
    "prompt": 'def add(a, b):\n    """The sum."""\n',
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "entry_point": "add",
}
RIGHT, WRONG = "    return a + b\n", "    return a - b\n"


def test_a_response_continues_the_prompt() -> None:
    assert humaneval_programs([[RIGHT, WRONG]], [ADD]) == [
        [ADD["prompt"] + RIGHT, ADD["prompt"] + WRONG]
    ]


def test_a_chat_response_ends_at_its_fence() -> None:
    assert humaneval_programs_of_chat([[f"{RIGHT}```\nThis adds."]], [ADD]) == [
        [ADD["prompt"] + RIGHT]
    ]


def test_pass_at_k_is_of_the_programs_that_pass_the_tests() -> None:
    programs = [ADD["prompt"] + body for body in (RIGHT, WRONG, WRONG, WRONG)]
    assert humaneval_results(ADD, [programs]) == {"pass@1": 0.25, "pass@2": 0.5}


def test_one_greedy_program_gives_pass_at_1_alone() -> None:
    assert humaneval_results(ADD, [[ADD["prompt"] + RIGHT]]) == {"pass@1": 1.0}
    assert humaneval_results(ADD, [[""]]) == {"pass@1": 0.0}


@given(st.data())
def test_pass_at_k_is_the_share_of_draws_of_k_with_a_right_one(data: st.DataObject) -> None:
    """Chen et al. 2021, equation 1, against counting all draws."""
    right = data.draw(st.lists(st.booleans(), min_size=1, max_size=7))
    k = data.draw(st.integers(1, len(right)))
    draws = [any(draw) for draw in combinations(right, k)]
    assert pass_at_k(len(right), sum(right), k) == pytest.approx(sum(draws) / len(draws))


def test_mbpp_needs_all_tests_to_hold() -> None:
    doc = {"test_list": ["assert f(1) == 1", "assert f(2) == 4"]}
    assert mbpp_results(doc, ["def f(x): return x * x"]) == {"pass_at_1": 1.0}
    assert mbpp_results(doc, ["def f(x): return 1"]) == {"pass_at_1": 0.0}
    assert mbpp_results(doc, [["def f(x): return x * x"]]) == {"pass_at_1": 1.0}
    assert mbpp_results(doc, ["def f(x):\r\n\treturn x ** 2\r\n"]) == {"pass_at_1": 1.0}


def test_mbpp_runs_what_the_tests_need_after_the_program() -> None:
    full = {"test_list": ["assert f(pair) == 3"], "test_setup_code": "pair = Pair(1, 2)"}
    program = "class Pair:\n    def __init__(self, *p): self.p = p\ndef f(pair): return sum(pair.p)"
    assert mbpp_results(full, [program]) == {"pass_at_1": 1.0}
    sanitized = {"test_list": ["assert math.isclose(f(), 1)"], "test_imports": ["import math"]}
    assert mbpp_results(sanitized, ["def f(): return 1.0"]) == {"pass_at_1": 1.0}


CODE = "def f(x):\n    return x\n"


@pytest.mark.parametrize(
    "response",
    [
        CODE,
        f"{CODE}```\nThat returns x. For example:\n```python\nf(1)\n```",
        f"```python\n{CODE}```",
        f"```\n{CODE}```",
        f"Here it is:\n```python\n{CODE}```\nDone.",
        f"Certainly\n\n```py\n{CODE}",
    ],
)
def test_the_block_of_code_is_found(response: str) -> None:
    assert mbpp_programs_of_chat([[response]], [{}]) == [[CODE]]


@settings(max_examples=300)
@given(st.text(alphabet="`a(\n =", max_size=20))
def test_a_block_of_code_is_part_of_the_response(response: str) -> None:
    ((block,),) = mbpp_programs_of_chat([[response]], [{}])
    assert block in response
    assert "```" not in block


def test_the_three_examples_of_mbpp_pass_their_own_tests() -> None:
    shots = yaml.safe_load((ROOT / "tasks" / "mbpp" / "_shots").read_text())
    for shot in shots["fewshot_config"]["samples"]:
        assert mbpp_results(shot, [shot["code"]]) == {"pass_at_1": 1.0}
