"""A file that a child hands over is opened once: what was checked is what is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.handed_over import open_inside, read_bounded


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("nobody else's business")
    (tmp_path / "work" / "results").mkdir(parents=True)
    return tmp_path / "work"


def test_a_link_put_in_the_files_place_after_the_check_changes_nothing(work: Path) -> None:
    record = work / "results" / "record.json"
    record.write_text("measured")
    with open_inside(work, str(record)) as file:
        record.unlink()
        record.symlink_to(work.parent / "secret")
        assert read_bounded(file) == b"measured"


def test_what_is_no_regular_file_below_the_folder_is_refused(work: Path) -> None:
    results, secret = work / "results", work.parent / "secret"
    (results / "link").symlink_to(secret)
    (work / "elsewhere").symlink_to(work.parent)
    os.mkfifo(results / "pipe")
    names = ("link", "pipe", "nothing", "", "../../secret")
    wanted = [*(f"{results}/{name}" for name in names), f"{work}/elsewhere/secret", str(secret)]
    for name in (*wanted, "results/record.json"):
        with pytest.raises(ValueError, match="no file of the run"), open_inside(work, name):
            pass


def test_a_record_without_end_is_not_read_to_its_end(work: Path) -> None:
    (work / "results" / "record.json").write_text("x" * 100)
    with (
        open_inside(work, f"{work}/results/record.json") as file,
        pytest.raises(ValueError, match="more than"),
    ):
        read_bounded(file, most=99)
