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
    BoardSnapshot,
    HubModel,
    Result,
    Run,
    RunEvent,
    ScoreVector,
    Suite,
    SuiteEntry,
    Variant,
    edition,
)
from leaderboard.queue import claims
from leaderboard.samples import path_of, vectors
from leaderboard.snapshot import file as snapshot_file
from leaderboard.snapshot import published
from leaderboard.snapshot.data import EVERY, OWN, Standing
from tests.leaderboard import factories as make
from tests.leaderboard.boards import shown_better

pytestmark = pytest.mark.django_db


def skill(cloze: float) -> dict[str, float]:
    return {"cloze": cloze, "mmlu": 0.5, "hybrid": 0.6}


@pytest.fixture
def suite(db: None) -> Suite:
    """Four models: one far ahead, two alike, one far behind; and one that is not done."""
    suite = make.make_suite(benchmarks=("facts", "sums"))
    for name, share in (("first", 0.95), ("second", 0.6), ("third", 0.6), ("last", 0.1)):
        make.evaluated(f"lab/{name}", suite, skill(share), n=120)
    make.make_submission(make.make_variant("lab/waiting"), suite)
    return suite


def test_models_stand_in_order_of_their_averages_and_the_unfinished_one_comes_last(
    suite: Suite,
) -> None:
    published.build(suite, OWN)
    board = published.newest(suite, OWN)
    assert board is not None
    averages = board.average.value[: board.averaged]
    assert (np.diff(averages) < 0).all()
    assert [board.models[0].repo_id, board.models[-1].repo_id] == ["lab/first", "lab/waiting"]
    assert board.ranks.rank.tolist() == [1, 2, 3, 4, 0]
    assert np.isnan(board.average.value[-1])
    assert board.standing_of(4, 0) is Standing.QUEUED
    assert board.score(4, 0) is None


def test_the_average_has_the_interval_of_a_mean_over_fixed_benchmarks(suite: Suite) -> None:
    published.build(suite, OWN)
    board = published.newest(suite, OWN)
    assert board is not None
    for row in range(board.averaged):
        cells = [board.score(row, column) for column in range(len(board.columns))]
        expected = mean_interval([cell.interval for cell in cells if cell])
        average = board.average_of(row)
        assert average is not None
        assert average.interval == pytest.approx((expected.low, expected.value, expected.high)) or (
            average.value,
            average.low,
            average.high,
        ) == pytest.approx((expected.value, expected.low, expected.high))


def test_rank_ranges_come_from_the_questions_and_equal_those_of_one_task(db: None) -> None:
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze",))
    for name, share in (("a", 0.9), ("b", 0.55), ("c", 0.5), ("d", 0.2)):
        make.evaluated(f"lab/{name}", suite, {"cloze": share}, n=150)
    published.build(suite, OWN)
    board = published.newest(suite, OWN)
    assert board is not None
    results = {
        result.run.variant_id: result.pk
        for result in Result.objects.filter(metric="acc", subset="").select_related("run")
    }
    found = vectors.matrix([results[model.variant] for model in board.models])
    assert found is not None
    expected = rank_ranges(found.scores)
    assert board.ranks.low.tolist() == expected.ranges[:, 0].tolist()
    assert board.ranks.high.tolist() == expected.ranges[:, 1].tolist()
    for first in range(4):
        for second in range(first + 1, 4):
            assert shown_better(board.ranks, first, second) == expected.better[first, second]
    assert board.ranks.band[0] == 0
    assert board.ranks.band[-1] > 0


def test_without_scores_by_question_ranges_are_as_wide_as_the_intervals_say(suite: Suite) -> None:
    published.build(suite, OWN)
    narrow = published.newest(suite, OWN)
    ScoreVector.objects.update(weighting="none", questions=None, values=b"")
    BoardSnapshot.objects.all().delete()
    published.build(suite, OWN)
    wide = published.newest(suite, OWN)
    assert narrow is not None
    assert wide is not None
    assert (wide.ranks.low <= narrow.ranks.rank).all()
    assert wide.ranks.low.tolist()[0] == 1
    assert wide.ranks.high.tolist()[3] == 4
    assert shown_better(wide.ranks, 0, 3)


def test_a_flagged_model_keeps_its_place_and_takes_nobodys_rank(suite: Suite) -> None:
    HubModel.objects.filter(repo_id="lab/first").update(flag_reason="trained on the questions")
    published.build(suite, OWN)
    board = published.newest(suite, OWN)
    assert board is not None
    assert board.models[0].repo_id == "lab/first"
    assert board.models[0].flagged
    assert board.ranks.rank.tolist() == [0, 1, 2, 3, 0]
    assert board.ranks.band.tolist()[0] == -1
    assert board.ranks.high.max() == 3


