"""What every task of ours asks, how it is scored and what it brings: golden prompts, pins, the
checklist, answers that are taken from texts, and rows of our own with images."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.authoring.checklist import problems_of
from evalcore.authoring.pin import Pinner, problem_with
from evalcore.score.filters.registry import pipelines_of
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import TaskSpec
from evalcore.task.data.sample_rows import sample_data
from evalcore.task.identity.digest import resolved_config
from evalcore.task.identity.lock import LOCK, read_pins
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests.evalcore.worlds import World, task_in, write_tasks
from tests.hub import ROOT
from tests.services import missing
from tests.tasks.golden import GOLDEN, texts


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([OWN_TASKS])


def test_every_task_asks_what_its_golden_file_shows() -> None:
    """The prompts of our tasks are those that somebody has looked at."""
    found = texts()
    assert {file.stem for file in GOLDEN.glob("*.txt")} == found.keys()
    changed = [
        folder
        for folder, text in found.items()
        if (GOLDEN / f"{folder}.txt").read_text(encoding="utf-8") != text
    ]
    assert not changed, "look at what changed, then run `python -m tests.tasks.golden`"


def test_every_task_is_as_pinned(library: TaskLibrary) -> None:
    """Where this fails, the message says what to do."""
    pinner, pins = Pinner(OWN_TASKS), read_pins(OWN_TASKS / LOCK)
    names = [*library.tasks, *library.groups]
    assert len(names) > 3000
    wrong = [problem_with(pinner.pin(library.one(name)), pins) for name in names]
    assert not [problem for problem in wrong if problem]


def test_no_commit_is_invented() -> None:
    """Until somebody reads them from the Hub, by `evalcore pin --update`, all are null."""
    commits = {pin.commit for pin in read_pins(OWN_TASKS / LOCK).values()} - {None}
    assert all(len(str(commit)) == 40 for commit in commits)
    read = [pin for pin in read_pins(OWN_TASKS / LOCK).values() if pin.commit]
    assert not any(pin.dataset.startswith("plumbline/") for pin in read)


def test_every_task_passes_the_checklist(library: TaskLibrary) -> None:
    lacking: dict[str, list[str]] = {}
    for name in library.tasks:
        for problem in problems_of(task_in(library, name), OWN_TASKS):
            lacking.setdefault(problem, []).append(name)
    assert not lacking


NO_ANSWER = "[invalid]"


@pytest.mark.parametrize(
    ("task", "written", "answer"),
    [
        # MMLU-Pro: what stands after the first "answer is".
        ("mmlu_pro_math", " The answer is (B). No, the answer is (C).", "B"),
        ("mmlu_pro_math", " It must be (C).", NO_ANSWER),
        # GPQA with thinking aloud: the last letter that is an answer.
        ("gpqa_main_cot", "Not (A), not (B).\nThe correct answer is **(C)**.", "C"),
        ("gpqa_main_cot", "(A) is wrong, so the answer is D.", "D"),
        ("gpqa_main_cot", "Answer is Carbon", NO_ANSWER),
        # GPQA at once: the first letter that stands alone.
        ("gpqa_main_generate", " A violet ray is bent most, so C", "C"),
        ("gpqa_main_generate", " Carbon", NO_ANSWER),
        # MuSR: the number after the last "ANSWER:".
        ("musr_generate_team_allocation", "ANSWER: 1 … no.\n**ANSWER: (3 - Paint: Ann)**", "3"),
        ("musr_generate_team_allocation", "I pick 2.", NO_ANSWER),
        # AGIEval: the words of the question that name the letters are not the answer.
        ("agieval_generate_sat_math", "Among A through E, the answer is B.", "B"),
        ("agieval_generate_logiqa_zh", "从A到D, 我们应选择C。", "C"),
        ("agieval_generate_logiqa_zh", "不知道", NO_ANSWER),
        # MMLU-Redux: the letter alone was asked for; a word's first letter is none.
        ("mmlu_redux_generate_anatomy", "Based on the text, C", "C"),
        ("mmlu_redux_generate_anatomy", "Depends", NO_ANSWER),
    ],
)
def test_an_exams_answer_is_taken_from_what_was_written(
    library: TaskLibrary, task: str, written: str, answer: str
) -> None:
    (pipeline,) = pipelines_of(task_in(library, task))
    assert pipeline.apply([[written]], [{}]).values[0] == answer


DATA = Path(os.environ.get("PLUMBLINE_TEST_DATA", ROOT.parent / "shared" / "data"))
STYLES = ("original", "helm", "harness-2023")
RIGHT = 0
"""The article's example: the crisis damaged support for the model."""


@pytest.fixture(scope="module")
def article() -> Any:
    """The three MMLU implementations of the Open LLM Leaderboard's article of June 2023, each a
    style of our family: its example document, the prompts that it prints and what is scored."""
    file = DATA.parent / "golden" / "mmlu_three_implementations.json"
    if not file.is_file():
        missing(f"NO GOLDEN PROMPTS: {file} is no file; it lies beside PLUMBLINE_TEST_DATA")
    return json.loads(file.read_text(encoding="utf-8"))


def asked(place: Path, spec: TaskSpec, document: dict[str, Any]) -> Item:
    """The document as the task asks it."""
    keys = resolved_config(spec)
    assert keys.pop("dataset_name") == document["subject"]
    rows = [{**document, "answer": RIGHT}]
    keys |= World(place).data(dev=rows, test=rows)
    library = write_tasks(place / "tasks", {f"{spec.name}.yaml": yaml.safe_dump(keys)})
    (item,) = Task(task_in(library, spec.name)).items()
    return item


@pytest.mark.parametrize("style", STYLES)
def test_mmlu_asks_and_scores_what_the_article_prints(
    tmp_path: Path, library: TaskLibrary, article: Any, style: str
) -> None:
    document = article["document"]
    spec = task_in(library, f"mmlu_{style.replace('-', '_')}_{document['subject']}")
    item = asked(tmp_path, spec, document)
    assert item.prompt == article["prompts"][style]
    if style == "helm":
        # Of a multiple choice, exact_match is whether the right letter is what the model would
        # write.
        assert article["scored"][style] == "the letter, generated over the whole vocabulary"
        scored = list("ABCD")
        assert [entry.metric for entry in spec.metric_list] == ["exact_match"]
    else:
        scored = article["scored"][style]
        assert item.choices == scored
        assert item.gold == [RIGHT]
        assert spec.about.primary_metric == "acc"
    assert [request.continuation for request in item.requests] == [f" {text}" for text in scored]


@pytest.mark.parametrize("name", ["mmmu_val_math", "chartqa", "docvqa", "ai2d"])
def test_each_image_of_our_own_rows_has_its_place(library: TaskLibrary, name: str) -> None:
    spec = task_in(library, name)
    data = sample_data(spec, OWN_TASKS)
    for item in Task(spec, num_fewshot=0, data=data).items():
        assert item.prompt.count("<image>") == len(item.images) > 0
