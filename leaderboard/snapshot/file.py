"""A board as a file, and the same unpacked into a folder from which it is mapped into memory.

The file is compressed: numpy's arrays, the models as an Arrow table, the rest as JSON. It is kept
for good. The folder can be made from it again at any time; reading it takes some milliseconds for
any size, since only what a page touches is read, and all processes of a machine share its memory.
It is unpacked once a machine: by who builds the board, else by the first who asks for it. What is
mapped stays whole when its folder goes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalcore.lengths import NAMES
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import positions
from leaderboard.snapshot.data import (
    EVERY,
    BestOf,
    Board,
    Column,
    Costs,
    Crossing,
    Ranks,
    Scores,
    StyleGap,
)
from leaderboard.snapshot.models import Models
from leaderboard.web import Recent

_SCORES = ("scores", "normalised", "average")
_ARRAYS = ("n", "standing", "sd_of_draws")
_LENGTHS = "lengths"
"""Files from before it was counted lack this array."""
_PLAIN = ("suite", "version", "title", "normalisation", "style", "data_version")
_ABOUT, _MODELS = "about", "models"
_NO_ARRAYS = (_ABOUT, _MODELS)
_NUMBERS, _PLACES = "numbers", "places"
"""All arrays in one file, since each mapped file takes one of the 1,024 that a process may have
open; and by name the type, shape and first byte of each."""
_ALIGNED = 64
_SIDES = ("value", "low", "high")
_POSITIONS = tuple(field.name for field in fields(positions.Positions))
_RANKS = tuple(field.name for field in fields(Ranks) if field.name != "reach")

Arrays = Mapping[str, NDArray[Any]]
Value = TypeVar("Value")


def write(board: Board, path: Path) -> None:
    """Write the board's file; what is read back of it is equal to the board."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(board, name) for name in _ARRAYS}
    arrays[_LENGTHS] = board.lengths
    # A structured void cannot be written without pickle: its bytes can.
    arrays["run"] = np.frombuffer(board.run.tobytes(), np.uint8).reshape(*board.run.shape, 16)
    for name in _SCORES:
        arrays |= {f"{name}.{side}": getattr(getattr(board, name), side) for side in _SIDES}
    arrays |= {f"ranks.{name}": getattr(board.ranks, name) for name in _RANKS}
    if board.costs:
        arrays |= {f"costs.{name}": getattr(board.costs, name) for name in ("of", "kind")}
    rows = len(board.models)
    arrays |= _stacked("gaps", [gap.difference for gap in board.gaps], rows)
    arrays["gaps.paired"] = _stack([gap.paired for gap in board.gaps], rows, np.bool_)
    arrays |= _stacked("best", [best.score for best in board.best], rows)
    arrays["best.column"] = _stack([best.column for best in board.best], rows, np.int32)
    width = len(board.columns)
    reasons = sorted(set(board.why.values()))
    place = {reason: number for number, reason in enumerate(reasons)}
    cells = sorted(board.why)
    arrays["why.cell"] = _numbers(cells, width)
    arrays["why.reason"] = np.array([place[board.why[cell]] for cell in cells], np.int32)
    drawn = [(cell, run) for cell in sorted(board.other_draws) for run in board.other_draws[cell]]
    arrays["other_draws.cell"] = _numbers([cell for cell, _ in drawn], width)
    raw = b"".join(run.bytes for _, run in drawn)
    arrays["other_draws.run"] = np.frombuffer(raw, np.uint8).reshape(-1, 16)
    about = {
        **{name: getattr(board, name) for name in _PLAIN},
        "built": board.built.isoformat(),
        "reach": board.ranks.reach,
        "columns": [asdict(column) for column in board.columns],
        "reasons": reasons,
        "styles": board.styles,
        "without_style": board.without_style,
        "gaps": [[gap.benchmark, gap.first, gap.second] for gap in board.gaps],
        "best": [best.benchmark for best in board.best],
        "crossing": board.crossing,
        "by_question": board.by_question,
        "rank_rule": board.rank_rule,
        "kinds": board.costs.kinds if board.costs else (),
    }
    raws = {_ABOUT: json.dumps(about, ensure_ascii=False).encode(), _MODELS: _packed(board.models)}
    arrays |= {name: np.frombuffer(raw, np.uint8) for name, raw in raws.items()}
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def unpack(path: Path, folder: Path) -> None:
    """Make the folder of the file at `path`, whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix="making-"))
    try:
        making.chmod(0o755)
        with np.load(path, allow_pickle=False) as file:
            for name in _NO_ARRAYS:
                (making / name).write_bytes(file[name].tobytes())
            _write_arrays(making, (part for part in file.items() if part[0] not in _NO_ARRAYS))
        # What follows from the board, and takes too long for a page: the file is without it. Of
        # the board of every style no page asks for it.
        if (board := mapped(making)).style != EVERY:
            found = positions.of_board(board)
            derived = [(f"positions.{name}", getattr(found, name)) for name in _POSITIONS]
            _write_arrays(making, [*_read_arrays(making).items(), *derived])
        making.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was quicker
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _write_arrays(folder: Path, arrays: Iterable[tuple[str, NDArray[Any]]]) -> None:
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    unfinished = folder / f"{_NUMBERS}.part"
    with unfinished.open("wb") as file:
        for name, array in arrays:
            file.write(bytes(-file.tell() % _ALIGNED))
            places[name] = array.dtype.str, array.shape, file.tell()
            file.write(array.tobytes())
        file.write(bytes(_ALIGNED))  # an empty file cannot be mapped
    unfinished.rename(folder / _NUMBERS)  # what is mapped of the old one stays whole
    (folder / _PLACES).write_text(json.dumps(places))


def _read_arrays(folder: Path) -> Arrays:
    # As a plain array: numpy's memmap is slow to cut and index.
    mapped = np.asarray(np.memmap(folder / _NUMBERS, np.uint8, mode="r"))
    arrays = {}
    for name, (written, shape, start) in json.loads((folder / _PLACES).read_bytes()).items():
        dtype = np.dtype(written)
        end = start + math.prod(shape) * dtype.itemsize
        arrays[name] = mapped[start:end].view(dtype).reshape(shape)
    return arrays


def mapped(folder: Path) -> Board:
    """The board of an unpacked folder. Raises FileNotFoundError where there is none."""
    about = json.loads((folder / _ABOUT).read_bytes())
    arrays = _read_arrays(folder)
    table = pa.ipc.open_file(pa.memory_map(str(folder / _MODELS))).read_all()
    run, width = arrays["run"], len(about["columns"])
    reason, reasons, draws = arrays["why.reason"], about["reasons"], arrays["other_draws.run"]
    ranks = {name: arrays[f"ranks.{name}"] for name in _RANKS}
    gaps, best = _scores("gaps", arrays), _scores("best", arrays)
    as_written: dict[str, Any] = {
        **{name: about[name] for name in _PLAIN},
        **{name: _scores(name, arrays) for name in _SCORES},
        **{name: arrays[name] for name in _ARRAYS},
    }
    uncounted = np.zeros((*run.shape[:2], len(NAMES)), np.int32)
    board = Board(
        **as_written,
        built=datetime.fromisoformat(about["built"]),
        columns=tuple(Column(**column) for column in about["columns"]),
        models=Models(table),
        run=run.view("V16").reshape(run.shape[:2]) if run.size else np.zeros(run.shape[:2], "V16"),
        ranks=Ranks(**ranks, reach=about["reach"]),
        lengths=arrays.get(_LENGTHS, uncounted),
        costs=Costs(arrays["costs.of"], arrays["costs.kind"], about["kinds"])
        if "costs.of" in arrays
        else None,
        why=_PerCell(arrays["why.cell"], width, lambda at: reasons[int(reason[at][0])]),
        other_draws=_PerCell(
            arrays["other_draws.cell"],
            width,
            lambda at: tuple(UUID(bytes=run.tobytes()) for run in draws[at]),
        ),
        styles=tuple(about["styles"]),
        without_style=tuple(about["without_style"]),
        gaps=tuple(
            StyleGap(benchmark, first, second, gaps.row(k), arrays["gaps.paired"][k])
            for k, (benchmark, first, second) in enumerate(about["gaps"])
        ),
        best=tuple(
            BestOf(benchmark, best.row(k), arrays["best.column"][k])
            for k, benchmark in enumerate(about["best"])
        ),
        # Files from before these were found lack them.
        crossing=Crossing(*about["crossing"]) if about.get("crossing") else None,
        by_question=tuple(about.get("by_question", ())),
        rank_rule=about.get("rank_rule", 0),
    )
    if "positions.rank" in arrays:  # else it was unpacked by a release that did not find them
        found = (arrays[f"positions.{name}"] for name in _POSITIONS)
        positions.know(board, positions.Positions(*found))
    return board


class _PerCell(Mapping[tuple[int, int], Value], Generic[Value]):
    """Something for some cells, in arrays sorted by the cell's number."""

    def __init__(
        self, cells: NDArray[np.int64], width: int, read: Callable[[slice], Value]
    ) -> None:
        """`read` gives what stands at some places of the arrays, which are of one cell."""
        self._cells, self._width, self._read = cells, width, read

    def __getitem__(self, cell: tuple[int, int]) -> Value:
        number = cell[0] * self._width + cell[1]
        first, last = np.searchsorted(self._cells, [number, number + 1])
        if first == last:
            raise KeyError(cell)
        return self._read(slice(first, last))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for number in np.unique(self._cells).tolist():
            yield divmod(number, self._width)

    def __len__(self) -> int:
        return len(np.unique(self._cells))


