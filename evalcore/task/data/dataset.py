"""Data sets at one commit: what a run reads is named by the commit that it was read at.

The commit is resolved through the Hub client's cache, and every commit has a folder of prepared
data of its own, so that a process without network gets exactly what a fetch before it saw. In that
folder a list of files says what was prepared: `datasets` parses the data set's whole README again
for each configuration, which for the 57 subjects of MMLU takes half a minute. What the list names
is read without `datasets` where it can be (`rows.py`), so that it is not even imported.
"""

from __future__ import annotations

import errno
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.digest import digest_of
from evalcore.errors import EvalError, InfraError, TaskError, keep_ours
from evalcore.task.config import TaskSpec
from evalcore.task.data.prepared import Prepared, cache_folder, library
from evalcore.task.data.rows import Doc
from evalcore.task.data.seeds import FixedRandomness
from evalcore.task.functions import FunctionRef
from evalcore.task.identity.lock import pinned_commit

if TYPE_CHECKING:
    from datasets import Dataset


_MACHINE_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)


@dataclass(frozen=True, slots=True)
class TaskData:
    """The splits of one configuration of a data set."""

    splits: Mapping[str, Dataset]
    commit: str | None
    """Commit of the Hub repository; None for local files, whose state nobody recorded."""
    described: str
    """Data set, configuration and revision, for messages."""

    def split(self, name: str) -> Dataset:
        """Raises TaskError for a split that the data set does not have."""
        if name not in self.splits:
            raise TaskError(
                f"{self.described} has no split {name!r}; it has {', '.join(self.splits)}"
            )
        return self.splits[name]

    def rows(self, name: str) -> Sequence[Doc]:
        """The documents of a split, to read and nothing else; raises as `split`.

        The same object each time. No code of a task is given it: that knows `datasets` alone.
        """
        if isinstance(self.splits, Prepared) and name in self.splits:
            return self.splits.rows(name)
        rows: Sequence[Doc] = self.split(name)
        return rows


def load_data(spec: TaskSpec) -> TaskData:
    """Downloads (or finds in the cache) the data of a task, at one commit; or makes them.

    `dataset_path` is a data set of the Hub, a folder of files or one that `save_to_disk` wrote, or
    a kind of file (json, csv, parquet, arrow, text) whose paths are in `dataset_kwargs`.

    Raises TaskError where the task's author must act (no such data set, configuration or
    revision; a gate), InfraError where the Hub or the network failed.
    """
    if spec.custom_dataset is not None:
        return _custom_data(spec, spec.custom_dataset)
    path = str(spec.dataset_path)
    arguments = {
        key: value
        for key, value in spec.dataset_kwargs.items()
        if key not in ("revision", "trust_remote_code")
    }
    revision = spec.dataset_kwargs.get("revision") or pinned_commit(spec)
    described = f"The data set {path}"
    if spec.dataset_name:
        described += f", configuration {spec.dataset_name}"
    if revision:
        described += f", revision {revision}"
    try:
        if (saved := _saved(Path(path) / (spec.dataset_name or ""))) is not None:
            return TaskData(saved, None, described)
        commit = _commit(path, revision)
        splits = _load(path, spec.dataset_name, commit, arguments)
    except BaseException as error:  # the clients raise a dozen kinds; each is told apart and told
        keep_ours(error)
        raise _explained(error, described) from error
    return TaskData(splits, commit, described)


def _custom_data(spec: TaskSpec, function: FunctionRef) -> TaskData:
    """What the task's function `custom_dataset` makes of its metadata and `dataset_kwargs`."""
    described = f"The data of custom_dataset, {function}"
    arguments = spec.told_to_code
    if twice := arguments.keys() & spec.dataset_kwargs.keys():
        raise TaskError(
            f"{described}: metadata and dataset_kwargs both give {', '.join(sorted(twice))}: "
            "take it out of one"
        )
    make = function.load()
    try:
        with FixedRandomness():
            made = make(**arguments, **spec.dataset_kwargs)
        return TaskData(_as_splits(made), None, described)
    except BaseException as error:  # the function is somebody else's code, and may load data
        keep_ours(error)
        raise _explained(error, described, "the function") from error


def _as_splits(made: Any) -> Mapping[str, Dataset]:
    """The splits that a function made; lists of documents become data sets."""
    import datasets

    if not isinstance(made, Mapping):
        raise TaskError(
            f"it must be a mapping from split to documents, the function gave {type(made).__name__}"
        )
    splits = {}
    for split, docs in made.items():
        if not hasattr(docs, "__len__") or not hasattr(docs, "__getitem__"):
            raise TaskError(
                f"the documents of {split!r} must be a data set or a list, the function gave "
                f"{type(docs).__name__}"
            )
        splits[str(split)] = datasets.Dataset.from_list(docs) if isinstance(docs, list) else docs
    return splits


def _saved(folder: Path) -> Mapping[str, Dataset] | None:
    """The splits that `save_to_disk` wrote there, if it did; of a single data set the one that it
    was, else `train`."""
    if not any((folder / mark).is_file() for mark in ("dataset_dict.json", "state.json")):
        return None
    import datasets

    saved = datasets.load_from_disk(str(folder))
    return (
        saved if isinstance(saved, datasets.DatasetDict) else {str(saved.split or "train"): saved}
    )


