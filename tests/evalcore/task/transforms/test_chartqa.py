"""ChartQA's answers within five per cent, beside lm-evaluation-harness's own code."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms import chartqa

METRICS = ("exact_match", "relaxed_accuracy", "anywhere_accuracy")


def scores(response: str, right: str) -> tuple[float, float, float]:
    found = [getattr(chartqa, name)([right], [response])[name] for name in METRICS]
    return found[0], found[1], found[2]


@pytest.mark.parametrize(
    ("response", "right", "expected"),
    [
        ("It rises.\nFinal Answer: 42", "42", (1, 1, 1)),
        ("Final Answer: 41", "42", (0, 1, 1)),
        ("Final Answer: 39", "42", (0, 0, 0)),
        ("**Final Answer:** 50%", "0.5", (0, 1, 1)),
        ("Final Answer: Yes.", "yes", (1, 1, 1)),
        ("FINAL ANSWER: $1,000", "1000", (0, 1, 1)),
        ("Final Answer: B) Bonn", "B", (0, 1, 1)),
        ("There were 1,000 of them", "1000", (0, 0, 1)),
        ("the capital is bonn", "bonn", (0, 0, 1)),
        ("no idea", "7", (0, 0, 0)),
        ("Final Answer:\n\n  7", "7", (0, 1, 1)),
        ("", "7", (0, 0, 0)),
    ],
)
def test_an_answer_counts(response: str, right: str, expected: tuple[int, int, int]) -> None:
    assert scores(response, right) == expected


PARTS = st.sampled_from(
    [
        *("Final Answer:", "FINAL ANSWER: ", "answer:", "**Answer**:", "\n", " ", "is", "Yes", "B"),
        *(
            "42",
            "41.5",
            "50%",
            "0.5",
            "1,000",
            "$7",
            '"x"',
            "7.",
            "-3",
            "(7)",
            "no.",
            "'",
            "B.",
            "%",
        ),
    ]
)
RESPONSES = st.lists(PARTS, max_size=7).map(" ".join) | st.text(max_size=20)
RIGHT = st.sampled_from(["42", "0.5", "50%", "1000", "Yes", "B", "x", "-3", "7", "nan", '"x"', "0"])


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="extra `peer`")
@settings(max_examples=400, deadline=None)
@given(RESPONSES, RIGHT)
def test_scores_are_lm_evals(response: str, right: str) -> None:
    theirs = _theirs()
    for name in METRICS:
        found = getattr(chartqa, name)([right], [response])
        assert found == getattr(theirs, name)([right], [response]), name


@functools.cache
def _theirs() -> Any:
    import lm_eval

    file = Path(lm_eval.__file__).parent / "tasks" / "chartqa" / "utils.py"
    spec = importlib.util.spec_from_file_location("lm_evals_chartqa", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
