"""The leads that few questions decide, and those that many do, beneath the board."""

from __future__ import annotations

import html as html_module
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.models import HubModel, Result, Suite
from leaderboard.samples import vectors
from leaderboard.snapshot import OWN, Board, published
from leaderboard.snapshot.build import build as build_board
from leaderboard.snapshot.decided import neighbours
from leaderboard.snapshot.file import mapped, unpack, write
from leaderboard.stats import deciding
from tests.leaderboard import factories as make

N = 40


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("cloze",))
    for number in range(9):
        variant = make.make_variant(f"lab/m{number}")
        for entry in suite.entries.all():
            make.finish(
                make.queued_run(variant, entry), skill=0.2 + 0.08 * number, n=N, seed=number
            )
    return suite


def by_hand(board: Board, upper: int, lower: int) -> int | None:
    """The number of one pair from its stored answers."""
    both = []
    for variant in (upper, lower):
        of_task = [
            Result.objects.get(
                run__variant=variant, task_name=column.task, subset="", metric=column.metric
            ).pk
            for column in board.columns
        ]
        both.append(np.concatenate([vectors.by_result([pk])[pk].scores for pk in of_task]))
    places = deciding(both[0] - both[1], np.repeat([0, 1], N))
    return None if places is None else len(places)


def test_the_numbers_are_those_of_all_neighbours_found_one_by_one(suite: Suite) -> None:
    board = build_board(suite, OWN, timezone.now())
    ranked = [model.variant for model in board.models]
    averages = board.average.value.tolist()
    every = [
        by_hand(board, upper, lower)
        for (upper, lower), (high, low) in zip(pairwise(ranked), pairwise(averages), strict=True)
        if high > low
    ]
    counts = sorted(count for count in every if count is not None)
    shown = [pair.questions for pair in board.decided]
    assert shown == counts[:3] + counts[-3:]
    assert {pair.of for pair in board.decided} == {2 * N}
    for pair in board.decided:
        assert pair.questions == by_hand(board, pair.upper, pair.lower)


def test_a_board_is_read_as_it_was_written_with_its_leads(suite: Suite, tmp_path: Any) -> None:
    board = build_board(suite, OWN, timezone.now())
    write(board, tmp_path / "board.npz")
    unpack(tmp_path / "board.npz", tmp_path / "board")
    assert mapped(tmp_path / "board").decided == board.decided != ()


def test_what_only_the_queue_changed_keeps_its_leads(suite: Suite) -> None:
    board = build_board(suite, OWN, timezone.now())
    make.make_submission(make.make_variant("lab/waiting"), suite)
    assert build_board(suite, OWN, timezone.now(), board).decided == board.decided


def test_the_page_lists_them_with_their_comparisons(client: Client, suite: Suite) -> None:
    published.build(suite, OWN)
    page = client.get("/").content.decode()
    section = page[page.index('aria-labelledby="leads"') :]
    leads = re.findall(r'<a href="(/compare[^"]+)">([^<]+ ahead of [^<]+)</a>', section)
    board = published.newest(suite, OWN)
    assert board is not None
    assert len(leads) == len(board.decided) == 6
    first = board.decided[0]
    names = [board.models[board.row_of[v]].repo_id for v in (first.upper, first.lower)]
    address, words = leads[0]
    assert words == " ahead of ".join(name.removeprefix("lab/") for name in names)
    compared = client.get(html_module.unescape(address)).content.decode()
    assert all(name in compared for name in names)
    assert f"{first.questions} of 80 questions decide" in " ".join(
        re.sub(r"<[^>]+>|\s+", " ", section).split()
    ).replace("  ", " ")


def test_models_that_are_all_alike_have_a_board_without_leads(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze",))
    for number in range(9):
        variant = make.make_variant(f"lab/m{number}")
        for entry in suite.entries.all():
            make.finish(make.queued_run(variant, entry), skill=1.0, n=N, seed=number)
    published.build(suite, OWN)
    page = client.get("/").content.decode()
    assert "lab/m8" in page
    assert 'id="leads"' not in page


def test_a_filtered_board_and_one_of_few_models_have_no_list(client: Client, suite: Suite) -> None:
    published.build(suite, OWN)
    assert 'id="leads"' not in client.get("/?q=m1").content.decode()
    HubModel.objects.filter(repo_id__gte="lab/m4").update(flag_reason="trained on the test")
    published.build(suite, OWN)
    assert 'id="leads"' not in client.get("/").content.decode()


def test_a_pair_that_are_no_neighbours_any_more_is_left_out(client: Client, suite: Suite) -> None:
    board = build_board(suite, OWN, timezone.now())
    apart = board.decided[0]._replace(lower=board.models[8].variant, upper=board.models[0].variant)
    made = replace(board, decided=(apart, *board.decided[1:]), data_version="another")
    published.publish(suite, made, seconds=1.0)
    page = client.get("/").content.decode()
    assert page.count(" ahead of ") == len(board.decided) - 1


@dataclass(frozen=True)
class Column:
    """A column of an average as `neighbours` reads it, of answers that are given."""

    answers: np.ndarray
    part: np.ndarray
    by_part: bool
    weight: float = 0.5
    by_question: bool = True

    def scores(self, variants: Sequence[int]) -> tuple[Any, np.ndarray, bool]:
        return self, self.answers[list(variants)], self.by_part

    @property
    def n(self) -> int:
        return len(self.part)

    @property
    def task(self) -> np.ndarray:
        return self.part

    def mean(self, row: int, left: np.ndarray) -> float | None:
        """Over the questions left; None where a part has none."""
        parts = self.part if self.by_part else np.zeros_like(self.part)
        means = [self.answers[row, (parts == one) & left] for one in np.unique(parts)]
        return (
            None if any(not len(of) for of in means) else float(np.mean([m.mean() for m in means]))
        )


def fewest_by_trying(columns: Sequence[Column], upper: int, lower: int) -> int | None:
    n = sum(column.n for column in columns)
    for size in range(n):
        for gone in combinations(range(n), size):
            left = np.ones(n, np.bool_)
            left[list(gone)] = False
            sides = np.split(left, [columns[0].n])
            means = [
                [column.mean(row, side) for column, side in zip(columns, sides, strict=True)]
                for row in (upper, lower)
            ]
            if any(mean is None for of in means for mean in of):
                continue
            if sum(means[0]) < sum(means[1]) - 1e-9:  # type: ignore[arg-type]
                return size
    return None


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_no_fewer_questions_of_columns_with_parts_turn_a_lead(seed: int) -> None:
    draw = np.random.default_rng(seed)
    columns = [
        Column(draw.integers(0, 2, (6, 4)).astype(float), np.array([0, 0, 0, 1]), by_part=True),
        Column(draw.integers(0, 2, (6, 3)).astype(float), np.zeros(3, np.int32), by_part=False),
    ]
    whole = [np.ones(column.n, np.bool_) for column in columns]
    averages = [
        sum(column.mean(row, all_) or 0.0 for column, all_ in zip(columns, whole, strict=True))
        for row in range(6)
    ]
    order = np.argsort(-np.array(averages), kind="stable").tolist()
    for pair in neighbours(columns, order):  # type: ignore[arg-type]
        assert pair.questions == fewest_by_trying(columns, pair.upper, pair.lower)
