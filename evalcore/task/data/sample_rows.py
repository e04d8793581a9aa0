"""Rows written for a task, in the columns of its data set: what it asks can be seen without a Hub.

They lie in the tasks' folder as `samples/datasets/<org>/<name>/`, a data set folder as the Hub has
it: `README.md` names for each configuration the JSON Lines file of each split, or a parquet file
where rows have images.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.errors import TaskError, did_you_mean
from evalcore.task.config import TaskSpec
from evalcore.task.data.dataset import TaskData
from evalcore.task.yaml_file import names_of

if TYPE_CHECKING:
    from datasets import Dataset

SAMPLES = "samples"


_HUB_FILE = re.compile(r"hf://datasets/([^/@]+/[^/@]+)")


def sample_folder(spec: TaskSpec, tasks: Path) -> Path:
    """Where the rows for the data set of `spec` lie, below the folder `tasks`.

    A task that reads single files of the Hub (`hf://datasets/<org>/<name>/…`) names its data set
    so.
    """
    name = str(spec.dataset_path)
    if found := _HUB_FILE.search(str(spec.dataset_kwargs.get("data_files", ""))):
        name = found[1]
    return tasks / SAMPLES / "datasets" / name


def sample_data(spec: TaskSpec, tasks: Path) -> TaskData:
    """The rows written for the data set of `spec`; they have no commit.

    Raises TaskError where there are none, or none for its configuration, or a file is no JSON.
    """
    folder = sample_folder(spec, tasks)
    described = f"The sample rows of {spec.dataset_path}"
    if spec.dataset_name:
        described += f", configuration {spec.dataset_name}"
    readme = folder / "README.md"
    configurations = _configurations(readme, _changed(readme))
    if not configurations:
        raise TaskError(
            f"{described}: there are none: write {folder}/README.md with `configs` and a JSON "
            "Lines file for each split (docs/tasks.md)"
        )
    name = spec.dataset_name or (
        "default" if len(configurations) > 1 else next(iter(configurations))
    )
    if name not in configurations:
        raise TaskError(
            f"{described}: {folder}/README.md has no such configuration"
            f"{did_you_mean(name, configurations)}; it has {', '.join(configurations)}"
        )
    splits = {
        split: _rows(tuple((folder / file, _changed(folder / file)) for file in files))
        for split, files in configurations[name].items()
    }
    return TaskData(splits, None, described)


@functools.cache
def _configurations(readme: Path, _: int) -> dict[str, dict[str, list[str]]]:
    """By configuration and split the files, as the README's front matter says."""
    from huggingface_hub import metadata_load

    stated: dict[str, Any] = (metadata_load(readme) or {}) if readme.is_file() else {}
    return {
        str(config["config_name"]): {
            str(file["split"]): names_of(file["path"]) for file in config["data_files"]
        }
        for config in stated.get("configs", [])
    }


def _changed(file: Path) -> int:
    """When a file changed, in nanoseconds; 0 where there is none."""
    return file.stat().st_mtime_ns if file.is_file() else 0


@functools.cache
def _rows(files: tuple[tuple[Path, int], ...]) -> Dataset:
    """The rows of files, each with when it changed: hundreds of tasks share a data set."""
    import datasets

    if files[0][0].suffix == ".parquet":
        return datasets.concatenate_datasets([_of_parquet(file) for file, _ in files])
    rows = []
    for file, _ in files:
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
            rows += [json.loads(line) for line in lines if line.strip()]
        except OSError as error:
            raise TaskError(f"{file} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise TaskError(f"{file} is not JSON Lines: {error}") from error
    try:
        return datasets.Dataset.from_list(rows)
    except (ValueError, TypeError) as error:
        raise TaskError(f"{files[0][0]}: its rows have no common columns: {error}") from error


def _of_parquet(file: Path) -> Dataset:
    """Its columns as the file describes them to `datasets`, images among them."""
    import datasets
    import pyarrow.parquet as pq

    try:
        return datasets.Dataset(pq.read_table(file))
    except (OSError, ValueError) as error:
        raise TaskError(f"{file} cannot be read: {error}") from error
