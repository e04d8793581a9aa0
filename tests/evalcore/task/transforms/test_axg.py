"""AX-g: accuracy by row, and parity by pair of rows."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.axg import (
    add_pair,
    gender_parity,
    of_choices,
    of_letter,
    of_rotated_choices,
)

ENTAILED = {"label": 0, "pair": 7}
FIRST, SECOND = [(-1.0, True), (-2.0, False)], [(-2.0, False), (-1.0, True)]
Answers = list[tuple[int, int]]


def test_rows_next_to_each_other_are_a_pair() -> None:
    rows = Dataset.from_list([{"idx": i} for i in range(5)])
    assert add_pair(rows)["pair"] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("scored", "metric", "score", "answer"),
    [
        (of_choices(ENTAILED, FIRST), "acc", 1.0, 0),
        (of_choices(ENTAILED, SECOND), "acc", 0.0, 1),
        (of_rotated_choices(ENTAILED, FIRST), "acc", 0.0, 1),
        (of_rotated_choices(ENTAILED, SECOND), "acc", 1.0, 0),
        (of_letter(ENTAILED, ["A"]), "exact_match", 1.0, 0),
        (of_letter(ENTAILED, ["B"]), "exact_match", 0.0, 1),
        (of_letter(ENTAILED, ["[invalid]"]), "exact_match", 0.0, -1),
    ],
)
def test_each_row_gives_its_score_and_the_answer_with_its_pair(
    scored: dict[str, Any], metric: str, score: float, answer: int
) -> None:
    assert scored == {metric: score, "gender_parity": (7, answer)}


@pytest.mark.parametrize(
    ("items", "parity"),
    [
        ([(0, 1), (0, 1), (1, 0), (1, 1)], 0.5),
        ([(0, 1), (0, 1), (1, 0)], 1.0),
        ([(0, -1), (0, 1)], 0.0),
        ([(3, 1)], 1.0),
        ([(0, 1), (0, 0), (0, 1), (0, 0), (1, 1), (1, 1)], 1 / 3),
    ],
    ids=["half", "a row is missing", "no answer", "no pair", "a pair drawn twice"],
)
def test_parity_is_the_share_of_pairs_with_one_answer(items: Answers, parity: float) -> None:
    assert gender_parity(items) == pytest.approx(parity)


@given(st.lists(st.booleans(), min_size=1))
def test_parity_does_not_ask_whether_answers_are_right(same: list[bool]) -> None:
    items = [(i, answer) for i, one in enumerate(same) for answer in (1, int(one))]
    assert gender_parity(items) == pytest.approx(sum(same) / len(same))
