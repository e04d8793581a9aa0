"""Folders as a hostile process leaves them: nothing in them is out of sight, or stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners import folders
from runners.folders import DEEPEST, Hidden, entries, remove
from tests.runners.standin import dig

LONG = "x" * 200


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Of which nothing stays: pytest removes its own folders by what cannot remove such."""
    place = tmp_path / "place"
    place.mkdir()
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def deep(top: Path, folders_in_each_other: int) -> None:
    """With a file of a byte at the bottom; by names that together are longer than a path may be."""
    before = Path.cwd()
    os.chdir(top)
    for _ in range(folders_in_each_other):
        Path(LONG).mkdir()
        os.chdir(LONG)
    Path("file").write_text("1")
    os.chdir(before)


def test_what_lies_further_down_than_a_path_is_long_is_seen(place: Path) -> None:
    deep(place, DEEPEST - 1)
    sizes = [entry.status.st_size for entry in entries(place) if entry.path.name == "file"]
    assert sizes == [1]


def test_what_lies_too_deep_is_said_to_be_hidden_once_all_else_was_told(place: Path) -> None:
    dig(place)
    seen = []
    with pytest.raises(Hidden):
        seen.extend(entry.path.name for entry in entries(place))
    assert len(seen) == DEEPEST + 1


def test_links_are_seen_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link").symlink_to("/etc")
    assert [entry.path.name for entry in entries(tmp_path / "own")] == ["link"]
    (tmp_path / "other").symlink_to(tmp_path / "own")
    remove(tmp_path / "other")
    assert (tmp_path / "own" / "link").is_symlink()


def test_a_folder_goes_however_deep_it_is_and_by_its_place_too(place: Path) -> None:
    for name in ("one", "other"):
        (place / name).mkdir()
        dig(place / name)
    remove(place / "one")
    here = os.open(place, os.O_RDONLY)
    remove("other", below=here)
    os.close(here)
    assert list(place.iterdir()) == []


CLOSED = """
import os, sys, tempfile
from runners.folders import hides_files, remove
top = tempfile.mkdtemp()
os.makedirs(f"{top}/a/b")
open(f"{top}/a/b/file", "w").close()
for closed in (f"{top}/a", top):
    os.chmod(closed, 0)
    assert hides_files(top), f"{closed} was passed over"
remove(top)
assert not os.path.exists(top), "a closed folder stays"
"""


NO_MORE_FILES = """
import os, resource, sys
from runners.folders import hides_files
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))  # of some sixty that it would take
assert not hides_files(sys.argv[1])
"""


def test_a_machine_that_lets_us_open_no_more_files_is_not_taken_for_a_folder_that_hides_some(
    place: Path,
) -> None:
    deep(place, DEEPEST - 1)
    ended = subprocess.run(
        [sys.executable, "-c", NO_MORE_FILES, place],
        cwd=Path(folders.__file__).parents[1],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_is_closed_to_its_owner_is_noticed_and_goes() -> None:
    ended = subprocess.run(
        ["/usr/bin/python3", "-c", CLOSED],
        env={"PYTHONPATH": str(Path(folders.__file__).parents[1])},
        user="nobody", cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
