"""What the compare page rests on: names, differences, disagreements, changes in prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.record import SAMPLE_SCHEMA
from evalcore.stats import paired_difference
from leaderboard.compare.differences import Difference, How, NoDifference, difference
from leaderboard.compare.questions import text_differences
from leaderboard.compare.table import Number, Side, Task, named
from leaderboard.samples import Layout, Vector, facts_of, rows_in
from leaderboard.snapshot import Score

N = 120
RUN = UUID(int=1)
RNG = np.random.default_rng(11)


def layout(
    *, n: int = N, cluster: Any = None, task: Any = None, tasks: tuple[str, ...] = ("facts",)
) -> Layout:
    return Layout(
        docs_digest="same",
        tasks=tasks,
        task=np.zeros(n, np.int32) if task is None else task,
        doc_id=np.arange(n, dtype=np.int32),
        parts=tasks,
        part=np.zeros(n, np.int32) if task is None else task,
        cluster=cluster,
    )


def right(share: float) -> np.ndarray:
    return (RNG.random(N) < share).astype(np.float64)


def task_of(*results: tuple[int, ...], **fields: Any) -> Task:
    """A task whose sides have these results."""
    numbers = tuple(
        Number(score=Score(0.5, 0.4, 0.6, N), results=keys, runs=(RUN,)) for keys in results
    )
    return Task(
        **{
            "key": "facts",
            "benchmark": "facts",
            "title": "Facts",
            "style": "cloze",
            "name": "facts",
            "metric": "acc",
            "filter": "none",
            "shots": 0,
            "n": N,
            "numbers": numbers,
            "why": ("",) * len(numbers),
            **fields,
        }
    )


def found(task: Task, vectors: dict[int, Vector]) -> Difference:
    one = difference(task, 0, 1, vectors)
    assert isinstance(one, Difference)
    return one


def test_questions_of_one_cluster_are_not_independent() -> None:
    a, b = right(0.6), right(0.6)
    # Questions that move alike share a label, as variants of one question would.
    order = np.argsort(b - a, kind="stable")
    cluster = np.empty(N, np.int32)
    cluster[order] = np.arange(N) // 6
    vectors = {1: Vector(layout(cluster=cluster), False, a), 2: Vector(layout(), False, b)}
    clustered = found(task_of((1,), (2,)), vectors)
    expected = paired_difference(a, b, cluster.tolist())
    assert (clustered.value, clustered.low, clustered.high) == pytest.approx(
        (expected.difference, expected.low, expected.high)
    )
    plain = found(task_of((1,), (2,)), {**vectors, 1: Vector(layout(), False, a)})
    assert clustered.high - clustered.low > plain.high - plain.low
    assert clustered.questions.clustered


def test_fixed_parts_are_no_source_of_error() -> None:
    part = np.repeat(np.arange(2, dtype=np.int32), N // 2)
    a = right(0.5)
    b = np.where(part == 0, 1.0, a)
    two = layout(task=part, tasks=("easy", "hard"))
    pooled = found(task_of((1,), (2,)), {1: Vector(two, False, a), 2: Vector(two, False, b)})
    one = layout()
    plain = found(task_of((1,), (2,)), {1: Vector(one, False, a), 2: Vector(one, False, b)})
    assert pooled.value == pytest.approx(plain.value)
    assert pooled.high - pooled.low < plain.high - plain.low


def test_the_draw_of_examples_adds_what_it_moves_the_difference() -> None:
    a, b = right(0.5), right(0.6)
    steady = {1: a, 2: a, 3: b, 4: b}
    moved = {**steady, 2: right(0.2)}
    widths = [
        (one := found(task_of((1, 2), (3, 4)), by_question(scores))).high - one.low
        for scores in (steady, moved)
    ]
    assert widths[1] > widths[0]
    single = found(task_of((1,), (3,)), by_question(steady))
    assert widths[0] == pytest.approx(single.high - single.low)


def by_question(scores: dict[int, np.ndarray]) -> dict[int, Vector]:
    return {key: Vector(layout(), False, values) for key, values in scores.items()}


def test_the_average_takes_differences_from_chance_as_the_suite_does() -> None:
    a, b = right(0.5), right(0.7)
    plain = found(task_of((1,), (2,)), by_question({1: a, 2: b}))
    scaled = found(task_of((1,), (2,), chance=0.25), by_question({1: a, 2: b}))
    assert scaled.value == plain.value
    assert scaled.shares[0].difference == pytest.approx(plain.value / 0.75)
    part = np.repeat(np.arange(2, dtype=np.int32), [30, 90])
    two = layout(task=part, tasks=("easy", "hard"))
    vectors = {1: Vector(two, False, a), 2: Vector(two, False, b)}
    by_part = found(task_of((1,), (2,), part_chances={"easy": 0.5, "hard": 0.25}), vectors)
    means = [(a - b)[part == place].mean() for place in (0, 1)]
    expected = (means[0] / 0.5 + means[1] / 0.75) / 2
    assert by_part.shares[0].difference == pytest.approx(expected)


def test_fewer_is_better_of_a_perplexity_and_without_interval_there_is_no_difference() -> None:
    task = task_of((1,), (2,), metric="word_perplexity", higher_is_better=False)
    one = found(task, {})
    assert one.how is How.UNPAIRED
    assert not one.ahead
    assert not task.drawn_to_scale
    number = Number(score=Score(0.5, 0.5, 0.5, N), results=(), runs=(RUN,))
    task = task_of((1,), (2,), numbers=(number, number))
    one = difference(task, 0, 1, {})
    assert isinstance(one, NoDifference)
    assert "no interval is known" in one.why


def side(repo_id: str, commit: str = "a" * 40, dtype: str = "float32") -> Side:
    return Side(key="", repo_id=repo_id, commit=commit, dtype=dtype, quantisation="")


def test_names_are_as_short_as_they_can_be_told_apart() -> None:
    sides = named(
        [
            side("lab/heron"),
            side("lab/finch"),
            side("other/finch"),
            side("lab/alder"),
            side("lab/alder", dtype="float16"),
        ]
    )
    assert [one.name for one in sides] == [
        "heron", "lab/finch", "other/finch", "alder, float32", "alder, float16"
    ]  # fmt: skip


LINES = st.lists(st.text(alphabet="ab \n.", max_size=12), max_size=8).map("\n".join)


@given(LINES, LINES)
def test_the_pieces_of_two_texts_are_the_texts(first: str, second: str) -> None:
    sides = text_differences(first, second)
    assert tuple("".join(piece.text for piece in one) for one in sides) == (first, second)
    kept = ["".join(piece.text for piece in one if not piece.changed) for one in sides]
    assert kept[0] == kept[1]
    if first == second:
        assert not any(piece.changed for piece in sides[0])


def test_margins_are_those_of_right_and_wrong_choices(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    asked = [([-1.0, -3.0, -2.5, 0.0], [0, 1], 3), ([-2.0, -1.0, 0.0], [0], 2), ([0.0], [0], 0)]
    rows = [
        {
            "task": "facts",
            "doc_id": place,
            "pick": 0 if choices else None,
            "gold": gold,
            # Requests besides those of the choices do not count.
            "choices": [str(choice) for choice in range(choices)],
            "responses": [{"loglikelihood": value} for value in values],
        }
        for place, (values, gold, choices) in enumerate(asked)
    ]
    pq.write_table(pa.Table.from_pylist(rows, SAMPLE_SCHEMA), path)
    answers = facts_of(path)
    assert answers.margin[:2].tolist() == [1.5, -1.0]
    assert np.isnan(answers.margin[2])
    assert [answers.gold_of(place) for place in range(3)] == [[0, 1], [0], [0]]
    assert answers.pick.tolist() == [0, 0, -1]


def test_rows_are_found_wherever_they_lie(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    table = pa.Table.from_pylist([{"doc_id": n, "prompt": f"p{n}"} for n in range(95)])
    pq.write_table(table, path, row_group_size=10)
    wanted = rows_in(path, [94, 0, 19, 20], ["prompt"])
    assert wanted == {n: {"prompt": f"p{n}"} for n in (94, 0, 19, 20)}
