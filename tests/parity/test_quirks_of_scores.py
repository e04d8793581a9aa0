"""lm-evaluation-harness's quirks of scoring, by name: in compat they are there, in strict not.

Where it ends the run, losing everything, we lose at most the one metric. Both engines read the same
toy task file and the same local data.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from evalcore.errors import TaskError
from tests.evalcore.both_scorers import Scene
from tests.evalcore.worlds import capitals

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]


def scene(folder: Path, keys: str, rows: Any = None, code: str = "") -> Scene:
    head = """
    output_type: multiple_choice
    doc_to_text: question
    doc_to_choice: choices
    doc_to_target: answer
    """
    return Scene(folder, rows or capitals(12), head + keys, code)


def test_f1_of_three_classes_fails_whatever_average_is_stated(tmp_path: Path) -> None:
    toy = scene(
        tmp_path,
        """
    metric_list:
      - {metric: f1, average: macro}
      - {metric: acc}
    """,
    )
    with pytest.raises(ValueError, match="multiclass"):
        toy.theirs(_drawn)
    compat, why = toy.ours(_drawn)
    assert set(why) == {"f1"}
    assert "acc,none" in compat
    strict, why = toy.ours(_drawn, mode="strict")
    assert not why
    assert 0 < strict["f1,none"] < 1


def _drawn(request: Any, _: int) -> tuple[float, bool]:
    return (-(sum(map(ord, request.context + request.continuation)) % 17) / 4, False)


def test_likelihood_without_an_aggregation_fails_and_loses_nothing_else(tmp_path: Path) -> None:
    toy = scene(
        tmp_path,
        """
    metric_list:
      - {metric: likelihood}
      - {metric: acc}
    """,
    )
    with pytest.raises(TypeError):
        toy.theirs(_drawn)
    numbers, why = toy.ours(_drawn)
    assert set(why) == {"likelihood"}
    assert "acc,none" in numbers


def test_the_null_context_of_a_metric_is_passed_over(tmp_path: Path) -> None:
    toy = scene(
        tmp_path,
        """
    metric_list:
      - {metric: acc_mutual_info, null_context: "Answer:"}
    """,
    )
    contexts: dict[str, set[str]] = {"compat": set(), "strict": set()}
    for mode, seen in contexts.items():
        toy.scored(lambda request, _, seen=seen: seen.add(request.context) or (-1.0, False), mode)
    assert "" in contexts["compat"]
    assert "Answer:" not in contexts["compat"]
    assert "Answer:" in contexts["strict"]
    assert toy.ours(_drawn)[0].items() >= toy.theirs(_drawn).items()


def test_an_answer_that_is_no_choice_scores_nothing_without_a_word(tmp_path: Path) -> None:
    rows = [{**row, "answer": 7 if row["answer"] == 1 else row["answer"]} for row in capitals(9)]
    toy = scene(tmp_path, "metric_list: [{metric: acc}]", rows)
    numbers, why = toy.ours(_drawn)
    assert not why
    assert numbers["acc,none"] == toy.theirs(_drawn)["acc,none"]
    with pytest.raises(TaskError, match="none of the 3 choices"):
        toy.ours(_drawn, mode="strict")


def test_a_median_of_an_even_number_is_the_upper_one(tmp_path: Path) -> None:
    toy = scene(
        tmp_path,
        """
    metric_list:
      - {metric: acc, aggregation: median, higher_is_better: true}
    """,
        capitals(2),
    )

    def half_right(request: Any, _: int) -> tuple[float, bool]:
        return (-1.0 if request.continuation.endswith("a") else -2.0, False)

    assert toy.theirs(half_right)["acc,none"] == 1.0
    assert toy.ours(half_right)[0]["acc,none"] == 1.0


def test_acc_norm_divides_by_letters_and_acc_bytes_by_bytes(tmp_path: Path) -> None:
    rows = [{"question": "?", "choices": ["日本語", "river"], "answer": 0}] * 4
    toy = scene(tmp_path, "metric_list: [{metric: acc_norm}, {metric: acc_bytes}]", rows)

    def answer(request: Any, _: int) -> tuple[float, bool]:
        return (-3.0 if "日" in request.continuation else -4.0, False)

    for mode in ("compat", "strict"):
        numbers, _ = toy.ours(answer, mode=mode)
        assert numbers["acc_norm,none"] == 0.0
        assert numbers["acc_bytes,none"] == 1.0
    assert toy.theirs(answer)["acc_norm,none"] == 0.0


def test_a_match_beyond_those_found_ends_the_run_there_and_is_the_fallback_here(
    tmp_path: Path,
) -> None:
    toy = Scene(
        tmp_path,
        capitals(4),
        """
    output_type: generate_until
    doc_to_text: question
    doc_to_target: "{{choices[answer]}}"
    filter_list:
      - name: second
        filter:
          - {function: regex, regex_pattern: "[0-9]+", group_select: 1}
          - {function: take_first}
    metric_list: [{metric: exact_match}]
    """,
    )

    def one_number(*_: Any) -> str:
        return "only 7"

    with pytest.raises(IndexError):
        toy.theirs(one_number)
    for mode in ("compat", "strict"):
        numbers, why = toy.ours(one_number, mode=mode)
        assert not why
        assert numbers["exact_match,second"] == 0.0


def test_of_answers_that_are_given_equally_often_the_first_wins(tmp_path: Path) -> None:
    toy = Scene(
        tmp_path,
        capitals(4),
        """
    output_type: generate_until
    doc_to_text: question
    doc_to_target: "b"
    repeats: 4
    filter_list:
      - name: vote
        filter: [{function: majority_vote}, {function: take_first}]
    metric_list: [{metric: exact_match}]
    """,
    )

    def tied(_: Any, repeat: int) -> str:
        return "baba"[repeat]

    assert toy.theirs(tied)["exact_match,vote"] == 1.0
    assert toy.ours(tied)[0]["exact_match,vote"] == 1.0


def test_several_right_answers_end_the_run_there_for_mutual_information(tmp_path: Path) -> None:
    rows = [{**row, "answer": [0, 1, 2]} for row in capitals(4)]
    toy = scene(tmp_path, "metric_list: [{metric: acc_mutual_info}, {metric: acc}]", rows)
    with pytest.raises(ValueError, match="ambiguous"):
        toy.theirs(_drawn)
    for mode in ("compat", "strict"):
        assert toy.ours(_drawn, mode=mode)[0]["acc_mutual_info,none"] == 1.0
