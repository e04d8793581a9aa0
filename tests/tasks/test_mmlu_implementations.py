"""The three MMLU implementations of the Open LLM Leaderboard's article of June 2023, as asked here.

Each is a style of our family; the article's own example document must give the prompts that it
prints and be scored on what it says.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.task.asking.task import Item, Task
from evalcore.task.config import TaskSpec
from evalcore.task.identity.digest import resolved_config
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests.evalcore.worlds import World, write_tasks
from tests.hub import ROOT
from tests.services import missing

GOLDEN = (
    Path(os.environ.get("PLUMBLINE_TEST_DATA", ROOT.parent / "shared" / "data")).parent / "golden"
)
STYLES = ("original", "helm", "harness-2023")
RIGHT = 0
"""The article's example: the crisis damaged support for the model."""


@pytest.fixture(scope="module")
def article() -> Any:
    file = GOLDEN / "mmlu_three_implementations.json"
    if not file.is_file():
        missing(f"NO GOLDEN PROMPTS: {file} is no file; it lies beside PLUMBLINE_TEST_DATA")
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([OWN_TASKS])


def spec_of(library: TaskLibrary, style: str, subject: str) -> TaskSpec:
    spec = library.one(f"mmlu_{style.replace('-', '_')}_{subject}")
    assert isinstance(spec, TaskSpec)
    return spec


def asked(place: Path, spec: TaskSpec, document: dict[str, Any]) -> Item:
    """The document as the task asks it."""
    keys = resolved_config(spec)
    assert keys.pop("dataset_name") == document["subject"]
    rows = [{**document, "answer": RIGHT}]
    keys |= World(place).data(dev=rows, test=rows)
    library = write_tasks(place / "tasks", {f"{spec.name}.yaml": yaml.safe_dump(keys)})
    here = library.one(spec.name)
    assert isinstance(here, TaskSpec)
    (item,) = Task(here).items()
    return item


@pytest.mark.parametrize("style", STYLES)
def test_the_prompt_is_the_one_that_the_article_prints(
    tmp_path: Path, library: TaskLibrary, article: Any, style: str
) -> None:
    document = article["document"]
    item = asked(tmp_path, spec_of(library, style, document["subject"]), document)
    assert item.prompt == article["prompts"][style]


@pytest.mark.parametrize("style", ["original", "harness-2023"])
def test_what_is_scored_is_what_the_article_says(
    tmp_path: Path, library: TaskLibrary, article: Any, style: str
) -> None:
    document = article["document"]
    spec = spec_of(library, style, document["subject"])
    item = asked(tmp_path, spec, document)
    assert item.choices == article["scored"][style]
    assert [request.continuation for request in item.requests] == [
        f" {text}" for text in article["scored"][style]
    ]
    assert item.gold == [RIGHT]
    assert spec.about.primary_metric == "acc"


def test_helm_counts_the_letter_that_comes_first_in_the_whole_vocabulary(
    tmp_path: Path, library: TaskLibrary, article: Any
) -> None:
    document = article["document"]
    assert article["scored"]["helm"] == "the letter, generated over the whole vocabulary"

    scored = spec_of(library, "helm", document["subject"])
    item = asked(tmp_path, scored, document)
    # Of a multiple choice, exact_match is whether the right letter is what the model would write.
    assert [entry.metric for entry in scored.metric_list] == ["exact_match"]
    assert [request.continuation for request in item.requests] == [" A", " B", " C", " D"]

    generated = spec_of(library, "helm-generate", document["subject"])
    item = asked(tmp_path, generated, document)
    assert item.prompt == article["prompts"]["helm"]
    assert [entry.metric for entry in generated.metric_list] == ["exact_match"]
    assert item.target == "A"
    (request,) = item.requests
    assert request.kind == "generate_until"


def test_each_implementation_covers_every_subject(library: TaskLibrary) -> None:
    for style in (*STYLES, "helm-generate"):
        group = library.one(f"mmlu_{style.replace('-', '_')}")
        assert group.about.style == style
        assert len({leaf.dataset_name for leaf in group.leaves()}) == 57
