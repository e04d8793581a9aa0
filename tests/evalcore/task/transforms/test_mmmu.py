"""MMMU's questions with their images, and its answers, beside lm-evaluation-harness's own code."""

from __future__ import annotations

import functools
import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms import mmmu

OPTIONS = ["red", "a blue box", "Green", "none of them"]


def doc(**fields: Any) -> dict[str, Any]:
    return {
        "question": "<image 2> Which?",
        "options": repr(OPTIONS),
        "answer": "B",
        "question_type": "multiple-choice",
        **{f"image_{number}": f"picture {number}" for number in range(1, 8)},
        **fields,
    }


def test_images_stand_where_text_and_options_name_them() -> None:
    asked = doc(options=repr(["<image 1>", "both <image 2>", "<image 1>"]))
    assert mmmu.doc_to_image(asked) == ["picture 2", "picture 1", "picture 2", "picture 1"]
    assert mmmu.doc_to_text(asked).startswith(
        "<image> Which?\n\n(A) <image>\n(B) both <image>\n(C) <image>\n\nAnswer with the option's"
    )
    assert mmmu.doc_to_text(doc(question_type="open")) == (
        "<image> Which?\n\nAnswer the question using a single word or phrase."
    )


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("B", "B"),
        ("(C)", "C"),
        ("It is (A), no, (B).", "B"),
        ("A or D ", "D"),
        ("D.", "D"),
        ("I think that it must be a blue box", "B"),
        ("it is red, then it is rather green after all", "C"),
    ],
)
def test_the_letter_that_a_response_means(response: str, letter: str) -> None:
    assert mmmu.chosen_letter(response, OPTIONS) == letter


def test_where_there_is_none_one_is_drawn_from_the_seed() -> None:
    drawn = []
    for _ in range(2):
        random.seed(5)
        drawn.append([mmmu.chosen_letter("?", OPTIONS) for _ in range(40)])
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) == set("ABCD")


@pytest.mark.parametrize(
    ("response", "answer", "right"),
    [
        ("The answer is 3.", "3", True),
        ("So it is about 75.503 in all", "75.5", True),
        ("75.51", "75.5", False),
        ("1,234", "1234", True),
        ("A square", "a square", True),
        ("a circle", "square", False),
        ("x = 7", "7", True),
        ("b", "b", True),
        ("abc", "b", False),
    ],
)
def test_open_answers(response: str, answer: str, right: bool) -> None:
    assert mmmu.process_results(doc(question_type="open", answer=answer), [response]) == {
        "acc": float(right)
    }


WORDS = st.sampled_from(
    [
        *("A", "B", "(A)", "(C)", " D ", "red", "green", "a blue box", "is", "so", "answer", "="),
        *("therefore", "3", "3.0", "1,000", "2e3", "-7", ".5", "b", ".", "\n", ". The", "!", "'"),
    ]
)
RESPONSES = st.lists(WORDS, max_size=9).map(" ".join) | st.text(max_size=30)
ANSWERS = st.sampled_from(["3", "1000", "b", "red", "-7", "a blue box", "0.5", ""])


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="extra `peer`")
@settings(max_examples=400, deadline=None)
@given(RESPONSES, ANSWERS, st.booleans())
def test_scores_are_lm_evals(response: str, answer: str, is_open: bool) -> None:
    theirs = _theirs()
    asked = doc(answer=answer, question_type="open" if is_open else "multiple-choice")
    random.seed(1)
    found = mmmu.process_results(asked, [response])
    random.seed(1)
    assert found == theirs.process_results(asked, [response])


@functools.cache
def _theirs() -> Any:
    import lm_eval

    file = Path(lm_eval.__file__).parent / "tasks" / "mmmu" / "utils.py"
    spec = importlib.util.spec_from_file_location("lm_evals_mmmu", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
