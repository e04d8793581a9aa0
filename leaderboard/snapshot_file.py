"""A board as a file: numpy's arrays, and beside them the columns and models as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from leaderboard.board_data import BestOf, Board, Column, Model, Ranks, Scores, StyleGap

_SCORES = ("scores", "normalised", "average")
_ARRAYS = ("n", "standing", "sd_of_draws", "run")
_PLAIN = ("suite", "version", "title", "normalisation", "style", "data_version")


def write(board: Board, path: Path) -> None:
    """Write the board; what `read` reads back is equal to it."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(board, name) for name in _ARRAYS}
    # A structured void cannot be written without pickle: its bytes can.
    arrays["run"] = np.frombuffer(board.run.tobytes(), np.uint8).reshape(*board.run.shape, 16)
    for name in _SCORES:
        arrays |= _of_scores(name, getattr(board, name))
    arrays |= {f"ranks.{one.name}": getattr(board.ranks, one.name) for one in _rank_arrays()}
    for place, gap in enumerate(board.gaps):
        arrays |= _of_scores(f"gap{place}", gap.difference)
        arrays[f"gap{place}.paired"] = gap.paired
    for place, best in enumerate(board.best):
        arrays |= _of_scores(f"best{place}", best.score)
        arrays[f"best{place}.column"] = best.column
    about = {
        **{name: getattr(board, name) for name in _PLAIN},
        "built": board.built.isoformat(),
        "reach": board.ranks.reach,
        "columns": [asdict(column) for column in board.columns],
        "models": [{**asdict(m), "added": m.added.isoformat()} for m in board.models],
        "why": [[*cell, text] for cell, text in board.why.items()],
        "other_draws": [
            [*cell, [str(run) for run in runs]] for cell, runs in board.other_draws.items()
        ],
        "styles": board.styles,
        "without_style": board.without_style,
        "gaps": [[gap.benchmark, gap.first, gap.second] for gap in board.gaps],
        "best": [best.benchmark for best in board.best],
    }
    text = np.frombuffer(json.dumps(about, ensure_ascii=False).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, about=text, **arrays)


def read(path: Path) -> Board:
    """The board in the file at `path`."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file.items())
    about = json.loads(arrays["about"].tobytes())
    run = np.ascontiguousarray(arrays["run"])
    ranks = {one.name: arrays[f"ranks.{one.name}"] for one in _rank_arrays()}
    return Board(
        **{name: about[name] for name in _PLAIN},
        scores=_scores("scores", arrays),
        normalised=_scores("normalised", arrays),
        average=_scores("average", arrays),
        built=datetime.fromisoformat(about["built"]),
        columns=tuple(Column(**column) for column in about["columns"]),
        models=tuple(
            Model(**{**model, "added": datetime.fromisoformat(model["added"])})
            for model in about["models"]
        ),
        n=arrays["n"],
        standing=arrays["standing"],
        sd_of_draws=arrays["sd_of_draws"],
        run=np.frombuffer(run.tobytes(), "V16").reshape(run.shape[:2]),
        ranks=Ranks(**ranks, reach=about["reach"]),
        why={(row, column): text for row, column, text in about["why"]},
        other_draws={
            (row, column): tuple(UUID(run) for run in runs)
            for row, column, runs in about["other_draws"]
        },
        styles=tuple(about["styles"]),
        without_style=tuple(about["without_style"]),
        gaps=tuple(
            StyleGap(benchmark, first, second, _scores(f"gap{place}", arrays),
                     arrays[f"gap{place}.paired"])
            for place, (benchmark, first, second) in enumerate(about["gaps"])
        ),
        best=tuple(
            BestOf(benchmark, _scores(f"best{place}", arrays), arrays[f"best{place}.column"])
            for place, benchmark in enumerate(about["best"])
        ),
    )  # fmt: skip


def _rank_arrays() -> list[Any]:
    return [one for one in fields(Ranks) if one.name != "reach"]


def _of_scores(name: str, scores: Scores) -> dict[str, NDArray[Any]]:
    return {f"{name}.{side}": getattr(scores, side) for side in ("value", "low", "high")}


def _scores(name: str, arrays: dict[str, NDArray[Any]]) -> Scores:
    return Scores(*(arrays[f"{name}.{side}"] for side in ("value", "low", "high")))
