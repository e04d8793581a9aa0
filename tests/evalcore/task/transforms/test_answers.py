"""Exact match and F1 of short answers, by hand from the papers' definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.answers import (
    all_without_longer,
    best,
    coqa_scores,
    exact,
    normal_form,
    nq_open_scores,
    overlap,
    squad_v2_scores,
    trivia_form,
    triviaqa_scores,
    web_questions_scores,
    without_longer,
)

WORDS = st.lists(st.sampled_from(["the", "A", "red", "kite", "Öster", "1,204", "!", "nine"]))
PHRASES = WORDS.map(" ".join)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Red-Kite!", "redkite"),
        ("an apple a day", "apple day"),
        ("1,204", "1204"),
        ("Athens", "athens"),
        (" \n", ""),
    ],
)
def test_the_normal_form_has_no_case_marks_articles_or_extra_space(text: str, normal: str) -> None:
    assert normal_form(text) == normal


def test_in_trivia_a_mark_parts_words() -> None:
    assert trivia_form("Capuchin’s Red-Kite_x") == "capuchin s red kite x"


@given(st.text())
def test_a_normal_form_is_its_own_normal_form(text: str) -> None:
    assert normal_form(normal_form(text)) == normal_form(text)


@pytest.mark.parametrize(
    ("accepted", "said", "f1"),
    [
        ("Denver Broncos", "the Denver team", 0.5),  # 1 of 2 words, 1 of 2 words
        ("nine red kites", "nine", 0.5),  # all of 1 word, 1 of 3 words
        ("red red kite", "red", 0.5),  # a word counts as often as both have it
        ("kite", "goat", 0.0),
        ("the", "", 1.0),  # both without words
        ("kite", "the", 0.0),
    ],
)
def test_f1_is_the_harmonic_mean_of_the_shares_of_shared_words(
    accepted: str, said: str, f1: float
) -> None:
    assert overlap(accepted, said) == pytest.approx(f1)


@given(PHRASES, PHRASES)
def test_f1_lies_between_exact_match_and_one_and_has_no_direction(one: str, other: str) -> None:
    assert exact(one, other) <= overlap(one, other) <= 1
    assert overlap(one, other) == overlap(other, one)


@given(st.lists(PHRASES, max_size=4), PHRASES)
def test_the_best_of_the_accepted_answers_counts(accepted: list[str], said: str) -> None:
    em, f1 = best(accepted, said)
    assert em == any(normal_form(right) == normal_form(said) for right in accepted)
    assert f1 == max((overlap(right, said) for right in accepted), default=0)


def test_nothing_accepted_is_nothing_right() -> None:
    assert best([], "kite") == (0, 0)


def test_any_alias_is_right_in_trivia() -> None:
    doc = {"answer": {"aliases": ["NYC", "New York City"]}}
    assert triviaqa_scores(doc, [" new york city.\nmore"]) == {"em": 1, "f1": 1}
    assert triviaqa_scores(doc, [" York"]) == {"em": 0, "f1": 0.5}


def test_an_empty_response_is_wrong() -> None:
    assert nq_open_scores({"answer": ["yellow"]}, ["  \n"]) == {"em": 0, "f1": 0}
    assert web_questions_scores({"answers": ["4", "four"]}, [" Four!"]) == {"em": 1, "f1": 1}


def squad(*texts: str) -> dict[str, object]:
    return {"answers": {"text": list(texts), "answer_start": [0] * len(texts)}}


@pytest.mark.parametrize("said", ["unanswerable", " Unanswerable.\n", "", "\n\n"])
def test_to_abstain_is_right_where_there_is_no_answer(said: str) -> None:
    assert squad_v2_scores(squad(), [said]) == {
        "exact": 1,
        "f1": 1,
        "NoAns_exact": 1,
        "NoAns_f1": 1,
        "decision_acc": 1,
    }


@pytest.mark.parametrize("said", ["unanswerable", ""])
def test_to_abstain_is_wrong_where_there_is_an_answer(said: str) -> None:
    assert squad_v2_scores(squad("Brno"), [said]) == {
        "exact": 0,
        "f1": 0,
        "HasAns_exact": 0,
        "HasAns_f1": 0,
        "decision_acc": 0,
    }


def test_a_wrong_answer_to_a_question_that_has_one_is_a_right_decision() -> None:
    scores = squad_v2_scores(squad("in summer", "summer"), ["winter or summer\nQuestion:"])
    assert scores["exact"] == 0
    assert scores["f1"] == pytest.approx(2 / (1 + 3))
    assert scores["decision_acc"] == 1


def test_an_answer_where_there_is_none_is_wrong_in_everything() -> None:
    assert set(squad_v2_scores(squad(), ["Brno"]).values()) == {0}


def test_an_answer_of_nothing_but_an_article_is_no_answer() -> None:
    assert squad_v2_scores(squad("the"), [""])["NoAns_exact"] == 1


def test_each_person_is_left_out_in_turn() -> None:
    # Without Ada, Bo or Cy there is still a “yes”; so there is without Di.
    assert coqa_scores({"humans": ["yes", "Yes.", "yes", "it was"]}, ["yes"]) == {"em": 1, "f1": 1}
    # Where only Ada says so, it is wrong in one of two rounds.
    assert coqa_scores({"humans": ["yes", "it was"]}, ["yes"]) == {"em": 0.5, "f1": 0.5}


def test_f1_of_rounds_is_averaged() -> None:
    # Rounds: best of “red kite” and “kite” is 1; without “kite” 2·1/(1+2); without “red kite” 1.
    scores = coqa_scores({"humans": ["kite", "red kite", "goat"]}, ["\nkite\nQ: more"])
    assert scores == {"em": pytest.approx(2 / 3), "f1": pytest.approx((2 / 3 + 1 + 1) / 3)}


def test_one_person_alone_is_not_left_out() -> None:
    assert coqa_scores({"humans": ["Per"]}, ["per"]) == {"em": 1, "f1": 1}


@given(st.lists(PHRASES, min_size=1, max_size=4), PHRASES, st.randoms(use_true_random=False))
def test_the_order_of_people_does_not_matter(humans: list[str], said: str, random: object) -> None:
    shuffled = list(humans)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    scores = coqa_scores({"humans": humans}, [said])
    assert coqa_scores({"humans": shuffled}, [said]) == pytest.approx(scores)
    assert 0 <= scores["em"] <= scores["f1"] + 1e-9 <= 1 + 2e-9


def test_an_answer_that_goes_on_from_another_is_left_out() -> None:
    doc = {"answers": ["French Sign Language", "Arpitan", "French"]}
    assert without_longer(doc) == ["Arpitan", "French"]
    assert all_without_longer(doc) == [0, 1]


@given(st.lists(st.text("ab", max_size=4), min_size=1))
def test_every_accepted_answer_begins_with_one_that_is_kept(answers: list[str]) -> None:
    kept = without_longer({"answers": answers})
    assert all(any(answer.startswith(one) for one in kept) for answer in answers)
    assert not any(a.startswith(b) for a in kept for b in kept if a is not b)
