"""Boards as they stood: what a snapshot holds, when a new one is made, and what past days show."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from evalcore.stats import mean_interval, rank_ranges
from leaderboard.models import (
    BoardFault,
    BoardSnapshot,
    HubModel,
    Result,
    ScoreVector,
    Suite,
    SuiteEntry,
    Variant,
)
from leaderboard.samples import path_of, vectors
from leaderboard.snapshot import file as snapshot_file
from leaderboard.snapshot import published
from leaderboard.snapshot.data import EVERY, OWN, Standing
from tests.leaderboard import factories as make
from tests.leaderboard.boards import shown_better
from tests.leaderboard.rows import once_per_module

pytestmark = pytest.mark.django_db


def skill(cloze: float) -> dict[str, float]:
    return {"cloze": cloze, "mmlu": 0.5, "hybrid": 0.6}


@once_per_module
def five_models() -> Suite:
    """Four models: one far ahead, two alike, one far behind; and one that is not done."""
    suite = make.make_suite(benchmarks=("facts", "sums"))
    for name, share in (("first", 0.95), ("second", 0.6), ("third", 0.6), ("last", 0.1)):
        make.evaluated(f"lab/{name}", suite, skill(share), n=120)
    make.make_submission(make.make_variant("lab/waiting"), suite)
    return suite


@pytest.fixture
def suite(five_models: Suite, db: None) -> Suite:
    return five_models


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards are built whenever there is news."""
    monkeypatch.setattr(published, "SOONEST", 0.0)
    monkeypatch.setattr(published, "REST", 0)


def test_models_stand_in_order_of_their_averages_which_have_the_interval_of_a_mean(
    suite: Suite,
) -> None:
    board = make.built(suite)
    averages = board.average.value[: board.averaged]
    assert (np.diff(averages) < 0).all()
    assert [board.models[0].repo_id, board.models[-1].repo_id] == ["lab/first", "lab/waiting"]
    assert board.ranks.rank.tolist() == [1, 2, 3, 4, 0]
    assert np.isnan(board.average.value[-1])
    assert board.standing_of(4, 0) is Standing.QUEUED
    assert board.score(4, 0) is None
    for row in range(board.averaged):
        cells = [board.score(row, column) for column in range(len(board.columns))]
        expected = mean_interval([cell.interval for cell in cells if cell])
        average = board.average_of(row)
        assert (average.value, average.low, average.high) == pytest.approx(
            (expected.value, expected.low, expected.high)
        )
    every = make.built(suite, EVERY)
    assert len(every.columns) == 6
    assert every.ranked == 0
    assert np.isnan(every.average.value).all()


def test_rank_ranges_come_from_the_questions_and_equal_those_of_one_task(db: None) -> None:
    suite = make.make_suite("letters", benchmarks=("letters",), styles=("cloze",))
    for name, share in (("a", 0.9), ("b", 0.55), ("c", 0.5), ("d", 0.2)):
        make.evaluated(f"lab/{name}", suite, {"cloze": share}, n=150)
    board = make.built(suite)
    results = {
        result.run.variant_id: result.pk
        for result in Result.objects.filter(
            task_name="letters", metric="acc", subset=""
        ).select_related("run")
    }
    found = vectors.matrix([results[model.variant] for model in board.models])
    expected = rank_ranges(found.scores)
    assert board.ranks.low.tolist() == expected.ranges[:, 0].tolist()
    assert board.ranks.high.tolist() == expected.ranges[:, 1].tolist()
    for first in range(4):
        for second in range(first + 1, 4):
            assert shown_better(board.ranks, first, second) == expected.better[first, second]


def test_without_scores_by_question_ranges_are_as_wide_as_the_intervals_say(suite: Suite) -> None:
    narrow = make.built(suite)
    ScoreVector.objects.update(weighting="none", questions=None, values=b"")
    BoardSnapshot.objects.all().delete()
    wide = make.built(suite)
    assert (wide.ranks.low <= narrow.ranks.rank).all()
    assert wide.ranks.low.tolist()[0] == 1
    assert wide.ranks.high.tolist()[3] == 4
    assert shown_better(wide.ranks, 0, 3)


