"""What a board knows of costs: of a question, over several draws their mean, by kind of machine."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from leaderboard.models import RunCost, Suite
from leaderboard.models.edition import note
from leaderboard.snapshot import MEASURES, OWN, published
from leaderboard.snapshot.build import build
from leaderboard.snapshot.costs import Cost, Costs, mean_cost
from tests.leaderboard import factories as make

SKILL = {"mmlu": 0.6}


def cost(tokens: float = 10.0, machine: str = "A", meter: str = "A: GPU") -> Cost:
    return Cost(tokens, 2.0, 3.0, machine, meter)


def test_a_cost_is_of_a_question() -> None:
    found = Cost.of(20, 400, 10.0, 60.0, "A", "GPU")
    assert found == Cost(20.0, 0.5, 3.0, "A", "A: GPU")
    assert Cost.of(None, None, None, None, None, None) is None


def test_over_draws_it_is_their_mean_where_all_have_it() -> None:
    assert mean_cost([cost(10), cost(20)]) == cost(15)
    assert mean_cost([cost(), None]) is None
    mixed = mean_cost([cost(10), cost(20, "B", "B: GPU")])
    assert mixed is not None
    assert mixed.tokens == 15
    assert isnan(mixed.seconds)
    assert isnan(mixed.joules)
    assert (mixed.machine, mixed.meter) == ("", "")


@pytest.mark.django_db
def test_a_board_has_them_and_is_another_one_with_them() -> None:
    suite: Suite = make.make_suite(benchmarks=("facts", "sums"), styles=("mmlu",))
    variant = make.evaluated("lab/one", suite, SKILL, n=30)
    runs = {run.task.benchmark: run for run in variant.runs.select_related("task")}
    RunCost.objects.all().delete()
    before = build(suite, OWN, variant.created)
    assert before.costs is not None
    assert not before.costs.known
    RunCost.objects.create(run=runs["facts"], questions=30, tokens=900, seconds=6.0, hardware="A")
    note("data")
    board = build(suite, OWN, variant.created, before)
    assert board.data_version != before.data_version
    published.publish(suite, board, seconds=1.0)
    read = published.newest(suite, OWN)
    assert read is not None
    assert read.costs is not None
    place = [column.benchmark for column in read.columns].index("facts")
    assert read.costs.of[0, place, :2].tolist() == pytest.approx([30.0, 0.2])
    assert np.isnan(read.costs.of[0, place, MEASURES.index("joules")])
    assert np.isnan(read.costs.of[0, 1 - place]).all()
    assert [read.costs.kinds[k] if k >= 0 else "" for k in read.costs.kind[0, place]] == ["A", ""]


def test_columns_of_several_machines_keep_whose_cost_is_whose() -> None:
    columns = [Costs.none(2, 1) for _ in range(2)]
    columns[0].put(0, 0, Cost(1.0, 0.1, 5.0, "A", "A: RAPL"))
    columns[0].put(1, 0, Cost(2.0, 0.2, np.nan, "B", ""))
    columns[1].put(0, 0, Cost(3.0, 0.3, np.nan, "B", ""))
    board = Costs.none(2, 2)
    for column, (of, rows) in enumerate(zip(columns, ([1, 0], [1]), strict=True)):
        board.put_column(column, np.array(rows), of, np.arange(len(rows)))

    def told(row: int, column: int) -> list[str]:
        return [board.kinds[k] if k >= 0 else "" for k in board.kind[row, column]]

    assert board.of[:, :, 0].tolist()[1] == [1.0, 3.0]
    assert told(1, 0) == ["A", "A: RAPL"]
    assert told(0, 0) == told(1, 1) == ["B", ""]
    assert told(0, 1) == ["", ""]


def test_what_is_recalled_has_no_cost_and_rows_keep_theirs() -> None:
    costs = Costs.none(3, 2)
    for row in range(3):
        for column in range(2):
            costs.put(row, column, cost(10 * row + column))
    gone = np.zeros((3, 2), np.bool_)
    gone[1, 0] = True
    left = costs.left(gone, np.array([2, 0, 1]))
    assert left.of[:, :, 0].tolist()[:2] == [[20, 21], [0, 1]]
    assert np.isnan(left.of[2, 0]).all()
    assert left.of[2, 1, 0] == 11
    assert left.kind[2].tolist() == [[-1, -1], [0, 1]]
