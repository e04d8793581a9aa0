"""Training text as a stream, whatever it lies in.

A stream of blocks of whole words, with None after each document; nothing is held but a block or a
few rows.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from evalcore.errors import EvalError, InfraError, TaskError

BLOCK = 2**20
"""Bytes of plain text read at once."""
LONGEST_LINE = 2**26
"""Bytes: a longer line of JSON would no longer be a stream."""
ROWS = 1000
COMPRESSED = (".gz", ".zst")

Text = Iterator[str | None]


Source = Callable[[], Text]
"""Training text, from the beginning each time."""


def source_of(name: str) -> Source:
    """The file, folder or data set of that name.

    Raises TaskError where there is none, or where it holds no text.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return partial(_file, path)
    if path.is_dir():
        return _folder(path)
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1 or _is_file(path):
        raise TaskError(f"decontaminate: there is no file or folder {name}")
    return partial(_hub_dataset, name)


def _file(path: Path) -> Text:
    kind = Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
    try:
        yield from _READERS.get(kind, _plain_text)(path)
    except EvalError:
        raise
    except Exception as error:  # each format's library has its own
        if isinstance(error, OSError) and error.errno is not None:
            raise InfraError(f"decontaminate: {path} cannot be read: {error}") from error
        raise TaskError(
            f"decontaminate: {path} is damaged, or not what its name says: "
            f"{type(error).__name__}: {error}"
        ) from error


def _saved_dataset(path: Path) -> Text:
    """A folder that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote."""
    import datasets

    loaded = datasets.load_from_disk(str(path))
    splits = loaded.values() if isinstance(loaded, datasets.DatasetDict) else [loaded]
    for split in splits:
        for batch in split.iter(batch_size=ROWS):
            yield from _texts(batch)


def _hub_dataset(name: str) -> Text:
    """`ID[:CONFIG[:SPLIT]]`, streamed; without a split `train`, or all where there is none."""
    import datasets

    path, _, rest = name.partition(":")
    config, _, split = rest.partition(":")
    try:
        splits = datasets.load_dataset(path, config or None, streaming=True)
        chosen = [split] if split else ["train"] if "train" in splits else list(splits)
        if split and split not in splits:
            raise TaskError(f"decontaminate: {name}: no such split; there are {', '.join(splits)}")
        for row in (row for each in chosen for row in splits[each]):
            yield from _texts(row)
    except EvalError:
        raise
    except Exception as error:  # `datasets` lets through those of every library below it
        raise _explained(name, error) from error


def _explained(name: str, error: Exception) -> EvalError:
    import httpx2
    from huggingface_hub import errors as hub

    unreached = (
        ConnectionError,
        TimeoutError,
        httpx2.TransportError,
        hub.LocalEntryNotFoundError,
        hub.OfflineModeIsEnabled,
    )
    if isinstance(error, unreached):
        return InfraError(f"decontaminate: {name}: the Hub cannot be reached: {error}")
    return TaskError(
        f"decontaminate: {name} is no file or folder, and cannot be loaded as a data set: "
        f"{type(error).__name__}: {error}"
    )


def _folder(path: Path) -> Source:
    if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
        return partial(_saved_dataset, path)
    files = sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not files:
        raise TaskError(f"decontaminate: the folder {path} holds no file")
    return lambda: (block for file in files for block in _file(file))


def _is_file(path: Path) -> bool:
    """Whether the name is that of a file, not of a data set."""
    return path.suffix in (".txt", *COMPRESSED, *_READERS)


def _plain_text(path: Path) -> Text:
    """The whole file as one document: a passage may run over lines."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    rest = ""
    with _opened(path) as file:
        while raw := file.read(BLOCK):
            if b"\0" in raw:
                raise TaskError(
                    f"decontaminate: {path} is no UTF-8 text; convert it, or take it out of the "
                    "folder"
                )
            block = rest + decoder.decode(raw)
            # A word may go on in the next block, unless it is longer than any word.
            end = max(block.rfind(" "), block.rfind("\n")) + 1
            if end == 0 and len(block) >= BLOCK:
                end = len(block)
            rest = block[end:]
            yield block[:end]
    yield rest + decoder.decode(b"", final=True)
    yield None


def _json_lines(path: Path) -> Text:
    """Every text in a row is a document, whatever its field is called."""
    with _opened(path) as file:
        lines = iter(partial(file.readline, LONGEST_LINE), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) == LONGEST_LINE:
                raise TaskError(
                    f"decontaminate: {path}, line {number} is longer than {LONGEST_LINE} bytes; "
                    "JSON lines are expected, one object a line"
                )
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise TaskError(
                    f"decontaminate: {path}, line {number} is not JSON: {error}; JSON lines are "
                    "expected, one object a line"
                ) from error
            yield from _texts(row)


def _parquet(path: Path) -> Text:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROWS):
            yield from _texts(batch.to_pydict())


def _arrow(path: Path) -> Text:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            yield from _texts(batch.to_pydict())


def _texts(value: Any) -> Text:
    if isinstance(value, str):
        yield value
        yield None
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.open(path))
    if path.suffix == ".zst":
        import zstandard

        stream = zstandard.ZstdDecompressor().stream_reader(
            path.open("rb"), read_across_frames=True, closefd=True
        )
        return io.BufferedReader(stream)
    return path.open("rb")


_READERS: Mapping[str, Callable[[Path], Text]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_lines,
    ".parquet": _parquet,
    ".arrow": _arrow,
}
"""By suffix; any other file is plain text."""
