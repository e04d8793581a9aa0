"""Answers to MATH: what is found in a text, what is the same, and that nothing runs for long."""

from __future__ import annotations

import time

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms.math_answers import (
    LONGEST_WAIT,
    boxed_answer,
    final_answer,
    leaderboard_scores,
    level_5_with_answers,
    minerva_scores,
    normalised,
    same_answer,
    verified,
    with_answers,
)

PIECES = (
    *("0", "1", "23", "x", "y", "+", "-", "=", ",", ".", "(", ")", "[", "]", "{", "}", "$", "^"),
    *("_", "/", "%", "\\", "|", " ", "\n", "é", "한", "\x00", "\ud800", " cm", "1,000"),
    *("\\frac", "\\sqrt", "\\boxed{", "\\boxed ", "\\fbox{", "\\text{", "\\left(", "\\right)"),
    *("\\pi", "\\infty", "^\\circ", "\\begin{pmatrix}", "\\end{pmatrix}"),
    *("Final Answer: The final answer is", ". I hope it is correct."),
)
like_latex = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
texts = like_latex | st.text(max_size=12)


def response_with(answer: str) -> str:
    return f"So.\nFinal Answer: The final answer is ${answer}$. I hope it is correct."


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        ("It is $\\boxed{5}$.", "5"),
        ("$\\boxed{1}$, no, $\\boxed{\\frac{1}{\\sqrt{2}}}$", "\\frac{1}{\\sqrt{2}}"),
        ("It is $\\boxed 7$ exactly.", "7"),
        ("It is $\\boxed {7}$.", "7"),
        ("It is \\fbox{no}.", "no"),
        ("\\boxed{}", ""),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("No box.", None),
        ("\\boxed{never closed", None),
        ("\\boxedly 3", None),
    ],
)
def test_a_solutions_answer_is_in_its_last_box(solution: str, answer: str | None) -> None:
    assert boxed_answer(solution) == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (response_with("[2,5)"), "$[2,5)$"),
        ("Final Answer: The final answer is 4. ", "4"),
        ("Final Answer: The final answer is 4.", None),
        ("The final answer is 4. I hope it is correct.", None),
        ("Final Answer: The final answer is\n4. I hope it is correct.", None),
        ("", None),
    ],
)
def test_a_responses_answer_is_in_the_sentence_of_the_prompt(
    response: str, answer: str | None
) -> None:
    assert final_answer(response) == answer


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("x = 5", "5"),
        ("$12$ dollars", "12"),
        ("\\$12", "12"),
        ("an integer", "integer"),
        ("9\\text{ cm}^2", "9"),
        ("60^\\circ", "60"),
        ("\\frac12", "\\frac{1}{2}"),
        ("\\sqrt2", "\\sqrt{2}"),
        ("\\text{Sunday}", "Sunday"),
        ("1,234,567", "1234567"),
        ("1{,}234", "1234"),
    ],
)
def test_what_only_changes_how_an_answer_looks_is_taken_away(answer: str, plain: str) -> None:
    assert normalised(answer) == plain
    assert normalised(answer, as_published=True) == plain


@pytest.mark.parametrize(
    ("answer", "mended", "published"),
    [
        ("\\left(0\\right)", "\\left(0\\right)", "\\le(0\\right)"),
        ("\\sqrt[3]{2}", "\\sqrt[3]{2}", "\\sqrt{[}3]{2}"),
        ("0,1", "0,1", "01"),
        ("2\\pi cm", "2\\pi", "2\\pi"),
    ],
)
def test_three_mistakes_of_the_published_listing_are_mended_unless_asked_for(
    answer: str, mended: str, published: str
) -> None:
    assert normalised(answer) == mended
    assert normalised(answer, as_published=True) == published


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\\frac{1}{2}", "0.5"),
        ("x+1", "1+x"),
        ("(x+1)^{2}", "x^{2}+2x+1"),
        ("\\sqrt{8}", "2\\sqrt{2}"),
        ("[2,5)", "[2,5)"),
    ],
)
def test_answers_that_are_equal_are_the_same_however_they_are_written(one: str, other: str) -> None:
    assert same_answer(one, other)
    assert same_answer(other, one)


