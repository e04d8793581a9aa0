"""The answer that a response gives is found in it, and is the same however it is written: by rules
and examples of our own, and as lm-evaluation-harness finds it."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms import (
    agieval,
    agieval_written,
    bbh,
    chartqa,
    docvqa,
    drop,
    mmmu,
    record,
)
from evalcore.task.transforms.answers import (
    all_without_longer,
    coqa_scores,
    normal_form,
    nq_open_scores,
    overlap,
    squad_v2_scores,
    trivia_form,
    triviaqa_scores,
    web_questions_scores,
    without_longer,
)
from evalcore.task.transforms.math_answers import (
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
from tests.evalcore.both_scorers import peer

# MMMU


OPTIONS = ["red", "a blue box", "Green", "none of them"]


def mmmu_doc(**fields: Any) -> dict[str, Any]:
    return {
        "question": "<image 2> Which?",
        "options": repr(OPTIONS),
        "answer": "B",
        "question_type": "multiple-choice",
        **{f"image_{number}": f"picture {number}" for number in range(1, 8)},
        **fields,
    }


def test_images_stand_where_text_and_options_name_them() -> None:
    asked = mmmu_doc(options=repr(["<image 1>", "both <image 2>", "<image 1>"]))
    assert mmmu.doc_to_image(asked) == ["picture 2", "picture 1", "picture 2", "picture 1"]
    assert mmmu.doc_to_text(asked).startswith(
        "<image> Which?\n\n(A) <image>\n(B) both <image>\n(C) <image>\n\nAnswer with the option's"
    )
    assert mmmu.doc_to_text(mmmu_doc(question_type="open")) == (
        "<image> Which?\n\nAnswer the question using a single word or phrase."
    )


# MATH


PIECES = (
    *("0", "1", "23", "x", "y", "+", "-", "=", ",", ".", "(", ")", "[", "]", "{", "}", "$", "^"),
    *("_", "/", "%", "\\", "|", " ", "\n", "é", "한", "\x00", "\ud800", " cm", "1,000"),
    *("\\frac", "\\sqrt", "\\boxed{", "\\boxed ", "\\fbox{", "\\text{", "\\left(", "\\right)"),
    *("\\pi", "\\infty", "^\\circ", "\\begin{pmatrix}", "\\end{pmatrix}"),
    *("Final Answer: The final answer is", ". I hope it is correct."),
)
like_latex = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


def response_with(answer: str) -> str:
    return f"So.\nFinal Answer: The final answer is ${answer}$. I hope it is correct."


def test_a_solutions_answer_is_in_its_last_box() -> None:
    answers = {
        "It is $\\boxed{5}$.": "5",
        "$\\boxed{1}$, no, $\\boxed{\\frac{1}{\\sqrt{2}}}$": "\\frac{1}{\\sqrt{2}}",
        "It is $\\boxed 7$ exactly.": "7",
        "It is $\\boxed {7}$.": "7",
        "It is \\fbox{no}.": "no",
        "\\boxed{}": "",
        "\\boxed{\\{1,2\\}}": "\\{1,2\\}",
        "No box.": None,
        "\\boxed{never closed": None,
        "\\boxedly 3": None,
    }
    assert {solution: boxed_answer(solution) for solution in answers} == answers


def test_a_responses_answer_is_in_the_sentence_of_the_prompt() -> None:
    answers = {
        response_with("[2,5)"): "$[2,5)$",
        "Final Answer: The final answer is 4. ": "4",
        "Final Answer: The final answer is 4.": None,
        "The final answer is 4. I hope it is correct.": None,
        "Final Answer: The final answer is\n4. I hope it is correct.": None,
        "": None,
    }
    assert {response: final_answer(response) for response in answers} == answers


def test_what_only_changes_how_an_answer_looks_is_taken_away() -> None:
    plain = {
        "x = 5": "5",
        "$12$ dollars": "12",
        "\\$12": "12",
        "an integer": "integer",
        "9\\text{ cm}^2": "9",
        "60^\\circ": "60",
        "\\frac12": "\\frac{1}{2}",
        "\\sqrt2": "\\sqrt{2}",
        "\\text{Sunday}": "Sunday",
        "1,234,567": "1234567",
        "1{,}234": "1234",
        "2\\pi cm": "2\\pi",
    }
    assert {answer: normalised(answer) for answer in plain} == plain
    assert {answer: normalised(answer, as_published=True) for answer in plain} == plain


@pytest.mark.parametrize(
    ("answer", "mended", "published"),
    [
        ("\\left(0\\right)", "\\left(0\\right)", "\\le(0\\right)"),
        ("\\sqrt[3]{2}", "\\sqrt[3]{2}", "\\sqrt{[}3]{2}"),
        ("0,1", "0,1", "01"),
    ],
)
def test_three_mistakes_of_the_published_listing_are_mended_unless_asked_for(
    answer: str, mended: str, published: str
) -> None:
    assert normalised(answer) == mended
    assert normalised(answer, as_published=True) == published


def test_answers_that_are_equal_are_the_same_however_they_are_written() -> None:
    for one, other in (
        ("\\frac{1}{2}", "0.5"),
        ("x+1", "1+x"),
        ("(x+1)^{2}", "x^{2}+2x+1"),
        ("\\sqrt{8}", "2\\sqrt{2}"),
        ("[2,5)", "[2,5)"),
    ):
        assert same_answer(one, other)
        assert same_answer(other, one)
    different = [("1", "2"), ("x", "y"), ("(1,2)", "(2,1)"), ("", ""), ("", "0"), ("{", "}")]
    assert [pair for pair in different if same_answer(*pair)] == []


@settings(max_examples=40, deadline=None)
@given(like_latex)
def test_scoring_never_fails_on_what_a_model_writes(response: str) -> None:
    doc = {"solution": "It is $\\boxed{5}$.", "answer": "5"}
    for scores in (minerva_scores(doc, [response]), leaderboard_scores(doc, [response])):
        assert set(scores.values()) <= {0, 1}


def test_a_comparison_that_would_never_end_is_ended_and_the_next_one_answers() -> None:
    assert not verified("It is $\\boxed{\\frac{1}{2}}$.", "$\\boxed{9^{9^{9}}}$")
    assert verified("It is $\\boxed{\\frac{1}{2}}$.", "So it is $\\boxed{1/2}$.")


def test_a_response_scores_by_its_sentence_and_anywhere_in_math_verify() -> None:
    doc = {"solution": "It is $\\boxed{\\frac{1}{2}}$.", "answer": "\\frac{1}{2}"}
    right, wrong = [response_with("0.5")], [response_with("0.6")]
    assert minerva_scores(doc, right) == {"exact_match": 1, "math_verify": 1}
    assert minerva_scores(doc, wrong) == {"exact_match": 0, "math_verify": 0}
    assert leaderboard_scores(doc, right) == {"exact_match": 1, "exact_match_original": 1}
    assert leaderboard_scores(doc, wrong) == {"exact_match": 0, "exact_match_original": 0}
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


# AGIEval, as its authors read and compare answers


def test_the_answer_is_found_as_the_papers_code_finds_it() -> None:
    answers = {
        "We get \\boxed{1}, no, \\boxed{x = \\frac{3}{4}}.": "\\frac{3}{4}",
        "\\fbox{\\sqrt{2}}": "\\sqrt{2}",
        "The box \\boxed{1 never closes": None,
        "so $a = 3$\nand $b = 4$": "4",
        "x + 1 = 3, so x = 2.\nThat is all.": "2",
        "After 3 steps there are 12.5 left": "12.5",
        "twelve": None,
        "": None,
    }
    assert {response: agieval.parsed(response) for response in answers} == answers


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
    assert len({agieval.normalised(text) for text in same}) == 1


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
        ("", "", False),
    ],
)
def test_a_response_is_right_where_it_gives_the_answer(
    answer: str, response: str, right: bool
) -> None:
    assert agieval.is_right(answer, response) is right
    assert agieval.scores({"answer": answer}, [response]) == {"acc": int(right)}


# Exact match and F1


def test_exact_match_compares_normal_forms() -> None:
    forms = {
        "The  Red-Kite!": "redkite",
        "an apple a day": "apple day",
        "1,204": "1204",
        "Athens": "athens",
        " \n": "",
    }
    assert {text: normal_form(text) for text in forms} == forms
    assert trivia_form("Capuchin’s Red-Kite_x") == "capuchin s red kite x"
    doc = {"answer": {"aliases": ["NYC", "New York City"]}}
    assert triviaqa_scores(doc, [" new york city.\nmore"]) == {"em": 1, "f1": 1}
    assert triviaqa_scores(doc, [" York"]) == {"em": 0, "f1": 0.5}
    assert nq_open_scores({"answer": ["yellow"]}, ["  \n"]) == {"em": 0, "f1": 0}
    assert web_questions_scores({"answers": ["4", "four"]}, [" Four!"]) == {"em": 1, "f1": 1}


def test_f1_is_the_harmonic_mean_of_the_shares_of_shared_words() -> None:
    scores = {
        ("Denver Broncos", "the Denver team"): 0.5,  # 1 of 2 words, 1 of 2 words
        ("nine red kites", "nine"): 0.5,  # all of 1 word, 1 of 3 words
        ("red red kite", "red"): 0.5,  # a word counts as often as both have it
        ("kite", "goat"): 0.0,
        ("the", ""): 1.0,  # both without words
        ("kite", "the"): 0.0,
    }
    assert {pair: overlap(*pair) for pair in scores} == pytest.approx(scores)


def squad(*texts: str) -> dict[str, object]:
    return {"answers": {"text": list(texts), "answer_start": [0] * len(texts)}}


@pytest.mark.parametrize("said", [" Unanswerable.\n", "\n\n"])
def test_to_abstain_is_right_only_where_there_is_no_answer(said: str) -> None:
    assert squad_v2_scores(squad(), [said]) == {
        "exact": 1,
        "f1": 1,
        "NoAns_exact": 1,
        "NoAns_f1": 1,
        "decision_acc": 1,
    }
    assert squad_v2_scores(squad("Brno"), [said]) == {
        "exact": 0,
        "f1": 0,
        "HasAns_exact": 0,
        "HasAns_f1": 0,
        "decision_acc": 0,
    }


def test_an_answer_where_there_is_none_and_a_wrong_one_score_in_part() -> None:
    scores = squad_v2_scores(squad("in summer", "summer"), ["winter or summer\nQuestion:"])
    assert scores["exact"] == 0
    assert scores["f1"] == pytest.approx(2 / (1 + 3))
    assert scores["decision_acc"] == 1
    assert set(squad_v2_scores(squad(), ["Brno"]).values()) == {0}


def test_each_person_is_left_out_in_turn() -> None:
    assert coqa_scores({"humans": ["Per"]}, ["per"]) == {"em": 1, "f1": 1}
    # Without Ada, Bo or Cy there is still a “yes”; so there is without Di.
    assert coqa_scores({"humans": ["yes", "Yes.", "yes", "it was"]}, ["yes"]) == {"em": 1, "f1": 1}
    # Where only Ada says so, it is wrong in one of two rounds.
    assert coqa_scores({"humans": ["yes", "it was"]}, ["yes"]) == {"em": 0.5, "f1": 0.5}
    # Rounds: best of “red kite” and “kite” is 1; without “kite” 2·1/(1+2); without “red kite” 1.
    scores = coqa_scores({"humans": ["kite", "red kite", "goat"]}, ["\nkite\nQ: more"])
    assert scores == {"em": pytest.approx(2 / 3), "f1": pytest.approx((2 / 3 + 1 + 1) / 3)}


def test_an_answer_that_goes_on_from_another_is_left_out() -> None:
    doc = {"answers": ["French Sign Language", "Arpitan", "French"]}
    assert without_longer(doc) == ["Arpitan", "French"]
    assert all_without_longer(doc) == [0, 1]


# DROP


NO_DATE = {"day": "", "month": "", "year": ""}


def answer(number: str = "", spans: list[str] | None = None, **date: str) -> dict[str, Any]:
    return {"number": number, "spans": spans or [], "date": {**NO_DATE, **date}}


def test_words_are_cut_at_hyphens_and_numbers_are_floats() -> None:
    forms = {
        "The 21-yard goal": "21.0 yard goal",
        "1,204": "1204.0",
        "12.50": "12.5",
        "60%": "60.0",
        "Jo-Ann  Lee's": "jo ann lees",
        "a": "",
        "1e3": "1000.0",
    }
    assert {span: drop.normal_form(span) for span in forms} == forms


def test_the_accepted_answers_of_a_document_and_their_type() -> None:
    assert drop.spans_of(answer(number="7.5")) == ("7.5",)
    assert drop.spans_of(answer(spans=["Ada", "Bo"])) == ("Ada", "Bo")
    assert drop.spans_of(answer(day="3", month="May", year="1874")) == ("3 May 1874",)
    assert drop.spans_of(answer(year="1871")) == ("1871",)
    assert drop.spans_of(answer()) == ("",)
    of = [answer(number="1"), answer(spans=["x"]), answer(spans=["x", "y"]), answer(year="1871")]
    assert [drop.type_of(one) for one in of] == ["number", "span", "spans", "date"]
    checked = {"number": ["7", ""], "date": [NO_DATE, NO_DATE], "spans": [[], ["seven points"]]}
    rows = Dataset.from_list([{"answer": answer(number="7"), "validated_answers": checked}])
    assert drop.with_answers(rows)[0]["answers"] == [["7"], ["seven points"]]


def test_spans_are_paired_as_suits_best_and_divided_by_the_longer_side() -> None:
    # {ada, brandt} with {brandt}: 1 of 1 and 1 of 2 words, 2/3; the second span has no partner.
    assert drop.compare(["Ada Brandt", "Jo-Ann Lee"], ["Brandt"]) == (0, 0.33)
    assert drop.compare(["Brandt"], ["Ada Brandt", "Jo-Ann Lee"]) == (0, 0.33)
    # Bo Lee goes with Bo and Ada Lee with Ada Lee: (2/3 + 1) / 2.
    assert drop.compare(["Bo", "Ada Lee"], ["Ada Lee", "Bo Lee"]) == (0, 0.83)
    assert drop.compare(["21 yards"], ["3 yards"]) == (0, 0)
    assert drop.compare(["yards"], ["3 yards"]) == (0, 0.67)
    assert drop.best([["seven"], ["7"]], ["7.0"]) == (1, 1)
    assert drop.best([[""]], [""]) == (0, 0)


def test_a_line_is_one_span_or_several() -> None:
    doc = {"answers": [["farmers", "smiths", "millers"]]}
    assert drop.scores(doc, [" smiths, millers, farmers\nPassage:"]) == {"em": 1, "f1": 1}
    assert drop.scores({"answers": [["Brno, Moravia"]]}, [" Brno, Moravia"]) == {"em": 1, "f1": 1}
    assert drop.scores({"answers": [["12"]]}, ["\n"]) == {"em": 0, "f1": 0}
    assert drop.scores_as_one_span(doc, ["smiths, millers, farmers"]) == {"em": 0, "f1": 0.17}


# ReCoRD


ROW: dict[str, Any] = {
    "passage": "  Lena Ortiz won.\n@highlight\nOrtiz is 19\n@highlight\nVos lost a mast\n",
    "query": "@placeholder waved, and @placeholder left",
    "entities": ["Vos", "Ortiz", "Lena Ortiz", "Ortiz"],
    "answers": ["Ortiz", "Lena Ortiz", "Ortiz"],
    "idx": {"passage": 4, "query": 9},
}


def prepared(**changed: Any) -> dict[str, Any]:
    doc: dict[str, Any] = record.prepare(Dataset.from_list([ROW | changed]))[0]
    return doc


def test_a_row_becomes_its_article_its_points_and_each_name_once() -> None:
    doc = prepared()
    assert doc["article"] == "Lena Ortiz won."
    assert doc["highlights"] == ["Ortiz is 19", "Vos lost a mast"]
    assert doc["passage_id"] == 4
    doc = prepared()
    assert doc["entities"] == ["Lena Ortiz", "Ortiz", "Vos"]
    assert doc["completions"][2] == "  - Vos waved, and Vos left"
    assert doc["name_count"] == len(doc["completions"]) == 3
    assert prepared(answers=[])["completed"] == ""


def test_the_likeliest_name_counts_whole_or_in_part() -> None:
    results = [(-3.0, False), (-1.0, False), (-2.0, False)]
    assert record.of_choices(prepared(), results) == {"acc": 1.0, "em": 1.0, "f1": 1.0}
    doc = prepared(entities=["Bo Ortiz", "Vos"], answers=["Lena Ortiz"])
    scores = record.of_choices(doc, [(-1.0, False), (-2.0, False)])
    assert scores == {"acc": 0.0, "em": 0.0, "f1": 0.5}


def test_generated_text_scores_against_the_alias_that_fits_best() -> None:
    for text, whole, part in (("the ortiz!", 1, 1), ("Lena", 0, 2 / 3), ("Vos", 0, 0), ("", 0, 0)):
        scores = record.of_text(prepared(), [text])
        assert scores == {"exact_match": whole, "f1": pytest.approx(part)}


def test_case_punctuation_and_articles_do_not_count() -> None:
    for answer, right, score in (
        ("U.S.", "us", 1),
        ("The Hague", "hague", 1),
        ("the", "", 1),
        ("the", "a b", 0),
    ):
        assert (record.exact(answer, right), record.f1(answer, right)) == (score, score)


# DocVQA


def test_the_nearest_of_several_answers_counts_up_to_half_of_its_letters() -> None:
    values = {("total", "total"): 1.0, ("totel", "total"): 0.8, ("ab", "xb"): 0.0, ("", ""): 1.0}
    assert {pair: docvqa.nearness(*pair) for pair in values} == pytest.approx(values)
    doc = {"answers": ["Forty-two", "42.50"]}
    assert docvqa.process_results(doc, [" forty-TWO "]) == {"anls": 1.0, "exact_match": 1.0}
    assert docvqa.process_results(doc, ["42.5"]) == {"anls": pytest.approx(0.8), "exact_match": 0.0}
    assert docvqa.process_results(doc, ["none"]) == {"anls": 0.0, "exact_match": 0.0}


# What lm-evaluation-harness's own code finds in a response


def lm_eval_code(file: str) -> Any:
    """The module that lm-eval's task loads from this file of its tasks folder."""
    package = importlib.util.find_spec("lm_eval")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / "tasks" / file
    spec = importlib.util.spec_from_file_location(f"lm_eval_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mixture(pieces: str, others: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    """Responses put together from these pieces, which a space parts, and further ones."""
    parts = st.sampled_from([*pieces.split(), *others])
    return st.lists(parts, max_size=8).map(" ".join) | st.text(max_size=20)


CHART_RESPONSES = mixture(
    'Answer: answer: **Answer**: is Yes B 42 41.5 50% 0.5 1,000 $7 "x" 7. -3 (7) no. \' B. %',
    ("Final Answer:", "FINAL ANSWER: ", "\n", " "),
)
CHART_ANSWERS = st.sampled_from(["42", "0.5", "50%", "1000", "Yes", "B", "-3", "nan", '"x"', "0"])


@peer
def test_chartqa_scores_as_lm_eval_does() -> None:
    theirs = lm_eval_code("chartqa/utils.py")

    @settings(max_examples=200, deadline=None)
    @given(CHART_RESPONSES, CHART_ANSWERS)
    def holds(response: str, right: str) -> None:
        for name in ("exact_match", "relaxed_accuracy", "anywhere_accuracy"):
            found = getattr(chartqa, name)([right], [response])
            assert found == getattr(theirs, name)([right], [response]), name

    holds()


MMMU_RESPONSES = mixture(
    "A B (A) (C) D red green is so answer = therefore 3 3.0 1,000 2e3 -7 .5 b . ! '",
    ("a blue box", "\n", ". The", " D "),
)
MMMU_ANSWERS = st.sampled_from(["3", "1000", "b", "red", "-7", "a blue box", "0.5", ""])


@peer
def test_mmmu_scores_as_lm_eval_does() -> None:
    theirs = lm_eval_code("mmmu/utils.py")

    @settings(max_examples=200, deadline=None)
    @given(MMMU_RESPONSES, MMMU_ANSWERS, st.booleans())
    def holds(response: str, answer: str, is_open: bool) -> None:
        kind = "open" if is_open else "multiple-choice"
        doc = mmmu_doc(answer=answer, question_type=kind)
        random.seed(1)
        found = mmmu.process_results(doc, [response])
        random.seed(1)
        assert found == theirs.process_results(doc, [response])

    holds()


QUESTION = "Which is it?\nOptions:\n(A) a red ball\n(B) a red ball, too\n(C) None of these"
LIST = "Sort the following words alphabetically: List: oak elm ash"
PLAUSIBLE = {r"\b(no|not plausible)\b": "no", r"\b(yes|plausible)\b": "yes"}
BBH_PIECES = (
    *("(A)", "(B)", "(C)", "a red ball", ", too", "None of these", ": B", ": ", "The answer is "),
    *("twenty", " one", "hundred", " and ", "seven", "eight", "eighteen", "12", "-3", ","),
    "million",
    *("yes", "No", "plausible", "not plausible", "oak", "elm ", " ash", "\n", ".", "", "é"),
)


@peer
@pytest.mark.parametrize("select", [0, -1])
def test_filters_of_bbh_find_what_lm_evals_find(select: int) -> None:
    theirs = lm_eval_code("bbh/cot_zeroshot/utils.py")
    letter = {"ignore_case": True, "ignore_punctuation": True, "group_select": select}
    meaning = {"ignore_case": True, "group_select": select}
    letters, number = r"(\([A-Z]\))", "([-0-9]+)"
    pairs: list[tuple[Any, Any, str]] = [
        (
            bbh.Option(letters, **letter),
            theirs.MultiChoiceRegexFilter(regex_pattern=letters, **letter),
            QUESTION,
        ),
        (bbh.Number(number, select), theirs.NumberParseRegexFilter(number, select), ""),
        (bbh.Meaning(PLAUSIBLE, **meaning), theirs.MapRegexFilter(PLAUSIBLE, **meaning), ""),
        (bbh.Sorted(), theirs.WordSortFilter(), LIST),
    ]
    generator = random.Random(5)
    for _ in range(750):
        response = "".join(generator.choices(BBH_PIECES, k=generator.randint(1, 6)))
        for ours, other, question in pairs:
            found = only(ours.apply([[response]], [{"input": question}]))
            assert found == outcome(other, response, question), (type(ours).__name__, response)


def only(found: Any) -> str:
    ((text,),) = found
    return str(text)


def outcome(other: Any, response: str, question: str) -> str:
    try:
        return only(other.apply([[response]], [{"input": question}]))
    except (ValueError, IndexError):  # its run ends at words that are no number, such as "million"
        return bbh.NOT_FOUND


AGIEVAL_PIECES = (
    *("\\boxed{", "}", "{", "$", "=", "x", "1", "2", "0.5", ".5", "/", "\\frac", "\\sqrt", " "),
    "3",
    *("\\text{ cm}", "\\text{ ", "%", "\\%", "\\$", "tfrac", "dfrac", "\\left(", "\\right)", "7/8"),
    *("^\\circ", "\n", "\\n", ".", "y= ", "\\fbox{3}", "\\boxed", "\\dfrac12", "\\frac{1}{2}"),
)


@peer
def test_written_answers_of_agieval_are_found_and_compared_as_in_lm_eval(
    capsys: pytest.CaptureFixture[str],
) -> None:
    theirs = lm_eval_code("agieval/utils.py")
    generator = random.Random(5)
    for _ in range(4000):
        answer = "".join(generator.choices(AGIEVAL_PIECES, k=generator.randint(0, 6)))
        other = "".join(generator.choices(AGIEVAL_PIECES, k=generator.randint(0, 3)))
        response = generator.choice((answer, other, answer + other))
        assert agieval_written.found(answer) == theirs.parse_math_answer(answer)
        verdict = agieval_written.is_right(answer, response)
        assert verdict == theirs.is_equiv(response, answer), (answer, response)
    capsys.readouterr()
