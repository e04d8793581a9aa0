"""The store and its rows: what is missing, damaged or left over is told; what is needed is kept."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from leaderboard.models import Artifact, BoardSnapshot, ItemAnalysis, Suite
from leaderboard.samples import checking, path_of
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import OWN, published
from leaderboard.tasks import items
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db
LONG = 2 * checking.ORPHAN_AFTER.total_seconds()


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    folder = tmp_path / "artifacts"
    storage = {**settings.STORAGES["artifacts"], "OPTIONS": {"location": folder}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": storage}
    return folder


@pytest.fixture
def kept(folder: Path) -> Suite:
    """Runs, a board and an analysis with their files, all of them old."""
    suite = make.make_suite(benchmarks=("facts",))
    for name in range(items.ENOUGH):
        make.evaluated(f"lab/{name}", suite, {"cloze": 0.6, "mmlu": 0.5, "hybrid": 0.6}, n=20)
    published.build(suite, OWN)
    items._looked.clear()  # columns rest for an hour, also from one test to the next
    items.analyse_due()
    age(*folder.rglob("*"))
    return suite


def age(*files: Path) -> None:
    then = time.time() - LONG
    for file in files:
        os.utime(file, (then, then))


def told(*arguments: str) -> tuple[int, list[str]]:
    """Exit status and lines of the command."""
    said = io.StringIO()
    try:
        call_command("check_artifacts", *arguments, stdout=said)
    except SystemExit as ended:
        return int(str(ended.code)), said.getvalue().splitlines()
    return 0, said.getvalue().splitlines()


def lines_of(table: Any) -> list[str]:
    return [str(path_of(sha256)) for sha256 in table.objects.values_list("sha256", flat=True)]


def test_a_whole_store_has_no_fault_and_nothing_of_it_is_collected(
    kept: Suite, folder: Path
) -> None:
    before = sorted(folder.rglob("*"))
    assert ItemAnalysis.objects.exists()
    assert told("--collect") == (0, ["0 faults"])
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("table", [Artifact, BoardSnapshot, ItemAnalysis])
def test_a_file_that_is_missing_or_another_one_is_told_with_what_to_do(
    kept: Suite, table: Any
) -> None:
    row = table.objects.order_by("pk").first()
    file = path_of(row.sha256)
    whole = file.read_bytes()
    for damage, said in (
        (bytes(len(whole)), "its content is not what was stored"),
        (whole[:-1], f"{len(whole)} were stored" if hasattr(row, "bytes") else "its content"),
        (None, "No such file or directory"),
    ):
        file.unlink() if damage is None else file.write_bytes(damage)
        status, (line, count) = told()
        assert (status, count) == (1, "1 fault")
        assert line.startswith(f"{file}: ")
        assert said in line
        assert "back-up" in line


def test_only_old_files_that_nothing_names_are_collected(kept: Suite, folder: Path) -> None:
    old, young = (artifacts.store_open(io.BytesIO(text), kind="lost") for text in (b"1", b"2"))
    writing, killed = folder / "incoming-now", folder / "incoming-then"
    for file in (writing, killed, folder / "notes.txt", folder / "not-ours"):
        file.write_text("x")
    age(path_of(old.sha256), killed, folder / "notes.txt", folder / "not-ours")
    status, lines = told()
    assert status == 1
    assert {line.partition(": ")[0] for line in lines[:-1]} == {
        str(path_of(old.sha256)),
        str(killed),
    }
    assert all("--collect" in line for line in lines[:-1])
    status, lines = told("--collect")
    assert (status, lines[-1]) == (0, "0 faults")
    assert not path_of(old.sha256).exists()
    assert not killed.exists()
    assert path_of(young.sha256).exists()
    assert {"incoming-now", "notes.txt", "not-ours"} <= {file.name for file in folder.iterdir()}


def test_what_is_stored_again_while_it_is_collected_stays(folder: Path) -> None:
    stored = artifacts.store_open(io.BytesIO(b"again"), kind="lost")
    age(path_of(stored.sha256))
    (orphan,) = checking.orphans()
    artifacts.store_open(io.BytesIO(b"again"), kind="lost")
    assert checking.collect(orphan) is False
    assert path_of(stored.sha256).read_bytes() == b"again"
    assert [file.name for file in folder.iterdir()] == [stored.sha256[:2]]


def test_a_board_that_went_while_the_others_were_read_is_no_fault(kept: Suite) -> None:
    found = checking._of_row("board", "0" * 64, 7, checking.OF_BOARD)
    assert list(found) == []