def test_nothing_is_built_where_nothing_changed_nor_while_a_board_rests(
    suite: Suite, monkeypatch: Any
) -> None:
    boards = len(published.styles_of(suite))
    assert published.build_due() == boards
    assert published.build_due() == 0
    first = published.build(suite, OWN)
    assert first == BoardSnapshot.objects.get(style=OWN)
    monkeypatch.setattr(published, "SOONEST", 3600.0)
    make.evaluated("lab/new", suite, skill(0.8), n=120)
    assert published.build_due() == 0


def test_a_new_result_gives_a_new_board_and_the_old_one_stays(suite: Suite, at_once: None) -> None:
    published.build_due()
    moment = timezone.now()
    make.evaluated("lab/new", suite, skill(0.8), n=120)
    assert published.build_due() == len(published.styles_of(suite))
    then = published.at(suite, OWN, moment)
    assert "lab/new" in {model.repo_id for model in make.board(suite).models}
    assert "lab/new" not in {model.repo_id for model in then.models}
    assert published.at(suite, OWN, moment - timedelta(days=1)) is None


def test_a_board_that_cannot_be_built_keeps_no_other_from_it_and_is_named_until_it_is(
    suite: Suite, db: None
) -> None:
    other = make.make_suite("other", benchmarks=("letters",))
    for name in ("lab/usual", "lab/endless"):
        make.evaluated(name, other, skill(0.8), n=120)
    endless = Result.objects.filter(run__variant__hub_model__repo_id="lab/endless")
    endless.update(value=math.inf, high=math.inf)
    with pytest.raises(ExceptionGroup, match="could not be built") as raised:
        published.build_due()
    assert all("suite other" in problem.__notes__[0] for problem in raised.value.exceptions)
    built = set(BoardSnapshot.objects.filter(suite=suite).values_list("style", flat=True))
    assert built == set(published.styles_of(suite))
    faults = BoardFault.objects.filter(suite=other)
    assert {fault.style for fault in faults} == set(published.styles_of(other))
    assert BoardFault.objects.count() == len(faults)
    endless.delete()
    published.forget()
    published.build_due()
    assert not BoardFault.objects.exists()


def test_of_past_days_the_last_board_is_kept(suite: Suite) -> None:
    days_ago = timezone.now().replace(hour=12) - timedelta(days=5)
    kept = []
    for day in range(2):
        for hour in range(3):
            built = days_ago + timedelta(days=day, hours=hour)
            row = BoardSnapshot.objects.create(
                suite=suite,
                style=OWN,
                built=built,
                seconds=1.0,
                data_version="v",
                published=True,
                sha256=f"{day}{hour}" * 32,
                bytes=1,
                models_n=0,
                ranked_n=0,
            )
        kept.append(row.pk)
    today = published.build(suite, OWN)
    assert published.thin_out() == 4
    assert set(BoardSnapshot.objects.values_list("pk", flat=True)) == {*kept, today.pk}
    assert len(published.days(suite, OWN)) == 3


def test_columns_say_what_they_ask_and_a_flagged_model_takes_nobodys_rank(suite: Suite) -> None:
    SuiteEntry.objects.filter(benchmark="sums").update(people=0.9, people_source="A. Smith 2020")
    board = make.built(suite)
    facts, sums = board.columns
    assert (facts.n, facts.chance, facts.people) == (120, 0.25, None)
    assert (sums.people, sums.people_source) == (0.9, "A. Smith 2020")
    HubModel.objects.filter(repo_id="lab/first").update(flag_reason="trained on the questions")
    board = make.built(suite)
    assert board.models[0].repo_id == "lab/first"
    assert board.models[0].flagged
    assert board.ranks.rank.tolist() == [0, 1, 2, 3, 0]
    assert board.ranks.high.max() == 3


def test_a_suite_without_results_has_its_empty_boards_at_once(db: None) -> None:
    empty = make.make_suite("empty", benchmarks=("riddles",))
    published.build_first(empty)
    assert len(make.board(empty).models) == 0


def test_while_a_large_board_of_another_machine_is_unpacked_the_one_before_it_is_shown(
    suite: Suite, monkeypatch: Any
) -> None:
    before = make.built(suite)
    make.make_submission(make.make_variant("lab/late"), suite)
    new = published.build(suite, OWN)
    shutil.rmtree(snapshot_file.folder_of(new.sha256))
    monkeypatch.setattr(published, "LARGE", 1)
    asked, go_on = threading.Event(), threading.Event()
    unpack = snapshot_file.unpack

    def slow(path: Path, folder: Path) -> None:
        asked.set()
        assert go_on.wait(300)
        unpack(path, folder)

    monkeypatch.setattr(snapshot_file, "unpack", slow)
    assert published.newest(suite, OWN) is before
    assert asked.wait(300)
    assert published.newest(suite, OWN) is before, "nobody waits"
    go_on.set()
    for _ in range(3000):
        if (now := published.newest(suite, OWN)) is not before:
            break
        time.sleep(0.1)
    assert "lab/late" in {model.repo_id for model in now.models}


def test_what_is_said_otherwise_of_a_column_or_a_model_is_news(suite: Suite, at_once: None) -> None:
    HubModel.objects.filter(repo_id="lab/first").update(flag_reason="copied")
    boards = published.build_due()
    assert published.build_due() == 0
    suite.entries.update(title="Known facts")
    assert published.build_due() == boards
    Variant.objects.update(licence="mit")
    assert published.build_due() == boards
    # One model's flag passes to another: their number stays the same.
    HubModel.objects.filter(flag_reason="copied").update(flag_reason="")
    HubModel.objects.filter(repo_id="lab/last").update(flag_reason="copied")
    assert published.build_due() == boards
    assert published.build_due() == 0


@pytest.mark.parametrize("lost", ["models", "numbers", "about", "places"])
def test_a_board_whose_folder_is_damaged_is_unpacked_again(suite: Suite, lost: str) -> None:
    row = published.build(suite, OWN)
    folder = snapshot_file.folder_of(row.sha256)
    half = lost in ("models", "numbers")
    folder.joinpath(lost).write_bytes(b"") if half else folder.joinpath(lost).unlink()
    snapshot_file._boards.clear()
    assert len(make.board(suite).models) == row.models_n


# That bytes of a file changed which it found whole, a process does not see until it is new.
@pytest.mark.parametrize(
    ("damage", "new"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]), True),
        (lambda file: file.write_bytes(bytes(file.stat().st_size)), True),
        (Path.unlink, False),
    ],
    ids=["half of it", "other bytes", "missing"],
)
def test_a_board_whose_file_is_damaged_is_built_again_though_nothing_changed(
    suite: Suite, at_once: None, damage: Callable[[Path], object], new: bool
) -> None:
    published.build_due()
    row = BoardSnapshot.objects.get(style=OWN)
    if not new:
        assert published.build_due() == 0
    damage(path_of(row.sha256))
    if new:
        snapshot_file._remove(snapshot_file.folder_of(row.sha256))
        snapshot_file._boards.clear()
        published._whole.clear()
        with pytest.raises(snapshot_file.Unreadable):
            published.newest(suite, OWN)
    assert published.build_due() == 1
    snapshot_file._boards.clear()
    assert len(make.board(suite).models) == row.models_n
    assert published.build_due() == 0


def test_who_asks_for_every_past_day_fills_no_disk(suite: Suite, monkeypatch: Any) -> None:
    monkeypatch.setattr(snapshot_file, "PAST", 2)
    moments, rows = [], []
    for number in range(5):
        make.make_submission(make.make_variant(f"lab/late{number}"), suite)
        rows.append(published.build(suite, OWN))
        moments.append(timezone.now())
    newest = make.board(suite)
    snapshot_file._boards.clear()
    for moment in moments:
        assert published.at(suite, OWN, moment) is not None
    unpacked = {path.name for path in snapshot_file.folder_of("x").parent.iterdir()}
    past = [row.sha256 for row in rows[:-1] if row.sha256 in unpacked]
    assert past == [row.sha256 for row in rows[2:4]]
    again = published.at(suite, OWN, moments[0])
    assert len(again.models) == len(newest.models) - 4
