"""The same responses given to lm-eval's scoring and to ours: the same numbers, all of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.evalcore.both_scorers import (
    METRIC_CODE,
    PLACES,
    WITHOUT_PEER,
    Scene,
    chances,
    places,
    texts,
)
from tests.evalcore.worlds import capitals

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(WITHOUT_PEER, reason="lm_eval is not installed (extra `peer`)"),
]

ITERS = 300


def agree(scene: Scene, answer: Any, iters: int = ITERS) -> dict[str, Any]:
    """Asserts that every number of lm-eval is ours; returns them."""
    theirs = scene.theirs(answer, iters=iters)
    ours, failures = scene.ours(answer, iters=iters)
    assert not failures
    assert theirs.keys() <= ours.keys()
    for name, value in theirs.items():
        if isinstance(value, str):
            assert ours[name] == value, name
        else:
            assert ours[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
    return theirs


CHOICES = """
    output_type: multiple_choice
    doc_to_text: "{{question}}"
    doc_to_choice: choices
    metric_list: [{metrics}]
    doc_to_target: {target}
"""
MULTIPLE_CHOICE = [
    "acc",
    "acc_norm",
    "acc_bytes",
    "acc_mutual_info",
    "exact_match",
    "mcc",
    "brier_score",
]


def listed(*names: str) -> str:
    return ", ".join(f"{{metric: {name}}}" for name in names)


def awkward_choices(count: int) -> list[dict[str, Any]]:
    """Choices of different lengths in characters and bytes, one of them equal to another."""
    rows = capitals(count)
    for number, row in enumerate(rows):
        row["choices"] = ["é" * (number % 4 + 1), "ab", "longer than the others", "ab"]
        row["right"] = row["choices"][row["answer"]]
        row["several"] = [row["answer"], (row["answer"] + 1) % 4]
        row["strange"] = [-1, 7, "none of them", 1][number % 4] if number else 0
        row["binary"] = number % 2
    return rows


@pytest.mark.parametrize("target", ["answer", "right"])
def test_multiple_choice(tmp_path, target):
    keys = CHOICES.replace("{metrics}", listed(*MULTIPLE_CHOICE)).replace("{target}", target)
    numbers = agree(Scene(tmp_path, awkward_choices(40), keys), chances)
    assert len(numbers) == 2 * len(MULTIPLE_CHOICE)


def test_multiple_choice_with_several_right_choices(tmp_path):
    metrics = listed("acc", "acc_norm", "acc_bytes", "exact_match")
    keys = CHOICES.replace("{metrics}", metrics).replace("{target}", "several")
    agree(Scene(tmp_path, awkward_choices(40), keys), chances)


def test_answers_that_are_none_of_the_choices(tmp_path):
    """One past the last, below 0 (from the end, for exact_match), and a text that is not there."""
    keys = CHOICES.replace("{metrics}", listed("acc", "acc_norm", "exact_match"))
    agree(Scene(tmp_path, awkward_choices(40), keys.replace("{target}", "strange")), chances)


def test_choices_as_contexts(tmp_path):
    keys = """
        output_type: multiple_choice
        doc_to_text: answer
        doc_to_choice: choices
        doc_to_target: "the end of it"
        metric_list: [{metric: acc}, {metric: acc_norm}, {metric: exact_match}]
    """
    agree(Scene(tmp_path, awkward_choices(40), keys), chances)


def test_f1_and_mcc_of_two_classes(tmp_path):
    keys = """
        output_type: multiple_choice
        doc_to_text: "{{question}}"
        doc_to_choice: ["no", "yes"]
        doc_to_target: binary
        metric_list: [{metric: f1}, {metric: mcc}, {metric: acc, aggregation: median}]
    """
    agree(Scene(tmp_path, awkward_choices(50), keys), chances)


def test_likelihoods_with_an_aggregation_of_the_task(tmp_path):
    keys = """
        output_type: multiple_choice
        doc_to_text: "{{question}}"
        doc_to_choice: choices
        doc_to_target: answer
        metric_list: [{metric: likelihood, aggregation: !function code.of_gold}]
    """
    code = "def of_gold(items): return sum(lls[gold] for gold, lls in items) / len(items)"
    agree(Scene(tmp_path, awkward_choices(20), keys, code), chances)


def test_loglikelihood(tmp_path):
    keys = """
        output_type: loglikelihood
        doc_to_text: "{{question}}"
        doc_to_target: " {{choices[0]}}"
    """
    assert len(agree(Scene(tmp_path, capitals(40), keys), chances)) == 4


def test_rolling_loglikelihood(tmp_path):
    rows = [{"page": " = Title = \n\n" + "wörd and\tmore " * count} for count in range(1, 30)]
    keys = """
        output_type: loglikelihood_rolling
        doc_to_text: ""
        doc_to_target: page
    """
    assert len(agree(Scene(tmp_path, rows, keys), chances)) == 6


GENERATE = """
    output_type: generate_until
    doc_to_text: "{{question}}"
    doc_to_target: {target}
    generation_kwargs: {until: ["\\n"]}
