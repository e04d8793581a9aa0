"""Prepared data read without `datasets`: the same documents as by it, or left to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, Features, LargeList, List, Translation, Value

from evalcore.task.data.prepared import Prepared, cache_folder
from evalcore.task.data.rows import rows_of

PLAIN = Features(
    {
        "text": Value("string"),
        "number": Value("float64"),
        "whole": Value("int8"),
        "label": ClassLabel(names=["no", "yes"]),
        "choices": {"text": List(Value("string")), "label": List(Value("large_string"))},
        "spans": List({"at": Value("int32"), "sure": Value("bool")}),
        "far": LargeList(Value("uint16")),
        "both": Translation(languages=["de", "en"]),
        "_type": Value("string"),
        "nothing": Value("null"),
    }
)


def document(number: int) -> dict[str, Any]:
    return {
        "text": None if number % 3 == 0 else f"question {number} ü \u2028",
        "number": [0.1, float("inf"), None][number % 3],
        "whole": number % 100,
        "label": number % 2,
        "choices": {"text": [f"a{number}", None], "label": ["A", "B"]},
        "spans": [{"at": number, "sure": None}] * (number % 3),
        "far": [number, 7],
        "both": {"de": "ja", "en": "yes"},
        "_type": "Image",
        "nothing": None,
    }


def written(folder: Path, name: str, rows: Dataset, batch: int = 1000) -> str:
    """The file that `datasets` makes of these rows when it prepares them."""
    file = folder / f"{name}.arrow"
    with datasets.arrow_writer.ArrowWriter(
        features=rows.features, path=str(file), writer_batch_size=batch
    ) as writer:
        for row in rows.with_format("arrow").iter(1):
            writer.write_table(row)
        writer.finalize()
    return str(file)


def made(numbers: range) -> Dataset:
    return Dataset.from_list([document(number) for number in numbers], features=PLAIN)


def test_rows_are_those_that_datasets_gives(tmp_path: Path) -> None:
    files = [
        written(tmp_path, "one", made(range(25)), batch=7),
        written(tmp_path, "none", made(range(25)).select([])),
        written(tmp_path, "two", made(range(25, 30))),
    ]
    theirs = datasets.concatenate_datasets([Dataset.from_file(file) for file in files])
    ours = rows_of(files)
    assert ours is not None
    assert ours.columns == tuple(theirs.features)
    assert len(ours) == len(theirs) == 30
    for row, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        assert list(own) == list(other)
        assert repr(own) == repr(other) == repr(ours[row]) == repr(ours[row - 30])
    assert repr(ours[5:9]) == repr([theirs[row] for row in range(5, 9)])
    with pytest.raises(IndexError):
        _ = ours[30]


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        (datasets.Image(), None),
        (List(datasets.Image(decode=False)), []),
        (datasets.Audio(), None),
        (Value("timestamp[s]"), None),
        (Value("binary"), b"x"),
        (datasets.Array2D((1, 2), "int32"), [[1, 2]]),
    ],
)
def test_what_datasets_decodes_or_casts_is_left_to_it(
    tmp_path: Path, feature: Any, value: Any
) -> None:
    rows = Dataset.from_dict({"x": [value]}, features=Features({"x": feature}))
    file = written(tmp_path, "odd", rows)
    assert rows_of([file]) is None
    splits = Prepared({"test": [file]})
    assert splits.rows("test") is splits["test"]
    assert splits["test"].features == rows.features


def test_files_with_other_columns_are_left_to_it(tmp_path: Path) -> None:
    files = [
        written(tmp_path, name, Dataset.from_dict({name: [1]})) for name in ("first", "second")
    ]
    assert rows_of(files) is None


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"HF_HOME": "/somewhere/hf"},
        {"HF_HOME": "~/hf"},
        {"XDG_CACHE_HOME": "/somewhere/else"},
        {"HF_HOME": "/somewhere/hf", "HF_DATASETS_CACHE": "/data/sets"},
    ],
)
def test_the_cache_is_found_before_datasets_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, stated: dict[str, str]
) -> None:
    for name in ("HF_HOME", "XDG_CACHE_HOME", "HF_DATASETS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in stated.items():
        monkeypatch.setenv(name, value)
    said = subprocess.run(
        [sys.executable, "-c", "import datasets; print(datasets.config.HF_DATASETS_CACHE)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    monkeypatch.delitem(sys.modules, "datasets.config")
    assert str(cache_folder()) == said.stdout.strip()
