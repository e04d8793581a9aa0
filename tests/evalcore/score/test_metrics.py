"""What metrics make of answers, each through a task file and fixed answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.score.answered import Choices
from evalcore.score.metrics.registry import FAMILIES, METRICS, known_metrics, metric_named
from tests.evalcore.both_scorers import Scene

CHOICES = """
    output_type: multiple_choice
    doc_to_text: "Q"
    doc_to_choice: choices
    doc_to_target: answer
"""
GENERATE = """
    output_type: generate_until
    doc_to_text: "{{question}}"
    doc_to_target: answer
    generation_kwargs: {until: ["."]}
"""


def by_continuation(**loglikelihoods: float) -> Any:
    """Each choice's loglikelihood by its first word; the greedy one is marked by being above -1."""

    def answer(request: Any, repeat: int) -> tuple[float, bool]:
        number = loglikelihoods[request.continuation.split()[0]]
        if not request.context:
            number = loglikelihoods["alone"]
        return number, number > -1

    return answer


def numbers(
    tmp_path, rows: list[dict[str, Any]], keys: str, answer: Any, mode: str = "strict"
) -> dict[str, Any]:
    """Our numbers without standard errors, by metric."""
    found, failures = Scene(tmp_path, rows, keys).ours(answer, mode=mode)
    assert not failures
    return {name.split(",")[0]: value for name, value in found.items() if "stderr" not in name}


@pytest.mark.parametrize(
    ("loglikelihoods", "right", "expected"),
    [
        # Characters 3, 4, 11; bytes 6, 4, 11; tokens (half of the characters with the delimiter,
        # rounded down, and one) 3, 3, 7.
        ((-2.3, -1.8, -4.4), 0, {"acc": 0, "acc_norm": 0, "acc_bytes": 1, "acc_tokens": 0}),
        ((-2.3, -1.8, -4.4), 1, {"acc": 1, "acc_norm": 0, "acc_bytes": 0, "acc_tokens": 1}),
        ((-2.3, -1.8, -4.4), 2, {"acc": 0, "acc_norm": 1, "acc_bytes": 0, "acc_tokens": 0}),
        ((-1.7, -1.8, -3.9), 2, {"acc": 0, "acc_norm": 1, "acc_bytes": 0, "acc_tokens": 1}),
    ],
)
def test_normalisations_divide_by_their_own_length(tmp_path, loglikelihoods, right, expected):
    rows = [{"choices": ["ééé", "abcd", "f g h i j k"], "answer": right}]
    answer = by_continuation(**dict(zip(("ééé", "abcd", "f"), loglikelihoods, strict=True)))
    metrics = ", ".join(f"{{metric: {name}}}" for name in expected)
    keys = f"{CHOICES}    metric_list: [{metrics}]\n"
    assert numbers(tmp_path, rows, keys, answer) == expected


def test_token_perplexity_is_per_token_of_the_whole_text(tmp_path):
    rows = [{"text": "abcdef"}, {"text": "ab"}]  # 4 and 2 tokens, by the rule of the scene
    keys = """
    output_type: loglikelihood_rolling
    doc_to_text: ""
    doc_to_target: text
    metadata: {version: 1, benchmark: texts, extra_metrics: [token_perplexity]}
"""
    found = numbers(tmp_path, rows, keys, lambda request, repeat: -float(len(request.continuation)))
    assert found["token_perplexity"] == pytest.approx(math.exp(8 / 6))
    assert found["byte_perplexity"] == pytest.approx(math.exp(1.0))


def test_acc_norm_divides_by_characters_not_bytes(tmp_path):
    rows = [{"choices": ["é", "ab"], "answer": 1}]
    # Per character -2.0 against -1.5; per byte (é is two) -1.0 against -1.5.
    keys = CHOICES + "    metric_list: [{metric: acc_norm}, {metric: acc_bytes}]\n"
    found = numbers(tmp_path, rows, keys, by_continuation(é=-2.0, ab=-3.0))
    assert found == {"acc_norm": 1.0, "acc_bytes": 0.0}


def test_acc_mutual_info_subtracts_what_a_choice_is_worth_alone(tmp_path):
    rows = [{"choices": ["common", "rare"], "answer": 1}]

    def answer(request, repeat):
        alone = {"common": -1.0, "rare": -9.0}[request.continuation.strip()]
        return (
            (alone + (1.0 if "common" in request.continuation else 2.0), False)
            if (request.context)
            else (alone, False)
        )

    keys = CHOICES + "    metric_list: [{metric: acc}, {metric: acc_mutual_info}]\n"
    assert numbers(tmp_path, rows, keys, answer) == {"acc": 0.0, "acc_mutual_info": 1.0}


def test_of_equal_choices_the_first_is_picked(tmp_path):
    rows = [{"choices": ["a", "b"], "answer": 0}]
    assert numbers(tmp_path, rows, CHOICES, by_continuation(a=-1.0, b=-1.0))["acc"] == 1.0


def test_any_of_several_right_choices_counts(tmp_path):
    rows = [{"choices": ["a", "b", "c"], "answer": [0, 2]}]
    keys = CHOICES + "    metric_list: [{metric: acc}, {metric: exact_match}]\n"
    found = numbers(tmp_path, rows, keys, by_continuation(a=-3.0, b=-2.0, c=-0.5))
    assert found == {"acc": 1.0, "exact_match": 1.0}


