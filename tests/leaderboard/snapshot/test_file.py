"""A board's file: what is mapped from its unpacked folder is the board that was written."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from leaderboard.samples import store as artifacts
from leaderboard.snapshot import file as snapshot_file
from leaderboard.snapshot import positions
from leaderboard.snapshot.costs import Cost, Costs
from leaderboard.snapshot.data import BestOf, Board, Ranks, Scores, StyleGap
from leaderboard.snapshot.models import Models
from tests.leaderboard.boards import synthetic_board

TEXT = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


def with_everything(board: Board) -> Board:
    """The board with everything that only some boards have."""
    rows = len(board.models)
    half = Scores(*(np.full(rows, value) for value in (0.5, 0.4, np.nan)))
    paired, column = np.arange(rows) % 2 == 0, np.arange(rows, dtype=np.int32) - 1
    costs = Costs.none(*board.n.shape)
    costs.put(2, 1, Cost(40.0, 0.5, np.nan, "1 x A", ""))
    return replace(
        board,
        costs=costs,
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
    for file in (tmp_path / "unpacked").glob("positions.*"):
        file.unlink()  # as by a release of before
    again = positions.of_board(snapshot_file.mapped(tmp_path / "unpacked"))
    assert plain(again.low) == plain(expected.low)


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


def stored(board: Board, folder: Path) -> str:
    """The digest of the board's file in the store."""
    snapshot_file.write(board, folder / "board.npz")
    return artifacts.store(folder / "board.npz", kind="board").sha256


def test_a_board_is_shown_after_its_folder_was_cleared_away(tmp_path: Path) -> None:
    sha256 = stored(synthetic_board(20), tmp_path)
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


def test_a_lost_file_is_no_half_board(tmp_path: Path) -> None:
    sha256 = stored(synthetic_board(21), tmp_path)
    artifacts.path_of(sha256).unlink()
    with pytest.raises(snapshot_file.Unreadable):
        snapshot_file.board(sha256)
    assert not snapshot_file.folder_of(sha256).exists()


def test_models_of_a_file_from_before_they_were_asked_in_several_ways() -> None:
    board = synthetic_board(4, 3)
    later = ["adapter_base", "chat", "backend", "apart"]
    read = Models(board.models.table.drop_columns(later))
    asked = {(model.adapter_base, model.chat, model.backend, model.apart) for model in read}
    assert asked == {("", False, "hf", "")}
    assert list(read) == list(board.models)
    assert read.identities == board.models.identities