@pytest.mark.parametrize(
    ("one", "other"), [("1", "2"), ("x", "y"), ("(1,2)", "(2,1)"), ("", ""), ("", "0"), ("{", "}")]
)
def test_other_answers_and_no_answer_are_not_the_same(one: str, other: str) -> None:
    assert not same_answer(one, other)


@settings(max_examples=200, deadline=None)
@given(texts)
def test_finding_and_normalising_never_fail(text: str) -> None:
    boxed_answer(text)
    final_answer(text)
    for as_published in (False, True):
        assert "$" not in normalised(text, as_published=as_published)


@given(st.text(alphabet=st.characters(blacklist_characters="{}\\")))
def test_what_is_put_in_a_box_is_found_in_it(answer: str) -> None:
    assert boxed_answer(f"\\boxed{{1}} and so \\boxed{{{answer}}}.") == answer


@settings(max_examples=100, deadline=None)
@given(texts)
def test_every_answer_is_the_same_as_itself(text: str) -> None:
    assert same_answer(text, text) == bool(text.strip())


@settings(max_examples=40, deadline=None)
@given(like_latex, like_latex)
def test_it_does_not_matter_which_of_two_answers_comes_first(one: str, other: str) -> None:
    assert same_answer(one, other) == same_answer(other, one)


@settings(max_examples=40, deadline=None)
@given(like_latex)
def test_scoring_never_fails_on_what_a_model_writes(response: str) -> None:
    doc = {"solution": "It is $\\boxed{5}$.", "answer": "5"}
    for scores in (minerva_scores(doc, [response]), leaderboard_scores(doc, [response])):
        assert set(scores.values()) <= {0, 1}


def test_a_comparison_that_would_never_end_is_ended_and_the_next_one_answers() -> None:
    started = time.monotonic()
    assert not verified("It is $\\boxed{\\frac{1}{2}}$.", "$\\boxed{9^{9^{9}}}$")
    assert time.monotonic() - started < LONGEST_WAIT
    assert verified("It is $\\boxed{\\frac{1}{2}}$.", "So it is $\\boxed{1/2}$.")


def test_a_right_response_scores_in_every_metric_and_a_wrong_one_in_none() -> None:
    doc = {"solution": "It is $\\boxed{\\frac{1}{2}}$.", "answer": "\\frac{1}{2}"}
    right, wrong = [response_with("0.5")], [response_with("0.6")]
    assert minerva_scores(doc, right) == {"exact_match": 1, "math_verify": 1}
    assert minerva_scores(doc, wrong) == {"exact_match": 0, "math_verify": 0}
    assert leaderboard_scores(doc, right) == {"exact_match": 1, "exact_match_original": 1}
    assert leaderboard_scores(doc, wrong) == {"exact_match": 0, "exact_match_original": 0}


def test_only_math_verify_finds_an_answer_outside_the_sentence_of_the_prompt() -> None:
    doc = {"solution": "It is $\\boxed{12}$.", "answer": "12"}
    assert minerva_scores(doc, ["Hence $\\boxed{12}$."]) == {"exact_match": 0, "math_verify": 1}


def test_documents_get_the_answer_of_their_solution() -> None:
    rows = [
        {"problem": "p", "level": "Level 5", "solution": "$\\boxed{1{,}000}$"},
        {"problem": "q", "level": "Level 1", "solution": "nothing in a box"},
    ]
    data = Dataset.from_list(rows)
    assert with_answers(data)["answer"][:] == ["1000", ""]
    hardest = level_5_with_answers(data)
    assert hardest["problem"][:] == ["p"]
    assert hardest["answer"][:] == ["1{,}000"]
