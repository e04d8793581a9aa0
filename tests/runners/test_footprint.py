"""What a child takes of the disk, and whether a disk is full without it: on real file systems."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runners.footprint import Footprint

MIB = 2**20
PROGRAM = """
import json, os, sys
from pathlib import Path
from runners import footprint

footprint.LEAST_FREE = 8 * 2**20
others, own = Path(sys.argv[1], "others"), Path(sys.argv[1], "own")
others.mkdir()
own.mkdir()

def fill(folder, mebibytes):
    (folder / "ballast").write_bytes(bytes(mebibytes * 2**20))

{before}
taken = footprint.Footprint([own], [others], {to_come})
{after}
print(json.dumps([taken.is_without_room(), taken.free()]))
"""


def on_a_small_disk(
    place: Path, after: str, *, before: str = "", options: str = "size=40m", to_come: int = 0
) -> bool:
    """What a footprint finds on a file system of its own after this was done there."""
    program = PROGRAM.format(before=before, after=after, to_come=to_come)
    mounted = f'mount -t tmpfs -o {options} none "$1" && exec "$2" -c "$3" "$1"'
    ended = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mounted, "sh", str(place), sys.executable, program],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found: bool = json.loads(ended.stdout)[0]
    return found


def test_a_disk_that_others_filled_is_full(tmp_path: Path) -> None:
    assert on_a_small_disk(tmp_path, "fill(others, 36)")


def test_a_disk_that_was_full_before_the_child_began_is_full(tmp_path: Path) -> None:
    assert on_a_small_disk(tmp_path, "fill(own, 3)", before="fill(others, 34)")


def test_a_disk_that_only_the_child_filled_is_not(tmp_path: Path) -> None:
    fill_to_the_last = (
        "with (own / 'ballast').open('wb', buffering=0) as file:\n"
        "    try:\n"
        "        while True:\n"
        "            file.write(bytes(2**16))\n"
        "    except OSError:\n"
        "        pass\n"
    )
    assert not on_a_small_disk(tmp_path, fill_to_the_last)


def test_a_disk_with_room_is_not(tmp_path: Path) -> None:
    assert not on_a_small_disk(tmp_path, "fill(others, 10)")


def test_a_download_needs_room_for_what_is_to_come(tmp_path: Path) -> None:
    assert on_a_small_disk(tmp_path, "", to_come=40 * MIB)
    assert not on_a_small_disk(tmp_path, "", to_come=20 * MIB)


@pytest.mark.parametrize(("folder", "full"), [("others", True), ("own", False)])
def test_a_disk_without_another_file_is_full_unless_the_child_made_them(
    tmp_path: Path, folder: str, full: bool
) -> None:
    create = (
        "try:\n"
        f"    for number in range(9000): ({folder} / str(number)).touch()\n"
        "except OSError:\n"
        "    pass\n"
    )
    assert on_a_small_disk(tmp_path, create, options="size=40m,nr_inodes=3000") is full


def test_a_folder_that_is_gone_is_no_full_disk(tmp_path: Path) -> None:
    work, journal = tmp_path / "work", tmp_path / "journal"
    work.mkdir()
    journal.mkdir()
    taken = Footprint([work, journal])
    work.rmdir()
    assert taken.free() > 0
    assert not taken.is_without_room()