@given(
    st.lists(st.tuples(st.floats(-1e4, 0), st.integers(0, 50)), min_size=1, max_size=10).filter(
        lambda choices: any(length for _, length in choices)
    )
)
def test_the_likeliest_per_length_is_the_argmax_and_never_an_empty_choice(choices):
    sums, lengths = zip(*choices, strict=True)
    pick = Choices([""] * len(sums), sums, (), (), (), (), False).likeliest_per(lengths)
    ratios = [total / length if length else -np.inf for total, length in choices]
    assert pick == int(np.argmax(ratios))
    assert lengths[pick] > 0


def test_brier_score_is_the_squared_distance_to_the_right_answer(tmp_path):
    rows = [{"choices": ["a", "b"], "answer": 0}, {"choices": ["a", "b", "c"], "answer": 1}]
    keys = CHOICES + "    metric_list: [{metric: brier_score}]\n"
    answer = by_continuation(a=np.log(0.5), b=np.log(0.5), c=-np.inf)
    # (0.5² + 0.5²) for both, whatever the number of choices.
    assert numbers(tmp_path, rows, keys, answer)["brier_score"] == pytest.approx(0.5)


def test_quasi_exact_match_forgives_case_punctuation_articles_and_spaces(tmp_path):
    rows = [{"question": "1", "answer": "The  Eiffel tower!"}, {"question": "2", "answer": "x"}]
    keys = GENERATE + "    metric_list: [{metric: quasi_exact_match}, {metric: exact_match}]\n"
    found = numbers(tmp_path, rows, keys, lambda request, repeat: "an eiffel Tower")
    assert found == {"quasi_exact_match": 0.5, "exact_match": 0.0}


def test_rouge(tmp_path):
    """Lin 2004: F of shared words 2·3/(3+6), of pairs 2·2/(2+5), of the longest sequence."""
    rows = [{"question": "1", "answer": "the cat sat on the mat"}]
    keys = GENERATE + "    metric_list: [{metric: rouge1}, {metric: rouge2}, {metric: rougeL}, "
    keys += "{metric: rougeLsum}]\n"
    found = numbers(tmp_path, rows, keys, lambda request, repeat: "the cat sat")
    assert found == pytest.approx(
        {"rouge1": 6 / 9, "rouge2": 4 / 7, "rougeL": 6 / 9, "rougeLsum": 6 / 9}
    )


REPEATED = """
    repeats: 4
    metric_list: [{metric: exact_match}, {metric: pass@1}, {metric: pass@2}, {metric: avg@2},
                  {metric: majority@3}, {metric: majority@4, ignore_case: true}]
    filter_list: [{name: none, filter: [{function: remove_whitespace}, {function: take_first}]}]
"""


def test_repeated_answers(tmp_path):
    answers = ["no", " yes", "YES", "no"]  # 1 of 4 is right, 2 where case does not count
    rows = [{"question": "1", "answer": "yes"}]
    found = numbers(tmp_path, rows, GENERATE + REPEATED, lambda _, repeat: answers[repeat])
    assert found == pytest.approx(
        {
            "exact_match": 0.0,
            "pass@1": 0.25,
            "pass@2": 1 - 3 / 6,  # 3 of the 6 pairs hold no right one
            "avg@2": 0.5,
            "majority@3": 0.0,  # no, yes, YES: each once, the first is no
            "majority@4": 0.0,
        }
    )


def test_extra_metrics_are_measured_besides(tmp_path):
    rows = [{"choices": ["a", "bb"], "answer": 0}]
    keys = CHOICES + "    metric_list: [{metric: acc}]\n"
    keys += "    metadata: {version: 1, benchmark: b, extra_metrics: [acc_bytes, brier_score]}\n"
    found = numbers(tmp_path, rows, keys, by_continuation(a=-2.0, bb=-3.0), mode="compat")
    assert found.keys() == {"acc", "acc_bytes", "brier_score"}


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("{metric: accuracy}", {"accuracy": 0.5}),
        ("{metric: exact_match, hf_evaluate: true, ignore_case: true}", {"exact_match": 1.0}),
        ("{metric: f1, hf_evaluate: true, average: micro, aggregation: mean}", {"f1": 0.5}),
        ("{metric: wer}", {"wer": 0.1}),
        ("{metric: squad}", {"exact_match": 100.0, "f1": 100.0}),
        (
            "{metric: rouge, rouge_types: [rouge1, rougeL]}",
            {"rouge1": pytest.approx(1.0), "rougeL": pytest.approx(1.0)},
        ),
        ("{metric: bleu, hf_evaluate: true, aggregation: mean}", {"bleu": (1 + 0.2**0.25) / 2}),
    ],
)
@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_metrics_by_the_names_of_the_library_evaluate(tmp_path, entry, found, mode):
    rows = [
        {"question": "1", "answer": "A b c d e"},
        {"question": "2", "answer": "a b c d e"},
    ]
    keys = GENERATE + f"    metric_list: [{entry}]\n"
    assert numbers(tmp_path, rows, keys, lambda *_: "a b c d e", mode=mode) == pytest.approx(found)


def test_lm_eval_s_nineteen_metrics_are_here():
    theirs = """acc acc_all acc_bytes acc_mutual_info acc_norm bits_per_byte bleu brier_score bypass
        byte_perplexity chrf chrf++ exact_match f1 likelihood mcc perplexity ter word_perplexity"""
    assert set(theirs.split()) <= METRICS.keys() <= known_metrics()
    assert FAMILIES.keys() <= known_metrics()


def test_a_family_has_a_metric_for_every_number():
    assert metric_named("pass@100") is not None
    assert metric_named("pass@0") is metric_named("fail@1") is None
