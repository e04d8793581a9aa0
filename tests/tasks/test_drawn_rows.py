"""The rows of our own with images are those that `python -m tests.tasks.drawn_rows` writes."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image

from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.data.sample_rows import sample_data
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests.tasks.drawn_rows import DRAWN

ASKED = {
    "MMMU/MMMU": "mmmu_val_math",
    "HuggingFaceM4/ChartQA": "chartqa",
    "lmms-lab/DocVQA": "docvqa",
    "lmms-lab/ai2d": "ai2d",
}


@pytest.mark.parametrize("name", DRAWN)
def test_the_files_have_these_rows(name: str) -> None:
    """Of the images size and kind: another version of Pillow writes letters otherwise."""
    spec = TaskLibrary([OWN_TASKS]).one(ASKED[name])
    assert isinstance(spec, TaskSpec)
    drawn = DRAWN[name]
    found = sample_data(spec, OWN_TASKS).split(drawn.split)
    for row, expected in zip(found, drawn.rows(), strict=True):
        for column, value in expected.items():
            if column not in drawn.images or value is None:
                assert row[column] == value, column
                continue
            image = Image.open(BytesIO(value))
            assert (row[column].size, row[column].mode) == (image.size, image.mode)


@pytest.mark.parametrize("name", ASKED.values())
def test_each_image_has_its_place(name: str) -> None:
    spec = TaskLibrary([OWN_TASKS]).one(name)
    assert isinstance(spec, TaskSpec)
    for item in Task(spec, num_fewshot=0, data=sample_data(spec, OWN_TASKS)).items():
        assert item.prompt.count("<image>") == len(item.images) > 0


def test_a_readme_names_all_subjects() -> None:
    """Those of MMMU share their rows."""
    members = [name for name in TaskLibrary([OWN_TASKS]).tasks if name.startswith("mmmu_val_")]
    assert len(DRAWN["MMMU/MMMU"].configurations) == len(members) == 30