def test_of_two_commits_of_a_model_the_newer_is_ranked_once_it_has_an_average(
    suite: Suite,
) -> None:
    newer = make.make_variant("lab/second", commit="b" * 40)
    submission = make.make_submission(newer, suite)
    published.build(suite, OWN)
    before = published.newest(suite, OWN)
    assert before is not None
    assert before.ranked == 4, "until then the older one is"
    for number, run in enumerate(submission.runs.all()):
        make.finish(run, skill=0.7, n=120, seed=number)
    published.build(suite, OWN)
    after = published.newest(suite, OWN)
    assert after is not None
    assert after.ranked == 4
    older = Variant.objects.exclude(pk=newer.pk).get(hub_model__repo_id="lab/second")
    assert after.models[after.row_of[older.pk]].superseded_by == "b" * 40
    assert after.ranks.rank[after.row_of[older.pk]] == 0
    assert after.ranks.rank[after.row_of[newer.pk]] > 0


def test_what_is_read_back_is_what_was_built(suite: Suite) -> None:
    for style in published.styles_of(suite):
        row = published.build(suite, style)
        board = published.newest(suite, style)
        assert board is not None
        assert (board.style, board.built, board.data_version) == (
            style,
            row.built,
            row.data_version,
        )
        assert (row.models_n, row.ranked_n) == (len(board.models), board.ranked)
        runs = Result.objects.filter(metric="acc", subset="").values_list("run_id", flat=True)
        assert board.run_id(0, 0) in set(runs)
        assert board.run.shape == board.scores.value.shape == (5, len(board.columns))


def test_the_board_of_every_style_ranks_nobody(suite: Suite) -> None:
    published.build(suite, EVERY)
    board = published.newest(suite, EVERY)
    assert board is not None
    assert len(board.columns) == 6
    assert board.ranked == 0
    assert np.isnan(board.average.value).all()


def test_nothing_is_built_where_nothing_changed(suite: Suite) -> None:
    boards = len(published.styles_of(suite))
    assert published.build_due() == boards
    assert published.build_due() == 0
    first = published.build(suite, OWN)
    assert first == BoardSnapshot.objects.get(style=OWN)


def test_a_new_result_gives_a_new_board_and_the_old_one_stays(
    suite: Suite, monkeypatch: Any
) -> None:
    monkeypatch.setattr(published, "SOONEST", 0.0)
    monkeypatch.setattr(published, "REST", 0)
    published.build_due()
    moment = timezone.now()
    make.evaluated("lab/new", suite, skill(0.8), n=120)
    assert published.build_due() == len(published.styles_of(suite))
    now, then = published.newest(suite, OWN), published.at(suite, OWN, moment)
    assert now is not None
    assert then is not None
    assert "lab/new" in {model.repo_id for model in now.models}
    assert "lab/new" not in {model.repo_id for model in then.models}
    assert published.at(suite, OWN, moment - timedelta(days=1)) is None


def test_a_board_that_cannot_be_built_keeps_no_other_from_it(suite: Suite, db: None) -> None:
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


def test_a_board_rests_after_it_was_built(suite: Suite, monkeypatch: Any) -> None:
    monkeypatch.setattr(published, "SOONEST", 3600.0)
    published.build_due()
    make.evaluated("lab/new", suite, skill(0.8), n=120)
    assert published.build_due() == 0


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


def test_ranks_are_taken_over_where_only_the_queue_moved(suite: Suite, monkeypatch: Any) -> None:
    published.build(suite, OWN)
    before = published.newest(suite, OWN)

    def nobody(*_: object, **__: object) -> None:
        raise AssertionError("ranked again without need")

    monkeypatch.setattr("leaderboard.snapshot.ranked.rank", nobody)
    make.make_submission(make.make_variant("lab/another"), suite)
    published.build(suite, OWN)
    after = published.newest(suite, OWN)
    assert before is not None
    assert after is not None
    assert len(after.models) == len(before.models) + 1
    assert after.ranks.high[:4].tolist() == before.ranks.high[:4].tolist()


def test_columns_say_what_they_ask(suite: Suite) -> None:
    SuiteEntry.objects.filter(benchmark="sums").update(people=0.9, people_source="A. Smith 2020")
    published.build(suite, OWN)
    board = published.newest(suite, OWN)
    assert board is not None
    facts, sums = board.columns
    assert (facts.n, facts.chance, facts.people) == (120, 0.25, None)
    assert (sums.people, sums.people_source) == (0.9, "A. Smith 2020")


def test_news_of_one_benchmark_concern_its_suites_alone(suite: Suite) -> None:
    other = make.make_suite("other", benchmarks=("letters",))
    before = edition.of_data()
    assert edition.of_data() == before, "nothing happened"
    make.make_submission(make.make_variant("lab/new"), suite)
    after = edition.of_data()
    assert after[suite.pk] > before[suite.pk]
    assert after[other.pk] == before[other.pk]


def test_a_run_that_is_committed_late_is_news_still(suite: Suite) -> None:
    """Its event has a smaller number than one that was seen before."""
    early = RunEvent.objects.order_by("pk")[5]
    pk = early.pk
    early.delete()
    before = edition.of_data()
    run = Run.objects.filter(state=Run.State.QUEUED)[0]
    claims.cancel(run, by="ada")
    RunEvent.objects.filter(run=run).order_by("-pk")[:1].get().delete()
    RunEvent.objects.create(pk=pk, run=run, at=timezone.now(), state="cancelled", by="ada")
    assert edition.of_data()[suite.pk] == before[suite.pk] + 1