@functools.cache
def _commit(path: str, revision: str | None) -> str | None:
    """The commit that `revision` (default: the main branch) means now, or meant when last online.

    Asked once in a process, so that all subjects of a benchmark are read at the same commit.
    """
    from huggingface_hub import snapshot_download

    if Path(path).exists() or _is_kind_of_file(path):
        return None
    if path.startswith(("/", ".", "~")):
        raise TaskError("there is no such folder: correct dataset_path")
    folder = Path(
        snapshot_download(
            path, repo_type="dataset", revision=revision, allow_patterns=["README.md"]
        )
    )
    # Without a README there is no folder, and the cache would not know the commit when offline.
    folder.mkdir(parents=True, exist_ok=True)
    return folder.name


def _is_kind_of_file(path: str) -> bool:
    """Whether it names no data set but a kind of file that `datasets` reads; none has a slash."""
    if "/" in path:
        return False
    # `from datasets.packaged_modules` fails in both while another thread imports `datasets`.
    import datasets

    return path in datasets.packaged_modules._PACKAGED_DATASETS_MODULES


def _load(
    path: str, name: str | None, commit: str | None, arguments: dict[str, Any]
) -> Mapping[str, Dataset]:
    if commit is None:
        with _uncounted():
            return _splits(library().load_dataset(path, name, **arguments))
    # Without network `datasets` takes the newest data in its cache, whatever the revision asked
    # for: with a folder for each commit there is only one.
    cache = cache_folder() / "by_commit" / commit
    prepared = cache / "prepared" / f"{digest_of([path, name, arguments])}.json"
    if prepared.is_file():
        files: dict[str, list[str]] = json.loads(prepared.read_text())
        if all(Path(file).is_file() for split in files.values() for file in split):
            return Prepared(files)
    splits = _splits(
        library().load_dataset(path, name, revision=commit, cache_dir=str(cache), **arguments)
    )
    files = {
        split: [str(file["filename"]) for file in docs.cache_files]
        for split, docs in splits.items()
    }
    if all(files.values()):
        prepared.parent.mkdir(parents=True, exist_ok=True)
        unfinished = prepared.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(files))
        unfinished.replace(prepared)
    return splits


@contextmanager
def _uncounted() -> Iterator[None]:
    """Without a word to the server where the Hub counts downloads.

    Local files are none, and without network each of them would wait seconds for that server.
    """
    import datasets

    counts = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    try:
        yield
    finally:
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = counts


def _splits(loaded: object) -> Mapping[str, Dataset]:
    import datasets

    if not isinstance(loaded, datasets.DatasetDict):
        raise TaskError(
            "it did not load as a set of splits: take `split` and `streaming` out of dataset_kwargs"
        )
    splits: Mapping[str, Dataset] = loaded
    return splits


def _explained(
    error: BaseException,
    described: str,
    at_fault: str = "dataset_path, dataset_name or dataset_kwargs",
) -> EvalError:
    """The clients' error as one sentence with who must act and what to do."""
    import datasets
    import httpx2
    from huggingface_hub import errors as hub

    causes = _causes(error)

    def caused_by(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    refused = {
        hub.GatedRepoError: "is gated: its owner must grant access, and HF_TOKEN must be set",
        hub.DisabledRepoError: "was disabled on the Hub: name another dataset_path",
        hub.RevisionNotFoundError: "has no such revision: correct dataset_kwargs.revision",
        hub.RepositoryNotFoundError: "does not exist on the Hub: correct dataset_path",
    }
    for kind, told in refused.items():
        if caused_by(kind):
            return TaskError(f"{described} {told}")
    for cause in causes:
        answer = cause.response if isinstance(cause, hub.HfHubHTTPError) else None
        if answer is not None and (answer.status_code == 429 or answer.status_code >= 500):
            return InfraError(
                f"{described}: the Hub answered {answer.status_code}; try again later"
            )
        if isinstance(cause, OSError) and cause.errno in _MACHINE_FAULTS:
            return InfraError(f"{described} cannot be stored: {cause}")
    if caused_by(hub.LocalEntryNotFoundError, hub.OfflineModeIsEnabled):
        return InfraError(
            f"{described} is not in the cache, and the Hub cannot be reached: fetch it first "
            "(evalcore fetch), or check the network and HF_ENDPOINT"
        )
    if caused_by(ConnectionError, TimeoutError, httpx2.TransportError):
        return InfraError(f"{described}: the Hub cannot be reached: {error}")
    if isinstance(error, EvalError):
        return type(error)(f"{described}: {error.args[0]}")
    if isinstance(error, datasets.exceptions.DatasetNotFoundError):
        return TaskError(f"{described} does not exist on the Hub: correct dataset_path")
    first = causes[-1]  # `datasets` wraps what is wrong with a file into a sentence without it
    why = "" if first is error else f" ({type(first).__name__}: {first})"
    return TaskError(
        f"{described} cannot be loaded: {type(error).__name__}: {error}{why}. Correct {at_fault}"
    )


def _causes(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain
