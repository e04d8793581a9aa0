"""A board is what was written to its file, and what would be made from nothing, to the last bit."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from evalcore.stats.ranking import shown_better
from leaderboard.corrections import recalls
from leaderboard.models import HubModel, Recall, Run, RunCost, ScoreVector, Suite, SuiteEntry
from leaderboard.models.edition import changing
from leaderboard.queue import claims, reruns
from leaderboard.queue.history import tell
from leaderboard.samples import costs
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import build as board_builder
from leaderboard.snapshot import columns, positions, ranking
from leaderboard.snapshot import file as snapshot_file
from leaderboard.snapshot.data import (
    EVERY,
    OWN,
    BestOf,
    Board,
    Cost,
    Costs,
    Ranks,
    Scores,
    StyleGap,
)
from leaderboard.snapshot.models import Models
from leaderboard.stats import ranges
from tests.leaderboard import factories as make
from tests.leaderboard.boards import synthetic_board
from tests.leaderboard.rows import once_per_module

TEXT = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


def with_everything(board: Board) -> Board:
    """The board with everything that only some boards have."""
    rows = len(board.models)
    half = Scores(*(np.full(rows, value) for value in (0.5, 0.4, np.nan)))
    paired, column = np.arange(rows) % 2 == 0, np.arange(rows, dtype=np.int32) - 1
    costs = Costs.none(*board.n.shape)
    costs.put(2, 1, Cost(40.0, 0.5, np.nan, "1 x A", ""))
    lengths = np.arange(board.lengths.size, dtype=np.int32).reshape(board.lengths.shape)
    return replace(
        board,
        costs=costs,
        lengths=lengths,
        why={(3, 1): "other prompts", (0, 2): "≠ shots", (3, 0): "other prompts"},
        other_draws={(2, 1): (UUID(int=7), UUID(int=1)), (1, 3): (UUID(int=2**127),)},
        gaps=(StyleGap("bench_00", 0, 1, half, paired), StyleGap("bench_01", 1, 2, half, ~paired)),
        best=(BestOf("bench_00", half, column),),
        without_style=("Bench 9",),
        rank_rule=1,
    )


def read_back(board: Board, folder: Path) -> Board:
    snapshot_file.write(board, folder / "board.npz")
    shutil.rmtree(folder / "unpacked", ignore_errors=True)
    snapshot_file.unpack(folder / "board.npz", folder / "unpacked")
    return snapshot_file.mapped(folder / "unpacked")


def plain(value: Any) -> Any:
    """Arrays, and what is made of them, as lists that compare with NaN equal to NaN."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, Scores | Ranks | StyleGap | BestOf | Costs):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Models):
        return list(value)
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return dict(value) if hasattr(value, "keys") else value


@pytest.mark.parametrize("models", [0, 1, 120])
def test_every_field_is_what_it_was(models: int, tmp_path: Path) -> None:
    board = synthetic_board(models)
    board = with_everything(board) if models > 3 else board
    read = read_back(board, tmp_path)
    for field in fields(Board):
        assert plain(getattr(read, field.name)) == plain(getattr(board, field.name)), field.name
    assert (0, 0) not in read.why


def test_a_board_in_memory_takes_two_of_the_files_that_a_process_may_open(tmp_path: Path) -> None:
    board, opened = synthetic_board(4), Path("/proc/self/fd")
    before = len(list(opened.iterdir()))
    boards = [read_back(board, tmp_path) for _ in range(10)]
    assert len(list(opened.iterdir())) - before <= 2 * len(boards)


def test_positions_are_read_from_the_folder_and_found_again_where_scores_were_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = synthetic_board(60)
    read = read_back(board, tmp_path)
    changed = replace(read, scores=Scores(*(-side for side in read.scores.sides)))
    with monkeypatch.context() as without:
        without.setattr(positions, "ranges_of", None)
        found = positions.of_board(read)
    expected = positions.of_board(board)
    for name in ("rank", "low", "high", "models"):
        assert plain(getattr(found, name)) == plain(getattr(expected, name)), name
    at = np.flatnonzero(found.rank[:, 0] == 1)
    assert len(at) == 1
    last = found.models[0]
    assert positions.of_board(changed).rank[at, 0] == last


@given(some.lists(some.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_a_model_may_be_called_anything(texts: list[tuple[str, str]]) -> None:
    models = [
        replace(model, repo_id=name, flag_reason=reason)
        for model, (name, reason) in zip(synthetic_board(10).models, texts, strict=False)
    ]
    by_field = Models.of(models)
    assert list(by_field) == [by_field[row] for row in range(len(models))] == models
    assert by_field.values("repo_id") == [name for name, _ in texts]
    assert by_field.identities == [model.identity for model in models]
    assert list(by_field[::-1]) == models[::-1]
    assert by_field[-1] == models[-1]


def test_a_board_is_shown_after_its_folder_was_cleared_away(tmp_path: Path) -> None:
    snapshot_file.write(synthetic_board(20), tmp_path / "board.npz")
    sha256 = artifacts.store(tmp_path / "board.npz", kind="board").sha256
    before = list(snapshot_file.board(sha256).models)
    long_ago = time.time() - 2 * snapshot_file.UNUSED.total_seconds()
    os.utime(snapshot_file.folder_of(sha256), (long_ago, long_ago))
    snapshot_file.clear({sha256})
    assert snapshot_file.folder_of(sha256).is_dir(), "the current board stays"
    snapshot_file.clear(set())
    assert not snapshot_file.folder_of(sha256).exists()
    assert list(snapshot_file.board(sha256).models) == before, "in memory"
    snapshot_file._boards.clear()
    assert list(snapshot_file.board(sha256).models) == before, "unpacked again"


pytestmark = pytest.mark.django_db

WHEN = datetime(2026, 11, 26, tzinfo=UTC)
State = Run.State


@once_per_module
def eight_models() -> Suite:
    suite = make.make_suite(benchmarks=("facts", "sums"))
    for number in range(8):
        add(suite, f"lab/m{number}", 0.95 - 0.11 * number)
    return suite


@pytest.fixture
def suite(eight_models: Suite, db: None, monkeypatch: Any) -> Suite:
    """Eight models, in windows of four."""
    monkeypatch.setattr(ranking, "REACH", 2)
    return eight_models


def add(suite: Suite, name: str, share: float) -> None:
    skill = {"cloze": share, "mmlu": share, "hybrid": 1 - share}
    make.evaluated(name, suite, skill, n=40)


def built(suite: Suite, style: str, earlier: Board | None = None) -> Board:
    return board_builder.build(suite, style, WHEN, earlier)


def assert_same(one: Board, other: Board) -> None:
    for field in fields(Board):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert plain(mine) == plain(theirs), field.name


def one_in(state: Run.State, chosen: random.Random) -> Run:
    # The factories put first what they want to have claimed.
    Run.objects.update(priority=0)
    return chosen.choice(list(Run.objects.filter(state=state).order_by("created", "pk")))


def a_new_model(suite: Suite, chosen: random.Random) -> None:
    add(suite, f"lab/new-{chosen.random()}", chosen.uniform(0.1, 0.95))


def a_submission(suite: Suite, chosen: random.Random) -> None:
    make.make_submission(make.make_variant(f"lab/new-{chosen.random()}"), suite)


def a_start(_: Suite, chosen: random.Random) -> None:
    make.start(one_in(State.QUEUED, chosen), 1, 20)


def an_end(_: Suite, chosen: random.Random) -> None:
    make.finish(one_in(State.QUEUED, chosen), skill=chosen.random(), n=40)


def a_failure(_: Suite, chosen: random.Random) -> None:
    make.fail(one_in(State.QUEUED, chosen), "ModelError", "It answered with NaN.")


def a_run_that_is_cancelled(_: Suite, chosen: random.Random) -> None:
    claims.cancel(one_in(State.QUEUED, chosen), by="an operator")


def another_try(_: Suite, chosen: random.Random) -> None:
    claims.retry(one_in(State.FAILED, chosen), by="an operator")


def a_rerun(_: Suite, chosen: random.Random) -> None:
    runs = Run.objects.filter(pk=one_in(State.DONE, chosen).pk)
    reruns.rerun(runs.select_related("variant", "task"), by="an operator", reason="a mistake")


def a_recall(_: Suite, chosen: random.Random) -> None:
    run = one_in(State.DONE, chosen)
    recalls.recall(Recall.Kind.RUNS, [str(run.pk)], reason="a mistake", by="an operator")


def a_recall_that_is_undone(_: Suite, __: random.Random) -> None:
    recalls.undo(Recall.objects.get(undone=None), reason="it was right", by="an operator")


def a_title(suite: Suite, chosen: random.Random) -> None:
    entry = chosen.choice(list(suite.entries.order_by("position")))
    SuiteEntry.objects.filter(pk=entry.pk).update(title=f"Title {chosen.random()}")


def costs_that_are_read_later(_: Suite, __: random.Random) -> None:
    with changing():
        RunCost.objects.all().delete()
    while costs.fill_missing():
        pass


def a_run_that_counts_no_more(_: Suite, chosen: random.Random) -> None:
    run = one_in(State.DONE, chosen)
    with changing():
        Run.objects.filter(pk=run.pk).update(state=State.CANCELLED)
        tell([run], State.CANCELLED, by="a test")


def a_flag(_: Suite, chosen: random.Random) -> None:
    model = chosen.choice(list(HubModel.objects.order_by("repo_id")))
    HubModel.objects.filter(pk=model.pk).update(flag_reason="copied")


def no_flags(_: Suite, __: random.Random) -> None:
    HubModel.objects.update(flag_reason="")


CHANGES: list[Callable[[Suite, random.Random], None]] = [
    *(a_new_model, a_submission, a_start, an_end, an_end, a_failure, a_run_that_is_cancelled),
    *(another_try, a_rerun, a_recall, a_flag, a_recall_that_is_undone, a_title, a_new_model),
    *(costs_that_are_read_later, a_run_that_counts_no_more, no_flags),
]


def test_whatever_changes_the_board_is_that_made_from_nothing(suite: Suite) -> None:
    chosen = random.Random(0)
    boards = {style: built(suite, style) for style in (OWN, EVERY)}
    for change in CHANGES:
        change(suite, chosen)
        for style, earlier in boards.items():
            boards[style] = built(suite, style, earlier)
            columns.forget()
            assert_same(boards[style], built(suite, style))


def test_a_model_that_is_measured_anew_in_its_place_is_ranked_anew(
    suite: Suite, monkeypatch: Any
) -> None:
    before = built(suite, OWN)
    (done,) = Run.objects.filter(
        variant__hub_model__repo_id="lab/m0", task__style="cloze", task__benchmark="facts"
    )
    Run.objects.filter(pk=done.pk).update(state=State.CANCELLED)
    entry = SuiteEntry.objects.get(suite=suite, task=done.task)
    make.finish(make.queued_run(done.variant, entry), make.Answers(skill=0.95, n=40, seed=1))
    windows: list[int] = []

    def noted(means: Any, *args: Any, **options: Any) -> Any:
        windows.append(len(means))
        return shown_better(means, *args, **options)

    monkeypatch.setattr(ranges, "shown_better", noted)
    after = built(suite, OWN, before)
    assert after.models.values("variant") == before.models.values("variant")
    assert after.run[0].tolist() != before.run[0].tolist()
    assert len(windows) == 1, "the window that has it, and no other"
    assert_same(after, built(suite, OWN))


def test_scores_by_question_that_are_lost_are_no_base_of_ranks_any_more(suite: Suite) -> None:
    before = built(suite, OWN)
    assert before.by_question == (True, True)
    own = SuiteEntry.objects.filter(suite=suite, own=True).order_by("pk")[0]
    ScoreVector.objects.filter(result__run__run_key=own.run_key).order_by("pk")[0].delete()
    HubModel.objects.filter(repo_id="lab/m7").update(flag_reason="copied")  # that is news
    after = built(suite, OWN, before)
    assert sorted(after.by_question) == [False, True]
    assert_same(after, built(suite, OWN))
