"""What `datasets` prepared on this machine, and the library itself, which takes long to import."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.task.data.rows import Doc, Rows, rows_of

if TYPE_CHECKING:
    from datasets import Dataset


class Prepared(Mapping[str, "Dataset"]):
    """The splits that lie prepared on the disk; `datasets` is imported for whoever asks for one."""

    def __init__(self, files: Mapping[str, list[str]]) -> None:
        self._files = files
        self._splits: dict[str, Dataset] = {}
        self._rows: dict[str, Rows] = {}
        for split in files:  # here, where what is wrong with a file is told as the data set's fault
            if (rows := rows_of(files[split])) is None:
                _ = self[split]
            else:
                self._rows[split] = rows

    def __getitem__(self, split: str) -> Dataset:
        if split not in self._splits:
            self._splits[split] = _read(self._files[split])
        return self._splits[split]

    def __contains__(self, split: object) -> bool:
        return split in self._files  # and none is read for the question

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def rows(self, split: str) -> Sequence[Doc]:
        """The documents of a split to read and nothing else, without `datasets` where it can be."""
        rows = self._rows.get(split)
        return self[split] if rows is None else rows


def _read(files: list[str]) -> Dataset:
    """The documents in Arrow files that `datasets` prepared, with their features."""
    datasets = library()
    shards = [datasets.Dataset.from_file(file) for file in files]
    return shards[0] if len(shards) == 1 else datasets.concatenate_datasets(shards)


def library() -> Any:
    """The library, which takes long to import, told where it cannot keep what it makes."""
    import datasets

    if not _takes_files(cache_folder()):
        # What process_docs makes goes into a temporary folder then, instead of failing.
        datasets.disable_caching()
    return datasets


def cache_folder() -> Path:
    """Where `datasets` keeps its cache: as it says, or will say when it is imported."""
    if (config := sys.modules.get("datasets.config")) is not None:
        return Path(config.HF_DATASETS_CACHE)
    above = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    home = Path(os.environ.get("HF_HOME", above)).expanduser()
    return Path(os.environ.get("HF_DATASETS_CACHE", home / "datasets"))


@functools.cache
def _takes_files(folder: Path) -> bool:
    """Whether we may write there. Only trying tells: where Landlock refuses, `access` does not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
