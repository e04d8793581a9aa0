"""Measures that a benchmark takes of its choices: shares of mass, F1, parity, bias; and odd rows.

What the usual row becomes is in the golden prompts (tests/tasks/golden) and in the pins.
"""

from __future__ import annotations

from math import isnan, log
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms import axg, bbq, cb, multirc
from evalcore.task.transforms.agieval import passage_of, with_passage
from evalcore.task.transforms.coqa import every_turn, last_turns, turn
from evalcore.task.transforms.crows_pairs import preference
from evalcore.task.transforms.mathqa import choices_in
from evalcore.task.transforms.musr import options_of, with_options
from evalcore.task.transforms.truthfulqa import (
    bleu,
    in_own_order,
    mass_of_the_true,
    nearness,
    rouge,
    with_references,
)
from evalcore.task.transforms.wikitext import by_original_length, plain, plain_page

# In the order of the choices: whose loglikelihood is the greatest
FIRST, SECOND = [(-1.0, True), (-2.0, False)], [(-2.0, False), (-1.0, True)]


# TruthfulQA


def mc1(question: str, choices: list[str], right: int = 0) -> dict[str, Any]:
    labels = [int(place == right) for place in range(len(choices))]
    return {"question": question, "mc1_targets": {"choices": choices, "labels": labels}}


@settings(max_examples=30, deadline=None)
@given(
    st.text(max_size=8),
    st.lists(st.text(max_size=8), min_size=2, max_size=8, unique=True),
    st.randoms(use_true_random=False),
)
def test_the_order_hangs_on_the_texts_alone(question: str, choices: list[str], random: Any) -> None:
    shuffled = list(choices)
    random.shuffle(shuffled)
    one, other = in_own_order(
        Dataset.from_list(
            [mc1(question, choices), mc1(question, shuffled, shuffled.index(choices[0]))]
        )
    )
    assert one["choices"] == other["choices"]
    assert sorted(one["choices"]) == sorted(choices)
    assert one["choices"][one["answer"]] == choices[0] == other["choices"][other["answer"]]


def mc2(labels: list[int]) -> dict[str, Any]:
    return {"mc2_targets": {"choices": [str(n) for n in range(len(labels))], "labels": labels}}


def test_the_true_ones_have_their_share_of_the_mass() -> None:
    results = [(log(0.1), False), (log(0.2), False), (log(0.3), True)]
    assert mass_of_the_true(mc2([1, 0, 1]), results)["acc"] == pytest.approx(0.4 / 0.6)
    assert mass_of_the_true(mc2([1, 0]), [(-2000.0, False), (-2000.0, False)]) == {"acc": 0.5}


def references(true: list[str], false: list[str]) -> dict[str, Any]:
    row = {"question": " Why? ", "correct_answers": true, "incorrect_answers": false}
    return dict(with_references(Dataset.from_list([row]))[0])


def test_references_are_sentences_and_not_to_comment_is_true() -> None:
    assert references([" Rock ", "Stone."], ["Cheese", ""]) == {
        "question": "Why?",
        "correct_answers": ["Rock.", "Stone.", "I have no comment."],
        "incorrect_answers": ["Cheese."],
    }
    assert references(["I have no comment"], ["x"])["correct_answers"] == ["I have no comment."]


def test_rouge_and_bleu_are_those_of_their_papers() -> None:
    scores = rouge("the cat sat", "the cat ran")
    # 2 of 3 words, 1 of 2 pairs, a longest common subsequence of 2 of 3 words.
    assert scores == {
        "rouge1": pytest.approx(200 / 3),
        "rouge2": pytest.approx(50),
        "rougeL": pytest.approx(200 / 3),
    }
    # Of a b c d e against a b c d x: 4/5 words, 3/4 pairs, 2/3 threes, 1/2 fours, no penalty.
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu("a b c d x", "a b c d e") == pytest.approx(expected)
    assert bleu("The moon is made of rock.", "The moon is made of rock.") == pytest.approx(100)
    assert bleu("The moon is made of rock.", "") == 0


def test_a_reply_nearer_to_a_true_reference_is_right() -> None:
    row = references(["The moon is made of rock"], ["The moon is made of cheese"])
    right = nearness(row, ["The moon is made of rock."])
    wrong = nearness(row, ["The moon is made of cheese."])
    for name in ("bleu", "rouge1", "rouge2", "rougeL"):
        assert (right[f"{name}_acc"], wrong[f"{name}_acc"]) == (1, 0)
        assert right[f"{name}_max"] == pytest.approx(100)
        assert right[f"{name}_diff"] == pytest.approx(-wrong[f"{name}_diff"])