"""
ANSWERS = texts("City 1, a!", "city 1 a", " city 1 a", "12", "twelve", "", "The city of cities")


@pytest.mark.parametrize(
    "options",
    [
        "ignore_case: true",
        "ignore_punctuation: true",
        "ignore_numbers: true",
        "regexes_to_ignore: ['of ', '^The ']",
        "ignore_case: true, ignore_punctuation: true, regexes_to_ignore: ['\\d', ' a$']",
    ],
)
def test_exact_match_and_its_options(tmp_path, options):
    answers = ["city 1 a", "City 1 a", "City 7, a!", "city cities", "", "12"]
    rows = [{"question": f"{n}?", "answer": answers[n % 6]} for n in range(60)]
    keys = GENERATE.replace("{target}", "answer") + "    metric_list: [{metric: exact_match%s}]\n"
    scores = []
    for place, more in (("plain", ""), ("with", f", {options}")):
        (tmp_path / place).mkdir()
        numbers = agree(Scene(tmp_path / place, rows, keys % more), ANSWERS)
        scores.append(numbers["exact_match,none"])
    assert 0 < scores[0] < scores[1]


def test_exact_match_with_any_of_several_answers(tmp_path):
    rows = [
        {"question": f"{n}?", "answer": [["city 1 a"], ["12", "twelve"], ["x", "y", "z"]][n % 3]}
        for n in range(40)
    ]
    agree(Scene(tmp_path, rows, GENERATE.replace("{target}", "answer")), ANSWERS)


def test_a_text_among_lists_of_answers_falls_apart(tmp_path):
    """lm-eval decides on document 0; we have no such mixture in strict."""
    rows = [
        {"question": f"{n}?", "answer": "['ab', 'c']" if n % 2 == 0 else "ab"} for n in range(20)
    ]
    keys = GENERATE.replace("{target}", '"{{answer}}"')
    agree(Scene(tmp_path, rows, keys), texts("a", "ab", "c"))


def test_the_answer_is_a_choice_by_its_position(tmp_path):
    keys = GENERATE.replace("{target}", "answer") + "    doc_to_choice: choices\n"
    agree(Scene(tmp_path, capitals(30), keys), texts("city 1 a", "city 2 c", "city 4 b"))


def test_a_number_for_an_answer_is_compared_as_text(tmp_path):
    rows = [{"question": f"{n}?", "answer": n % 3} for n in range(30)]
    agree(Scene(tmp_path, rows, GENERATE.replace("{target}", "answer")), texts("0", "1", "2"))


SENTENCES = texts(
    "the cat sat on the mat today", "a cat sat on a mat", "das Wetter ist schön", "", "the mat"
)


def test_translation(tmp_path):
    rows = [
        {
            "question": f"{n}?",
            "answer": ["the cat sat on the mat", "das Wetter ist heute schön"][n % 2],
        }
        for n in range(12)
    ]
    keys = GENERATE.replace("{target}", "answer")
    keys += f"    metric_list: [{listed('bleu', 'chrf', 'chrf++', 'ter')}]\n"
    assert len(agree(Scene(tmp_path, rows, keys), SENTENCES, iters=20)) == 8


def test_a_metric_of_the_task_that_gives_several_numbers(tmp_path):
    keys = GENERATE.replace("{target}", "answer")
    keys += """
    metric_list:
      - {metric: !function code.two, aggregation: median, higher_is_better: false, scale: 3}
      - {metric: !function code.of_pair, aggregation: mean, higher_is_better: true}
      - {metric: exact_match, aggregation: !function code.largest}
    """
    numbers = agree(Scene(tmp_path, places(30), keys, METRIC_CODE), PLACES)
    assert numbers["length_stderr,none"] > 0  # the median of `two` was inherited
    assert numbers["exact_match_stderr,none"] == "N/A"


def test_process_results_of_the_task(tmp_path):
    keys = GENERATE.replace("{target}", "answer")
    keys += """
    process_results: !function code.both
    metric_list: [{metric: words, aggregation: nanmean, higher_is_better: true}]
    """
    numbers = agree(Scene(tmp_path, places(30), keys, METRIC_CODE), PLACES)
    assert {"words,none", "right,none", "only_sometimes,none"} <= numbers.keys()


FILTERS = r"""
    repeats: 3
    filter_list:
      - name: first
        filter: [{function: take_first}]
      - name: plain
        filter: [{function: remove_whitespace}, {function: lowercase}, {function: take_first}]
      - name: upper
        filter: [{function: uppercase}, {function: take_first}]
      - name: word
        filter: [{function: regex, regex_pattern: '(R\w+)|(O\w+)'}, {function: take_first}]
      - name: last
        filter:
          - {function: regex, regex_pattern: '\w+', group_select: -1, fallback: none}
          - {function: take_first}
      - name: majority
        filter: [{function: majority_vote}, {function: take_first}]
      - name: two
        filter: [{function: take_first_k, k: 2}, {function: majority_vote}, {function: take_first}]
      - name: mapped
        filter:
          - {function: map, mapping_dict: {Paris: Rome}, default_value: Oslo}
          - {function: take_first}
      - name: own
        filter: [{function: custom, filter_fn: !function code.shorter}, {function: take_first}]
      - name: class
        filter: [{function: !function code.Halved}, {function: take_first}]
"""


def test_filters(tmp_path):
    keys = GENERATE.replace("{target}", "answer") + FILTERS
    numbers = agree(Scene(tmp_path, places(40), keys, METRIC_CODE), PLACES)
    assert len(numbers) == 2 * 10
    assert len({value for name, value in numbers.items() if "stderr" not in name}) > 5


def test_only_predictions(tmp_path):
    """`bypass` takes any answer, and is worth 999."""
    keys = GENERATE.replace("{target}", "answer") + "    metric_list: [{metric: bypass}]\n"
    rows = [{"question": f"{n}?", "answer": n} for n in range(4)]
    assert agree(Scene(tmp_path, rows, keys), PLACES)["bypass,none"] == 999
