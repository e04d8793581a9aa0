"""TruthfulQA's measures, by hand."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms.truthfulqa import (
    bleu,
    in_own_order,
    mass_of_the_true,
    nearness,
    rouge,
    with_references,
)


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


def test_the_right_choice_does_not_always_come_first() -> None:
    rows = in_own_order(Dataset.from_list([mc1(f"{n}?", ["x", "y", "z"]) for n in range(300)]))
    places = [row["answer"] for row in rows]
    assert all(70 < places.count(place) < 130 for place in range(3))


def doc(labels: list[int]) -> dict[str, Any]:
    return {"mc2_targets": {"choices": [str(n) for n in range(len(labels))], "labels": labels}}


def test_the_true_ones_have_their_share_of_the_mass() -> None:
    results = [(log(0.1), False), (log(0.2), False), (log(0.3), True)]
    assert mass_of_the_true(doc([1, 0, 1]), results)["acc"] == pytest.approx(0.4 / 0.6)


def test_the_mass_of_very_unlikely_choices_can_be_compared() -> None:
    assert mass_of_the_true(doc([1, 0]), [(-2000.0, False), (-2000.0, False)]) == {"acc": 0.5}


@given(st.lists(st.tuples(st.floats(-500, 0), st.integers(0, 1)), min_size=1), st.floats(-50, 50))
def test_only_differences_of_loglikelihoods_count(
    parts: list[tuple[float, int]], shift: float
) -> None:
    labels = [label for _, label in parts]
    mass = mass_of_the_true(doc(labels), [(logprob, False) for logprob, _ in parts])["acc"]
    shifted = mass_of_the_true(doc(labels), [(logprob + shift, False) for logprob, _ in parts])[
        "acc"
    ]
    opposite = doc([1 - label for label in labels])
    rest = mass_of_the_true(opposite, [(logprob, False) for logprob, _ in parts])["acc"]
    assert mass == pytest.approx(shifted, abs=1e-9)
    assert mass + rest == pytest.approx(1)


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


def test_rouge_counts_shared_words_and_pairs() -> None:
    scores = rouge("the cat sat", "the cat ran")
    # 2 of 3 words, 1 of 2 pairs, a longest common subsequence of 2 of 3 words.
    assert scores == {
        "rouge1": pytest.approx(200 / 3),
        "rouge2": pytest.approx(50),
        "rougeL": pytest.approx(200 / 3),
    }


def test_bleu_of_the_same_is_100_and_of_nothing_0() -> None:
    assert bleu("The moon is made of rock.", "The moon is made of rock.") == pytest.approx(100)
    assert bleu("The moon is made of rock.", "") == 0


def test_bleu_is_the_mean_of_precisions_with_a_penalty_for_brevity() -> None:
    # Of a b c d e against a b c d x: 4/5 words, 3/4 pairs, 2/3 threes, 1/2 fours, no penalty.
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu("a b c d x", "a b c d e") == pytest.approx(expected)


def test_a_reply_nearer_to_a_true_reference_is_right() -> None:
    row = references(["The moon is made of rock"], ["The moon is made of cheese"])
    right = nearness(row, ["The moon is made of rock."])
    wrong = nearness(row, ["The moon is made of cheese."])
    for name in ("bleu", "rouge1", "rouge2", "rougeL"):
        assert (right[f"{name}_acc"], wrong[f"{name}_acc"]) == (1, 0)
        assert right[f"{name}_max"] == pytest.approx(100)
        assert right[f"{name}_diff"] == pytest.approx(-wrong[f"{name}_diff"])


def test_a_reply_as_near_to_both_is_not_right() -> None:
    assert nearness(references(["Rock"], ["Rock"]), [""])["bleu_acc"] == 0


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=30))
def test_any_reply_can_be_scored(said: str) -> None:
    scores = nearness(references(["Rock", "Stone"], ["Cheese"]), [said])
    assert len(scores) == 12
    assert all(0 <= value <= 100 + 1e-9 for name, value in scores.items() if "_max" in name)