def _numbers(cells: Sequence[tuple[int, int]], width: int) -> NDArray[np.int64]:
    return np.array([row * width + column for row, column in cells], np.int64)


def _packed(models: Sequence[Any]) -> bytes:
    table = Models.of(models).table.combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _stacked(name: str, scores: Sequence[Scores], rows: int) -> dict[str, NDArray[Any]]:
    """One array of shape (scores, rows) for each side."""
    return {
        f"{name}.{side}": _stack([getattr(score, side) for score in scores], rows, np.float64)
        for side in _SIDES
    }


def _stack(arrays: Sequence[NDArray[Any]], rows: int, dtype: type[np.generic]) -> NDArray[Any]:
    return np.array(arrays, dtype).reshape(len(arrays), rows)


def _scores(name: str, arrays: Arrays) -> Scores:
    return Scores(*(arrays[f"{name}.{side}"] for side in _SIDES))


MOST = 24
PAST = 12
"""Unpacked folders beside those of the boards that are shown: who asks for one day after the other
fills no disk. The one asked for longest ago makes room."""
UNUSED = timedelta(hours=6)
"""After so long the folder of a past board is removed."""

_DAMAGED = (BadZipFile, zlib.error, EOFError, KeyError, ValueError)
"""What reading half a file raises, or another one."""

