"""Which of lm-evaluation-harness's own task files can be run on the test data, and a draw of them.

`python -m tests.parity.census DATA` prints the census as JSON: lm-eval itself reads its files.
"""

from __future__ import annotations

import logging
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from tests.parity.quick_start import keep_index, start_quickly

DRAWN = 200
SEED = 20260726
"""Written down before the first comparison was made, and never chosen again."""


@dataclass(frozen=True, order=True)
class Candidate:
    """One leaf task of lm-eval's folder whose data set, configuration and splits are all here."""

    folder: str
    """Of its file, within lm-eval's task folder."""
    output_type: str
    name: str
    dataset: str


@dataclass(frozen=True)
class Census:
    """lm-eval's task folder, seen from the test data."""

    candidates: list[Candidate]
    tasks: int
    """All leaf tasks of the folder."""


CENSUS = TypeAdapter(Census)


def draw(candidates: Iterable[Candidate], count: int = DRAWN, seed: int = SEED) -> list[Candidate]:
    """`count` of them, so that no large folder crowds out the small ones.

    One round after the other takes one task at random from each folder and output type that still
    has some: small folders come in whole, the rest of the draw is shared evenly by the large ones.
    """
    generator = random.Random(seed)
    strata: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for candidate in sorted(candidates):
        strata[candidate.folder, candidate.output_type].append(candidate)
    for members in strata.values():
        generator.shuffle(members)
    drawn: list[Candidate] = []
    while len(drawn) < count and any(strata.values()):
        for members in strata.values():
            if members and len(drawn) < count:
                drawn.append(members.pop())
    return sorted(drawn)


def splits_of_data(datasets: Path) -> dict[str, dict[str, set[str]]]:
    """By data set and configuration the splits that its README states."""
    return {
        f"{readme.parent.parent.name}/{readme.parent.name}": _configurations(readme)
        for readme in sorted(datasets.glob("*/*/README.md"))
    }


def _configurations(readme: Path) -> dict[str, set[str]]:
    _, front_matter, _ = readme.read_text(encoding="utf-8").split("---\n", 2)
    stated = yaml.load(front_matter, yaml.CSafeLoader)["configs"]
    return {
        configuration["config_name"]: {file["split"] for file in configuration["data_files"]}
        for configuration in stated
    }


def is_here(config: Mapping[str, Any], here: Mapping[str, Mapping[str, set[str]]]) -> bool:
    """Whether every split that a resolved task configuration names is among the test data."""
    configurations = here.get(str(config.get("dataset_path")))
    if not configurations or config.get("custom_dataset"):
        return False
    name = config.get("dataset_name")
    if name is None:
        splits = configurations.get("default") or next(iter(configurations.values()))
    else:
        splits = configurations.get(name, set())
    return _splits_named(config) <= splits


def _splits_named(config: Mapping[str, Any]) -> set[str]:
    named = {
        config.get(key)
        for key in ("training_split", "validation_split", "test_split", "fewshot_split")
    }
    named.add((config.get("fewshot_config") or {}).get("split"))
    return {str(split) for split in named if split is not None}


def census(datasets: Path) -> Census:
    """As lm-eval resolves its own files; those that it cannot read are no candidates."""
    import lm_eval.tasks

    root = Path(lm_eval.tasks.__file__).parent
    here = splits_of_data(datasets)
    manager = lm_eval.tasks.TaskManager()
    found: list[Candidate] = []
    for name in manager.all_subtasks:
        entry = manager.task_index[name]
        path, config = Path(entry.yaml_path), entry.cfg
        if is_here(config, here):
            found.append(
                Candidate(
                    folder=path.parent.relative_to(root).as_posix(),
                    output_type=config.get("output_type", "generate_until"),
                    name=name,
                    dataset=config["dataset_path"],
                )
            )
    return Census(found, len(manager.all_subtasks))


def main(arguments: Sequence[str]) -> None:
    logging.disable(logging.WARNING)
    start_quickly()
    keep_index()
    found = census(Path(arguments[0]) / "hub" / "datasets")
    sys.stdout.buffer.write(CENSUS.dump_json(found))


if __name__ == "__main__":
    main(sys.argv[1:])
