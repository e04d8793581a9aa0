"""Tasks that are asked by a named prompt: PromptSource's templates, a file of prompts, qa-basic."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.errors import TaskError
from evalcore.task.asking.prompt import DocReader
from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.functions import FunctionRef
from evalcore.task.identity.digest import config_digest
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.worlds import write_tasks

TEMPLATES = """
dataset: user/sense
subset: easy
templates:
  0001: !Template
    answer_choices: Yes ||| No
    id: '0001'
    jinja: "{{premise}} Is it so that {{hypothesis}}? ||| {{ answer_choices[label] }}"
    metadata: !TemplateMetadata
      choices_in_prompt: false
      metrics: [Accuracy]
      original_task: true
    name: is it so
    reference: ''
  0002: !Template
    answer_choices: null
    id: '0002'
    jinja: "Go on: {{premise}} ||| {{hypothesis}}"
    metadata: !TemplateMetadata {}
    name: go on
    reference: ''
"""

DOC = {"premise": "A cat | b ||| sleeps.", "hypothesis": "a cat sleeps", "label": 1}


def library(folder: Path, templates: str = TEMPLATES, **keys: Any) -> TaskLibrary:
    """A library with the task `sense`, its prompts beside it, and a group of it."""
    data = folder.parent / "data"
    data.mkdir(exist_ok=True)
    rows = [{**DOC, "hypothesis": f"cat {number} sleeps"} for number in range(3)]
    (data / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    values = {
        "task": "sense",
        "dataset_path": "user/sense",
        "dataset_name": "easy",
        "validation_split": "validation",
        "output_type": "multiple_choice",
        **keys,
    }
    return write_tasks(
        folder,
        {
            "promptsource_templates/user/sense/easy/templates.yaml": templates,
            "deep/sense.yaml": yaml.safe_dump(values),
            "deep/own.yaml": "prompts:\n  short: {doc_to_text: '{{premise}} so', "
            "doc_to_target: '{{hypothesis}}'}\n",
            "g.yaml": "group: g\ntask: [sense]\n",
        },
    )


def asked(spec: TaskSpec) -> tuple[str, list[str], str]:
    """Prompt, choices and target of the document, through the sources of the task."""
    reader = DocReader(DOC.keys(), spec.doc_to_choice is not None)
    choices = reader.choices(spec.doc_to_choice, DOC) if spec.doc_to_choice else []
    return (
        reader.text(spec.doc_to_text, DOC),
        choices,
        str(reader.target(spec.doc_to_target, DOC)),
    )


def only(found: list[Any]) -> TaskSpec:
    (spec,) = found
    assert isinstance(spec, TaskSpec)
    return spec


def test_a_template_gives_question_choices_and_answer(tmp_path: Path) -> None:
    spec = only(library(tmp_path / "t", use_prompt="promptsource:is it so").select(["sense"]))
    assert spec.name == "sense"
    assert asked(spec) == (
        "A cat | b ||| sleeps. Is it so that a cat sleeps?",
        ["Yes", "No"],
        "No",
    )
    # An example is asked by the same prompt.
    assert spec.fewshot.doc_to_text == spec.doc_to_text
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_star_means_every_prompt_and_a_pattern_some(tmp_path: Path) -> None:
    keys = {"output_type": "generate_until"}
    every = library(tmp_path / "t", use_prompt="promptsource:*", **keys)
    assert [spec.name for spec in every.select(["sense"])] == ["sense::is it so", "sense::go on"]
    (group,) = every.select(["g"])
    assert [leaf.name for leaf in group.leaves()] == ["sense::is it so", "sense::go on"]
    assert [spec.name for spec in every.select(["sense::go on"])] == ["sense::go on"]
    with pytest.raises(TaskError, match="sense has no part 'sense::go off'"):
        every.select(["sense::go off"])
    some = library(tmp_path / "t", use_prompt="promptsource:go*", **keys).select(["sense"])
    assert asked(only(some)) == ("Go on: A cat | b ||| sleeps.", [], "a cat sleeps")


def test_templates_may_draw_count_and_ask_for_what_is_not_there(tmp_path: Path) -> None:
    jinja = (
        "{{ ['a', 'b', 'c', 'd'] | choice }}{{ absent }} {{ [1, 2, 2] | most_frequent }} ||| "
        "{{ ['a', 'b', 'c', 'd'] | choice }} {{ ('x' * 3000) }}"
    )
    templates = TEMPLATES.replace("Go on: {{premise}} ||| {{hypothesis}}", jinja)
    keys = {"use_prompt": "promptsource:go on", "output_type": "generate_until"}
    text, _, target = asked(only(library(tmp_path / "t", templates, **keys).select(["sense"])))
    drawn, frequent = text.split()
    assert frequent == "[2]"
    # Question and answer draw alike; a value is cut after 2048 characters.
    assert target == f"{drawn} {'x' * 2045}..."


def test_the_digest_follows_the_template(tmp_path: Path) -> None:
    keys = {"use_prompt": "promptsource:is it so"}
    one = config_digest(library(tmp_path / "t", **keys).one("sense"))
    assert config_digest(library(tmp_path / "t", **keys).one("sense")) == one
    changed = TEMPLATES.replace("Is it so that", "Is it true that")
    assert config_digest(library(tmp_path / "t", changed, **keys).one("sense")) != one


def test_a_file_of_prompts_and_the_basic_ones(tmp_path: Path) -> None:
    keys = {"output_type": "generate_until", "doc_to_target": "{{hypothesis}}"}
    spec = only(library(tmp_path / "t", use_prompt="own.yaml:short", **keys).select(["sense"]))
    assert asked(spec) == ("A cat | b ||| sleeps. so", [], "a cat sleeps")
    basic = library(tmp_path / "t", use_prompt="qa-basic:q-newline-a", **keys).one("sense")
    assert isinstance(basic, TaskSpec)
    assert isinstance(basic.doc_to_text, FunctionRef)
    assert basic.doc_to_text.load()({"question": "why?"}) == "Q: why?\nA:"


def test_a_task_by_a_named_prompt_is_asked_as_any_other(tmp_path: Path) -> None:
    data = tmp_path / "data" / "rows.jsonl"
    (tmp_path / "t" / "promptsource_templates" / "json").mkdir(parents=True)
    own = library(
        tmp_path / "t",
        use_prompt="promptsource:is it so",
        dataset_path="json",
        dataset_name=None,
        dataset_kwargs={
            "data_files": {"validation": str(data)},
            "cache_dir": str(tmp_path / "cache"),
        },
    )
    (tmp_path / "t" / "promptsource_templates" / "json" / "templates.yaml").write_text(TEMPLATES)
    items = Task(only(own.select(["sense"])), limit=1, num_fewshot=1).items()
    example, question = items[0].prompt.split("\n\n")
    form = "A cat | b ||| sleeps. Is it so that cat {} sleeps?"
    assert question == form.format(0)
    assert example in {f"{form.format(number)} No" for number in (1, 2)}
    assert [request.continuation for request in items[0].requests] == [" Yes", " No"]
    assert items[0].gold == [1]


@pytest.mark.parametrize(
    ("use_prompt", "complaint"),
    [
        ("is it so", "expected `promptsource:<name>`, `<file>.yaml:<name>` or `qa-basic:<name>`"),
        ("promptsource:is it", r"promptsource has no prompt 'is it' \(did you mean is it so"),
        ("promptsource:go on", "go on has no answer choices, which multiple_choice needs"),
        ("elsewhere:x", "there are no prompts 'elsewhere'"),
        ("absent.yaml:x", r"absent\.yaml cannot be read: No such file"),
    ],
)
def test_a_prompt_that_is_not_there_is_named(
    tmp_path: Path, use_prompt: str, complaint: str
) -> None:
    with pytest.raises(TaskError, match=complaint):
        library(tmp_path / "t", use_prompt=use_prompt).select(["sense"])
    with pytest.raises(TaskError, match=r"no templates for other: install promptsource, or write"):
        library(
            tmp_path / "t", use_prompt="promptsource:*", dataset_path="other", dataset_name=None
        ).select(["sense"])