def test_a_suite_without_results_has_its_empty_boards_at_once(db: None) -> None:
    suite = make.make_suite(benchmarks=("facts",))
    published.build_first(suite)
    board = published.newest(suite, OWN)
    assert board is not None
    assert len(board.models) == 0


def test_while_a_large_board_of_another_machine_is_unpacked_the_one_before_it_is_shown(
    suite: Suite, monkeypatch: Any
) -> None:
    published.build(suite, OWN)
    before = published.newest(suite, OWN)
    make.make_submission(make.make_variant("lab/late"), suite)
    new = published.build(suite, OWN)
    shutil.rmtree(snapshot_file.folder_of(new.sha256))
    monkeypatch.setattr(published, "LARGE", 1)
    asked, go_on = threading.Event(), threading.Event()
    unpack = snapshot_file.unpack

    def slow(path: Path, folder: Path) -> None:
        asked.set()
        assert go_on.wait(30)
        unpack(path, folder)

    monkeypatch.setattr(snapshot_file, "unpack", slow)
    assert published.newest(suite, OWN) is before
    assert asked.wait(30)
    assert published.newest(suite, OWN) is before, "nobody waits"
    go_on.set()
    for _ in range(300):
        if (now := published.newest(suite, OWN)) is not before:
            break
        time.sleep(0.1)
    assert now is not None
    assert "lab/late" in {model.repo_id for model in now.models}


def _title(suite: Suite) -> None:
    suite.entries.update(title="Known facts")


def _licence(_: Suite) -> None:
    Variant.objects.update(licence="mit")


def _flag(_: Suite) -> None:
    """One model's flag passes to another: their number stays the same."""
    HubModel.objects.filter(flag_reason="copied").update(flag_reason="")
    HubModel.objects.filter(repo_id="lab/last").update(flag_reason="copied")


@pytest.mark.parametrize("change", [_title, _licence, _flag])
def test_what_is_said_otherwise_of_a_column_or_a_model_is_news(
    suite: Suite, monkeypatch: Any, change: Callable[[Suite], None]
) -> None:
    monkeypatch.setattr(published, "SOONEST", 0.0)
    monkeypatch.setattr(published, "REST", 0)
    HubModel.objects.filter(repo_id="lab/first").update(flag_reason="copied")
    published.build_due()
    assert published.build_due() == 0
    change(suite)
    assert published.build_due() == len(published.styles_of(suite))
    assert published.build_due() == 0


@pytest.mark.parametrize("lost", ["models", "run.npy", "about"])
def test_a_board_whose_folder_is_damaged_is_unpacked_again(suite: Suite, lost: str) -> None:
    row = published.build(suite, OWN)
    folder = snapshot_file.folder_of(row.sha256)
    folder.joinpath(lost).write_bytes(b"") if lost == "models" else folder.joinpath(lost).unlink()
    snapshot_file._boards.clear()
    board = published.newest(suite, OWN)
    assert board is not None
    assert len(board.models) == row.models_n


def missing(file: Path) -> None:
    file.unlink()


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def other_bytes(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


# That bytes of a file changed which it found whole, a process does not see until it is new.
@pytest.mark.parametrize(
    ("damage", "new"),
    [(missing, True), (half, True), (other_bytes, True), (missing, False), (half, False)],
)
def test_a_board_whose_file_is_damaged_is_built_again_though_nothing_changed(
    suite: Suite, monkeypatch: Any, damage: Callable[[Path], None], new: bool
) -> None:
    monkeypatch.setattr(published, "SOONEST", 0.0)
    monkeypatch.setattr(published, "REST", 0)
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
    board = published.newest(suite, OWN)
    assert board is not None
    assert len(board.models) == row.models_n
    assert published.build_due() == 0


def test_a_file_that_broke_after_it_was_found_whole_is_no_end_of_building(suite: Suite) -> None:
    row = published.build(suite, OWN)
    assert published.build(suite, OWN) == row
    other_bytes(path_of(row.sha256))
    snapshot_file._remove(snapshot_file.folder_of(row.sha256))
    snapshot_file._boards.clear()
    assert published.build(suite, OWN) != row


def test_who_asks_for_every_past_day_fills_no_disk(suite: Suite, monkeypatch: Any) -> None:
    monkeypatch.setattr(snapshot_file, "PAST", 2)
    moments, rows = [], []
    for number in range(5):
        make.make_submission(make.make_variant(f"lab/late{number}"), suite)
        rows.append(published.build(suite, OWN))
        moments.append(timezone.now())
    newest = published.newest(suite, OWN)
    snapshot_file._boards.clear()
    for moment in moments:
        assert published.at(suite, OWN, moment) is not None
    assert newest is not None
    unpacked = {path.name for path in snapshot_file.folder_of("x").parent.iterdir()}
    past = [row.sha256 for row in rows[:-1] if row.sha256 in unpacked]
    assert past == [row.sha256 for row in rows[2:4]]
    again = published.at(suite, OWN, moments[0])
    assert again is not None
    assert len(again.models) == len(newest.models) - 4
