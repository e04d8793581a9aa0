"""Data that lie on this machine, or that a task's function makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from evalcore.errors import TaskError
from evalcore.selection import select
from evalcore.task.config import TaskSpec
from evalcore.task.data.dataset import load_data
from evalcore.task.identity.digest import config_digest, resolved_config
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.worlds import capitals, write_tasks

ROWS = capitals(4)


def task(folder: Path, stated: Mapping[str, Any] | None = None, /, **keys: Any) -> TaskSpec:
    """The task `t` of a file with these keys; a text that begins with ! is a function."""
    values = {"task": "t", "test_split": "test", "doc_to_text": "question", **keys}
    text = yaml.safe_dump(values).replace("'!function ", "!function ").replace(".make'", ".make")
    (spec,) = write_tasks(folder, {"t.yaml": text}).select(["t"], metadata=stated or {})
    assert isinstance(spec, TaskSpec)
    return spec


def questions(spec: TaskSpec, split: str = "test") -> list[str]:
    return [doc["question"] for doc in load_data(spec).split(split)]


def write(kind: str, path: Path) -> None:
    dataset = datasets.Dataset.from_list(ROWS)
    if kind == "json":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    elif kind == "arrow":
        dataset.save_to_disk(path.parent / "saved")
        (written,) = (path.parent / "saved").glob("*.arrow")
        written.rename(path)
    else:
        dataset.to_parquet(path)


@pytest.mark.parametrize("kind", ["json", "parquet", "arrow"])
def test_files_of_this_machine_are_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    write(kind, file)
    kwargs = {"data_files": {"test": str(file)}}
    spec = task(tmp_path / "tasks", dataset_path=kind, dataset_kwargs=kwargs)
    assert questions(spec) == [row["question"] for row in ROWS]
    assert load_data(spec).commit is None


def test_a_folder_that_save_to_disk_wrote_is_read_with_its_splits(tmp_path: Path) -> None:
    test, train = (datasets.Dataset.from_list(rows) for rows in (ROWS, ROWS[:1]))
    saved = tmp_path / "saved"
    datasets.DatasetDict({"test": test, "train": train}).save_to_disk(saved)
    spec = task(tmp_path / "tasks", dataset_path=str(saved))
    assert (len(questions(spec)), len(questions(spec, "train"))) == (4, 1)


def test_of_several_saved_data_sets_the_configuration_names_one(tmp_path: Path) -> None:
    for name, rows in {"easy": ROWS[:1], "hard": ROWS}.items():
        datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved" / name)
    keys = {"dataset_path": str(tmp_path / "saved"), "dataset_name": "hard", "test_split": "train"}
    assert len(questions(task(tmp_path / "tasks", **keys), "train")) == 4


def test_a_function_makes_data_of_metadata_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "import random\n"
        "def make(length, word, config_source, **rest):\n"
        "    text = f'{word} {length} {config_source[-6:]} {sorted(rest)} {random.random():.3f}'\n"
        "    return {'test': [{'question': text}]}\n"
    )
    keys = {
        "custom_dataset": "!function code.make",
        "metadata": {"version": 1, "length": 1},
        "dataset_kwargs": {"word": "w"},
    }
    assert questions(task(tmp_path, **keys)) == ["w 1 t.yaml ['version'] 0.844"]
    # What the command says goes over what the file says.
    assert questions(task(tmp_path, {"length": 9}, **keys)) == ["w 9 t.yaml ['version'] 0.844"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("return []", "it must be a mapping from split to documents, the function gave list"),
        ("return {'train': []}", "has no split 'test'; it has train"),
        ("return 1 / 0", "cannot be loaded: ZeroDivisionError.* Correct the function"),
        ("return {'test': 5}", "the documents of 'test' must be a data set or a list"),
        ("return {'test': iter([])}", "the documents of 'test' must be a data set or a list"),
    ],
)
def test_a_function_that_makes_no_data_is_named(tmp_path: Path, body: str, complaint: str) -> None:
    (tmp_path / "code.py").write_text(f"def make(**_):\n    {body}\n")
    spec = task(tmp_path, custom_dataset="!function code.make")
    with pytest.raises(TaskError, match=complaint) as caught:
        questions(spec)
    assert "custom_dataset, !function code.make" in str(caught.value)


def test_the_models_arguments_reach_the_function_and_are_no_part_of_the_task(
    tmp_path: Path,
) -> None:
    (tmp_path / "code.py").write_text(
        "def make(pretrained, length, **_):\n"
        "    return {'test': [{'question': f'{pretrained} {length}'}]}\n"
    )

    def told(pretrained: str, length: int) -> TaskSpec:
        arguments = {"pretrained": pretrained, "length": 0}
        (spec,) = select(
            TaskLibrary([tmp_path]),
            ["t"],
            metadata={"length": length},
            model_args=arguments,
            mode="compat",
        )
        assert isinstance(spec, TaskSpec)
        return spec

    task(tmp_path, custom_dataset="!function code.make")
    one, other = told("a/model", 3), told("another/model", 3)
    # What the command says goes over the model's arguments, too.
    assert questions(one) == ["a/model 3"]
    assert questions(other) == ["another/model 3"]
    assert config_digest(one) == config_digest(other)
    assert resolved_config(one) == resolved_config(other)
    assert config_digest(told("a/model", 4)) != config_digest(one)