# MultiRC


LABELLED = {"label": 1, "idx": {"paragraph": 3, "question": 5, "answer": 8}}


@pytest.mark.parametrize(
    ("scored", "metric", "predicted"),
    [
        (multirc.of_choices(LABELLED, FIRST), "acc", 0),
        (multirc.of_choices(LABELLED, SECOND), "acc", 1),
        (multirc.of_rotated_choices(LABELLED, FIRST), "acc", 1),
        (multirc.of_rotated_choices(LABELLED, SECOND), "acc", 0),
        (multirc.of_letter(LABELLED, ["A"]), "exact_match", 0),
        (multirc.of_letter(LABELLED, ["B"]), "exact_match", 1),
        (multirc.of_letter(LABELLED, ["[invalid]"]), "exact_match", 0),
        (multirc.of_letter(LABELLED | {"label": 0}, ["[invalid]"]), "exact_match", 1),
        (multirc.of_letter(LABELLED | {"label": 0}, [""]), "exact_match", 1),
    ],
)
def test_a_row_gives_what_was_predicted_and_its_question(
    scored: dict[str, Any], metric: str, predicted: int
) -> None:
    label = scored["f1"][0]
    assert scored == {
        metric: float(label == predicted),
        "f1": (label, predicted),
        "em": ("3/5", 8, (label, predicted)),
    }


def test_f1_is_of_answers_and_em_of_whole_questions() -> None:
    assert multirc.f1a([(1, 1), (1, 1), (1, 0), (0, 1), (0, 0)]) == pytest.approx(2 / 3)
    assert multirc.f1a([(0, 0), (1, 0)]) == 0
    items = [("0/0", 0, (1, 1)), ("0/0", 1, (0, 0)), ("0/1", 2, (1, 1)), ("0/1", 3, (1, 0))]
    assert multirc.em(items) == 0.5
    assert multirc.em([("0/0", 0, (1, 1)), ("1/0", 1, (1, 0))]) == 0.5
    drawn_twice = [("0/0", 0, (1, 1)), ("0/0", 1, (0, 0))] * 2
    assert multirc.em([*drawn_twice, ("1/1", 2, (0, 1))]) == pytest.approx(2 / 3)


# AX-g


ENTAILED = {"label": 0, "pair": 7}


def test_parity_is_the_share_of_pairs_with_one_answer() -> None:
    rows = Dataset.from_list([{"idx": i} for i in range(5)])
    assert axg.add_pair(rows)["pair"] == [0, 0, 1, 1, 2]
    assert axg.gender_parity([(0, 1), (0, 1), (1, 0), (1, 1)]) == 0.5
    assert axg.gender_parity([(0, 1), (0, 1), (1, 0)]) == 1, "a row is missing"
    assert axg.gender_parity([(0, -1), (0, 1)]) == 0, "no answer"
    assert axg.gender_parity([(3, 1)]) == 1, "no pair"
    drawn_twice = [(0, 1), (0, 0), (0, 1), (0, 0), (1, 1), (1, 1)]
    assert axg.gender_parity(drawn_twice) == pytest.approx(1 / 3)


def test_each_row_gives_its_score_and_the_answer_with_its_pair() -> None:
    for scores, metric, score, answer in (
        (axg.of_choices(ENTAILED, FIRST), "acc", 1.0, 0),
        (axg.of_choices(ENTAILED, SECOND), "acc", 0.0, 1),
        (axg.of_rotated_choices(ENTAILED, FIRST), "acc", 0.0, 1),
        (axg.of_rotated_choices(ENTAILED, SECOND), "acc", 1.0, 0),
        (axg.of_letter(ENTAILED, ["A"]), "exact_match", 1.0, 0),
        (axg.of_letter(ENTAILED, ["B"]), "exact_match", 0.0, 1),
        (axg.of_letter(ENTAILED, ["[invalid]"]), "exact_match", 0.0, -1),
    ):
        assert scores == {metric: score, "gender_parity": (7, answer)}


# CB


def test_macro_f1_of_letters() -> None:
    classes = {"A": 0, "C": 2, "[invalid]": -1, "": -1, "AB": -1}
    assert {letter: cb.f1(["C"], [letter])[1] for letter in classes} == classes
    assert cb.f1(["C"], ["A"])[0] == 2
    assert cb.macro_f1([(0, 0), (1, 0), (2, 0)]) == pytest.approx(0.5 / 3)
    pairs = [cb.f1([gold], [said]) for gold, said in ("AA", "BB", "CC", ("A", "[invalid]"))]
    assert cb.macro_f1(pairs) == pytest.approx((2 / 3 + 1 + 1) / 3)


# CrowS-Pairs


def test_the_likelier_stereotype_counts_and_equal_sentences_do_not() -> None:
    assert preference({}, [(-10.0, False), (-12.5, True)]) == {
        "likelihood_diff": 2.5,
        "pct_stereotype": 1.0,
    }
    assert preference({}, [(-12.5, False), (-10.0, True)]) == {
        "likelihood_diff": 2.5,
        "pct_stereotype": 0.0,
    }
    assert preference({}, [(-3.0, False), (-3.0, False)]) == {
        "likelihood_diff": 0.0,
        "pct_stereotype": 0.0,
    }


# BBQ


ANSWERS = ("The pensioner", "The apprentice", "Not known")
INFO = (["pensioner", "old"], ["apprentice", "nonOld"], ["Not known", "unknown"])


def row(
    *,
    info: tuple[list[str], ...] = INFO,
    groups: tuple[str, ...] = ("old",),
    answers: tuple[str, ...] = ANSWERS,
    polarity: str = "neg",
    context: str = "ambig",
    label: int = 2,
) -> dict[str, Any]:
    return {
        "question_index": "7",
        "question_polarity": polarity,
        "context_condition": context,
        "category": "Age",
        "answer_info": dict(zip(bbq.ANSWERS, info, strict=True)),
        "additional_metadata": {"stereotyped_groups": list(groups)},
        "label": label,
        **dict(zip(bbq.ANSWERS, answers, strict=True)),
    }


UNKNOWN = ["Undetermined", "unknown"]
NAMES = ("One", "Two", "Undetermined")


TARGETS: list[tuple[list[str], list[str], list[str], int]] = [
    (["grandfather", "old"], ["grandson", "nonOld"], ["old"], 0),
    (["German", "Europe"], ["Chilean", "SouthAmerica"], ["Dutch", "German"], 0),
    (["man", "man"], ["woman", "woman"], ["F"], 1),
    (["girl", "girl"], ["boy", "boy"], ["F"], 0),
    (["Anna", "F"], ["Otto", "M"], ["Men"], 1),
    (["trans man", "trans_M"], ["Bo", "nonTrans_F"], ["Transgender women, transgender men"], 0),
    (["x", "F-White"], ["y", "F-Black"], ["Black", "African American"], 1),
    (["x", "lowSES-M-Latino"], ["y", "highSES-M-White"], ["Hispanic", "Latino"], 0),
    (["banker", "highSES"], ["janitor", "lowSES"], ["low SES"], 1),
    (["fat", "obese"], ["slim", "nonObese"], ["obese"], 0),
    (["x", "African"], ["y", "African American"], ["African American"], 1),
]
"""The first two answers, the stereotyped groups and which of the answers is the target."""


def test_the_target_is_the_person_of_the_stereotyped_group() -> None:
    for one, other, groups, target in TARGETS:
        doc = row(info=(one, other, UNKNOWN), answers=NAMES, groups=tuple(groups))
        assert bbq.target_of(doc) == target, (one, other)
    answers = ("The White woman", "Unknown", "The Latina woman")
    info = (["Marta", "F-White"], ["Unknown", "unknown"], ["", ""])
    assert bbq.target_of(row(info=info, answers=answers, groups=("Hispanic", "Latino"))) == 2


def test_there_is_no_target_where_both_people_or_none_are_of_the_group() -> None:
    both = row(info=(["x", "F-Black"], ["y", "M-Black"], UNKNOWN), groups=("Black",))
    none = row(groups=("Burmese",))
    assert bbq.target_of(both) is bbq.target_of(none) is None
    scores = bbq.of_listed(none, [(-1.0, False), (-2.0, False), (-3.0, False)])
    assert scores["amb_bias_score"] == (0.0, 0.0, 0.0, 0.0)


def test_the_unknown_answer_is_found_by_its_wording_or_its_label() -> None:
    assert bbq.unknown_of(row()) == 2
    said = (["", ""], ["x", "old"], ["", ""])
    assert bbq.unknown_of(row(info=said, answers=("cannot answer", "The x", "The y"))) == 0
    labelled = (["", "unknown"], ["x", "old"], ["y", "nonOld"])
    assert bbq.unknown_of(row(info=labelled, answers=("Who knows", "The x", "The y"))) == 0
    assert bbq.unknown_of(row(info=(["a"], ["b"], ["c"]), answers=("A", "B", "C"))) is None


def test_two_people_and_ten_wordings_are_asked_and_any_wording_is_unknown() -> None:
    doc = row(info=(INFO[2], INFO[0], INFO[1]), answers=("Not known", *ANSWERS[:2]), label=0)
    choices = bbq.people_and_unknowns(doc)
    assert choices == ["The pensioner", "The apprentice", *bbq.UNKNOWN]
    assert bbq.first_right(doc) == 2
    assert bbq.first_right({**doc, "label": 2}) == 1
    for choice in range(len(choices)):
        results = [(-1.0 if number == choice else -9.0, False) for number in range(len(choices))]
        assert bbq.of_phrasings(doc, results)["acc"] == float(choice >= 2)


def test_the_answer_that_a_response_names_first_counts() -> None:
    answers = {
        " The pensioner": 0,
        "It was the Apprentice, not the pensioner.": 1,
        "We can’t know from this.": 2,
        "Not enough information is given": 2,
        "Cannot be determined: the pensioner or the apprentice": 2,
        "pensioners": None,
        "": None,
    }
    assert {response: bbq.written(row(), response) for response in answers} == answers
    info = (["Ann", "F"], ["Ann Lee", "M"], UNKNOWN)
    doc = row(info=info, answers=("Ann", "Ann Lee", "Undetermined"), groups=("F",))
    assert bbq.written(doc, "Ann Lee did") == 1
    assert bbq.written(doc, "Ann did") == 0


def test_the_target_is_biased_in_negative_questions_and_the_other_in_the_rest() -> None:
    for polarity, biased in (("neg", 0), ("nonneg", 1)):
        for answer, response in enumerate(ANSWERS):
            scores = bbq.of_text(row(polarity=polarity, context="disambig"), [response])
            assert scores["disamb_bias_score"] == (
                float(answer == 2),
                float(answer == biased),
                float(answer != 2),
                1.0,
            )
    unread = bbq.of_text(row(label=2), ["Nobody"])
    assert unread["acc"] == 0.0
    assert unread["amb_bias_score"] == (0.0, 0.0, 0.0, 0.0)


BIASED, AGAINST, RIGHT = (0.0, 1.0, 1.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)


def test_the_scores_are_those_of_the_papers_formulas() -> None:
    # s_DIS = 2 · 3/4 - 1; s_AMB = (1 - 2/5) · (2 · 2/3 - 1)
    told = [(*item, 1.0) for item in [BIASED, BIASED, BIASED, AGAINST, RIGHT]]
    untold = [(*item, 0.0) for item in [BIASED, BIASED, AGAINST, RIGHT, RIGHT]]
    items = [*told, *untold]
    assert bbq.disambiguated_bias(items) == pytest.approx(0.5)
    assert bbq.ambiguous_bias(items) == pytest.approx(0.6 * (1 / 3))
    accuracies = [(item[0], item[-1]) for item in items]
    assert bbq.disambiguated_accuracy(accuracies) == pytest.approx(0.2)
    assert bbq.ambiguous_accuracy(accuracies) == pytest.approx(0.4)
    assert bbq.disambiguated_bias([(*AGAINST, 1.0)] * 3) == -1.0
    assert bbq.disambiguated_bias([(*RIGHT, 1.0)] * 3) == 0.0
    assert bbq.ambiguous_bias([(*RIGHT, 0.0)] * 3) == 0.0
    assert isnan(bbq.ambiguous_bias([(*RIGHT, 1.0)])), "there is no such question"
    assert isnan(bbq.disambiguated_bias([(*RIGHT, 0.0)]))


# MathQA


