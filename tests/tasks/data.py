"""The data that our tasks are tried on: real samples where there are some, else rows of our own."""

from __future__ import annotations

import functools
from pathlib import Path

from huggingface_hub import metadata_load

from evalcore.task.config import TaskSpec
from tests.hub import ROOT, TEST_DATA

SAMPLES = ROOT / "tasks" / "samples"
"""Rows that we wrote in the exact columns of each data set, as a folder that a local Hub serves."""
DEMO = ROOT / "demo" / "content"


def merged(place: Path, *, real: bool) -> Path:
    """A folder for the local Hub in `place`: each data set once, real samples first if `real`."""
    sources = [TEST_DATA, DEMO, SAMPLES] if real else [SAMPLES, DEMO]
    for source in sources:
        for folder in sorted(source.glob("datasets/*/*")):
            link = place / folder.relative_to(source)
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(folder, target_is_directory=True)
    return place


def has_real(spec: TaskSpec) -> bool:
    """Whether real samples of all the splits that the task reads are at hand."""
    splits = _real_splits(str(spec.dataset_path)).get(spec.dataset_name or "default", set())
    read = {spec.eval_split, spec.fewshot.split, spec.training_split} - {None}
    return bool(splits) and read <= splits


@functools.cache
def _real_splits(dataset: str) -> dict[str, set[str]]:
    """By configuration; a single one counts as the default, too."""
    readme = TEST_DATA / "datasets" / dataset / "README.md"
    stated = (metadata_load(readme) or {}).get("configs", []) if readme.is_file() else []
    splits = {
        config["config_name"]: {file["split"] for file in config["data_files"]} for config in stated
    }
    return {**splits, "default": next(iter(splits.values()))} if len(splits) == 1 else splits