_boards: Recent[Board] = Recent(MOST)
_reading = threading.Lock()
_read_beside: set[str] = set()


class Unreadable(OSError):
    """A board's file is missing, or is not what was written."""


def holds(sha256: str) -> bool:
    """Whether the board is mapped already."""
    return _boards.get(sha256) is not None


def board(sha256: str) -> Board:
    """The board in the file with this digest, unpacked if need be. Raises Unreadable."""
    if found := _boards.get(sha256):
        return found
    with _reading:  # two requests at once would unpack the same file twice
        return _boards.of(sha256, lambda: _mapped(sha256))


def make_ready(sha256: str) -> None:
    """Make the board ready for every process of this machine. Raises Unreadable."""
    if folder_of(sha256).is_dir():
        return
    try:
        unpack(artifacts.path_of(sha256), folder_of(sha256))
    except (FileNotFoundError, *_DAMAGED) as problem:
        raise Unreadable(f"board {sha256}: its file is missing or damaged: {problem}") from problem


def read_beside(sha256: str) -> None:
    """Map the board in a thread of its own, while requests go on being answered."""
    if sha256 not in _read_beside:
        _read_beside.add(sha256)
        threading.Thread(target=_read, args=(sha256,), daemon=True).start()


def past(sha256: str, shown: Container[str]) -> Board:
    """A board for a reader who asks how it stood; those with a digest among `shown` are left."""
    found = board(sha256)
    others = [path for path in _folder().iterdir() if path.name not in shown]
    for folder in sorted(others, key=_asked, reverse=True)[PAST:]:
        _remove(folder)
    return found


def clear(current: Container[str]) -> None:
    """Remove the folders of boards that are not current and that nobody asked for of late."""
    with suppress(FileNotFoundError):
        for folder in _folder().iterdir():
            idle = time.time() - _asked(folder)
            if folder.name not in current and idle > UNUSED.total_seconds():
                _remove(folder)


def _asked(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _remove(folder: Path) -> None:
    """Under its name it is whole or gone, whenever we are stopped."""
    going = folder.with_name(f"going-{uuid4().hex}")
    with suppress(FileNotFoundError):  # another process was quicker
        folder.rename(going)
        shutil.rmtree(going, ignore_errors=True)


def _mapped(sha256: str) -> Board:
    """Made again where its folder is damaged, as half a deletion or a full disk leaves it."""
    folder = folder_of(sha256)
    for _ in range(2):  # it may be cleared away between the two steps
        make_ready(sha256)
        try:
            os.utime(folder)
            return mapped(folder)
        except (OSError, *_DAMAGED):
            _remove(folder)
    raise Unreadable(f"board {sha256}: its unpacked folder vanished or broke twice")


def _read(sha256: str) -> None:
    try:
        board(sha256)
    finally:
        _read_beside.discard(sha256)


def folder_of(sha256: str) -> Path:
    """Where the board is, or would be, unpacked."""
    return _folder() / sha256


def _folder() -> Path:
    return artifacts.folder_beside("boards")
