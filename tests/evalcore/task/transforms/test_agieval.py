"""AGIEval: passages, and answers to problems that are written out."""

from __future__ import annotations

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.agieval import (
    is_right,
    normalised,
    parsed,
    passage_of,
    scores,
    with_passage,
)


def test_questions_on_one_passage_share_a_name_and_questions_without_one_stand_alone() -> None:
    queries = [
        "Ann sat left of Bo.Q: Who sat left? Answer Choices: (A)Ann (B)Bo",
        "Ann sat left of Bo.Q: Who sat right? Answer Choices: (A)Ann (B)Bo",
        "Q: Who sat left? Answer Choices: (A)Ann (B)Bo",
        "Q: Who sat right? Answer Choices: (A)Ann (B)Bo",
        "小明有一只猫。问题：谁有猫？ 选项：(A)小明 (B)小红",
        "小明有一只猫。问题：他有什么？ 选项：(A)猫 (B)狗",
        "no mark-up",
    ]
    names = [passage_of(query) for query in queries]
    assert names[0] == names[1]
    assert names[4] == names[5]
    assert len(set(names)) == 5
    found = with_passage(Dataset.from_list([{"query": query} for query in queries]))
    assert list(found["passage"]) == names


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("We get \\boxed{1}, no, \\boxed{x = \\frac{3}{4}}.", "\\frac{3}{4}"),
        ("\\fbox{\\sqrt{2}}", "\\sqrt{2}"),
        ("The box \\boxed{1 never closes", None),
        ("so $a = 3$\nand $b = 4$", "4"),
        ("x + 1 = 3, so x = 2.\nThat is all.", "2"),
        ("After 3 steps there are 12.5 left", "12.5"),
        ("twelve", None),
        ("", None),
    ],
)
def test_the_answer_is_found_as_the_papers_code_finds_it(response: str, answer: str | None) -> None:
    assert parsed(response) == answer


@pytest.mark.parametrize(
    "same",
    [
        (".5", "0.5", "1/2", "\\frac12", "\\dfrac{1}{2}", "\\frac1{2}", "\\frac{1}2", "x=0.5"),
        ("30", "30^\\circ", "30^{\\circ}", "30\\%", "$30$", " 30 ", "30\\text{ cm}"),
        ("\\sqrt{3}", "\\sqrt3", "\\left\\sqrt 3".replace(" ", "")),
        ("(1,2)", "( 1, 2 )", "\\left(1,\\! 2\\right)"),
    ],
)
def test_answers_that_only_look_different_are_the_same(same: tuple[str, ...]) -> None:
    assert len({normalised(text) for text in same}) == 1


@pytest.mark.parametrize(
    ("answer", "response", "right"),
    [
        ("\\frac{1}{2}", " \\frac{1}{2}.", True),
        ("\\frac{1}{2}", "$\\frac{1}{2}$", True),
        ("\\frac{1}{2}", " 0.5", True),
        ("\\frac{1}{2}", " 2", False),
        ("$\\sqrt{3}$", "\\boxed{\\sqrt3}", True),
        ("x=4", " 4", True),
        ("3", "。3。", True),
        ("3", "First 3, then 4", False),
        ("3", "", False),
        ("", "", False),
        ("east", " east", True),
    ],
)
def test_a_response_is_right_where_it_gives_the_answer(
    answer: str, response: str, right: bool
) -> None:
    assert is_right(answer, response) is right
    assert scores({"answer": answer}, [response]) == {"acc": int(right)}


@given(st.text())
def test_any_text_can_be_read_and_scored(text: str) -> None:
    assert scores({"answer": "1"}, [text])["acc"] in (0, 1)
    assert scores({"answer": text}, ["1"])["acc"] in (0, 1)


@given(st.integers(min_value=0, max_value=10**6), st.integers(min_value=1, max_value=10**6))
def test_a_quotient_is_right_however_it_is_written(above: int, below: int) -> None:
    assert is_right(f"\\frac{{{above}}}{{{below}}}", f" {above}/{below}")
    assert is_right(f"{above}/{below}", f"so we get \\boxed{{\\dfrac{{{above}}}{{{below}}}}}")