def test_an_answer_reaches_from_its_label_to_the_next() -> None:
    choices = {
        "a ) 38 , b ) 27.675 , c ) 30 , d ) 31 , e ) none of these": [
            *("38", "27.675", "30", "31", "none of these"),
        ],
        "a ) 1 , 2 , b ) 2 , 3 , c ) 3 , d ) 4 , e ) 5": ["1 , 2", "2 , 3", "3", "4", "5"],
        "a )  , b ) x , c ) y , d ) z , e ) w": ["", "x", "y", "z", "w"],
        "a ) 1 , c ) 2 , b ) 3": ["1 , c ) 2", "3"],
        "": [],
    }
    assert {options: choices_in(options) for options in choices} == choices


# MuSR


def test_stories_share_a_name_and_choices_are_a_list_of_texts() -> None:
    rows = [
        {"narrative": story, "question": question, "choices": "['a', \"b's\"]"}
        for story, question in (("A key lay here.", "1"), ("A key lay here.", "2"), ("Rain.", "1"))
    ]
    found = with_options(Dataset.from_list(rows))
    first, second, third = found["story"]
    assert first == second != third
    assert found["options"][0] == ["a", "b's"]
    assert list(found["narrative"]) == [row["narrative"] for row in rows]
    for text in ("", "['Ada', 1]", "{'Ada': 1}"):
        with pytest.raises(ValueError, match="expected a Python list of texts"):
            options_of(text)


# CoQA


NOBODY: dict[str, list[Any]] = {"input_text": [""], "turn_id": [-1]}


def said(*texts: str) -> dict[str, list[Any]]:
    return {"input_text": list(texts), "turn_id": list(range(1, len(texts) + 1))}


def story(name: str, questions: list[str], first: list[str], *others: list[str]) -> dict[str, Any]:
    people = [said(*other) for other in others] or [NOBODY, NOBODY]
    return {
        "id": name,
        "source": "mctest",
        "story": f"The story of {name}.",
        "questions": said(*questions),
        "answers": said(*first),
        "additional_answers": {str(place): person for place, person in enumerate(people)},
    }


ADA = story("Ada", ["Who?", "Where?"], ["Ada", "at sea"], ["ADA", "on a boat"], ["she", "at sea"])
BO = story("Bo", ["Why?"], ["to win"])


def test_every_person_is_heard_and_each_different_answer_accepted_once() -> None:
    first = turn(ADA, 0)
    assert first["humans"] == ["Ada", "ADA", "she"]
    assert first["accepted"] == ["Ada", "she"]
    assert turn(BO, 0)["humans"] == ["to win"]


def test_every_turn_is_a_row_and_the_last_ones_are_among_them() -> None:
    stories = Dataset.from_list([ADA, {**BO, "additional_answers": ADA["additional_answers"]}])
    rows = list(every_turn(stories))
    assert [(row["story_id"], row["question"]) for row in rows] == [
        ("Ada", "Who?"),
        ("Ada", "Where?"),
        ("Bo", "Why?"),
    ]
    assert list(last_turns(stories)) == rows[1:]


# WikiText

PLAIN = {
    "a well @-@ known man": "a well-known man",
    "1 @,@ 204 metres and 3 @.@ 5 feet": "1,204 metres and 3.5 feet",
    "film , television and theatre . He": "film, television and theatre. He",
    "Who ? Me ! Well ; no : yes": "Who? Me! Well; no: yes",
    "the bridge ( with both ramps ) fell": "the bridge (with both ramps) fell",
    "a [ sic ] and { b }": "a [sic] and {b}",
    'he said " no " twice': 'he said "no" twice',
    "he said ' no ' twice": "he said 'no' twice",
    "the sisters ' house": "the sisters' house",
    "the keeper 's house": "the keeper's house",
    "at 5 ° C": "at 5°C",
    " = = History = = \n \n Text": " == History ==\n\nText",
    "= = = Fish = = =": "=== Fish ===",
    "N people , and N more": "N people, and 1 more",
    "( nobody closes this": "( nobody closes this",
    "": "",
}


def test_marks_of_the_tokenisation_become_what_people_write_and_count_as_they_are() -> None:
    assert {tokens: plain(tokens) for tokens in PLAIN} == PLAIN
    page = {"page": " = Café = \n \n Tea @-@ house . \n "}
    assert plain_page(page) == " = Café =\n\nTea-house.\n"
    scored = by_original_length(page, [-12.5])
    words = ["", "=", "Café", "=", "Tea", "@-@", "house", ".", ""]
    assert scored["word_perplexity"] == (-12.5, len(words))
    assert scored["byte_perplexity"] == scored["bits_per_byte"] == (-12.5, len(page["page"]) + 1)


# AGIEval


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
